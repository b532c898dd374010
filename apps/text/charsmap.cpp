#include "apps/text/charsmap.h"

#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i)
    out |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
  return out;
}

// A unit of the trie: a label and a leaf flag, or a value; and the offset of the children.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FF;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 0x200) >> 6);
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view bytes, const std::string& where) {
  const auto wrong = [&](const std::string& what) {
    return invalid_model(where + ": the table of replacements " + what);
  };
  if (bytes.size() < 4) return wrong("has only " + std::to_string(bytes.size()) + " bytes");
  const uint32_t size = little_endian(bytes, 0);
  if (size % 4 != 0 || size > bytes.size() - 4) {
    return wrong("says that its trie has " + std::to_string(size) + " bytes, but has " +
                 std::to_string(bytes.size()) + " bytes altogether");
  }
  Charsmap out;
  out.units_.reserve(size / 4);
  for (size_t at = 4; at < 4 + size; at += 4) out.units_.push_back(little_endian(bytes, at));
  out.texts_ = bytes.substr(4 + size);
  if (first_invalid(out.texts_) != out.texts_.size()) return wrong("has text that is not UTF-8");
  if (!out.texts_.empty() && out.texts_.back() != '\0') out.texts_ += '\0';
  return out;
}

std::optional<Charsmap::Found> Charsmap::find(std::string_view text, bool longest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Found> found;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (!leaf) continue;
    if (node >= units_.size()) break;
    const uint32_t begin = value_of(units_[node]);
    // A replacement begins with a character.
    if (begin >= texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) break;
    found = Found{i + 1, std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin)};
    if (!longest) break;
  }
  // An entry of a damaged table could end within a character.
  const bool whole = found && (found->length == text.size() ||
                               (static_cast<unsigned char>(text[found->length]) & 0xC0) != 0x80);
  return whole ? found : std::nullopt;
}

std::optional<Charsmap::Found> Charsmap::shortest(std::string_view text) const {
  return find(text, false);
}

std::optional<Charsmap::Found> Charsmap::longest(std::string_view text) const {
  return find(text, true);
}

std::optional<std::string> decode_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z')
      digit = c - 'A';
    else if (c >= 'a' && c <= 'z')
      digit = c - 'a' + 26;
    else if (c >= '0' && c <= '9')
      digit = c - '0' + 52;
    else if (c == '+')
      digit = 62;
    else if (c == '/')
      digit = 63;
    else
      return std::nullopt;
    bits = (bits << 6 | digit) & 0xFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return out;
}

}  // namespace reprise::text
