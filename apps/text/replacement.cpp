#include "apps/text/replacement.h"

#include <array>

#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

using formats::Json;

constexpr bool stands_for_itself(unsigned b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
}

constexpr auto kCharOfByte = [] {
  std::array<char16_t, 256> out{};
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b)
    out[b] = static_cast<char16_t>(stands_for_itself(b) ? b : next++);
  return out;
}();

constexpr auto kByteOfChar = [] {
  std::array<int16_t, 0x144> out{};
  for (auto& b : out) b = -1;
  for (unsigned b = 0; b < 256; ++b) out[kCharOfByte[b]] = static_cast<int16_t>(b);
  return out;
}();

}  // namespace

void append_byte_char(std::string& out, unsigned char byte) {
  append_char(out, kCharOfByte[byte]);
}

std::string to_byte_chars(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) append_byte_char(out, static_cast<unsigned char>(c));
  return out;
}

int byte_of_char(char32_t c) {
  return c < kByteOfChar.size() ? kByteOfChar[c] : -1;
}

Result<Regex> parse_pattern(const Json& json) {
  RP_ASSIGN(const Json pattern, json.at("pattern"));
  RP_TRY(pattern.object().status());
  if (const auto text = pattern.find("String")) {
    RP_ASSIGN(const std::string_view literal, text->text());
    return Regex::literal(literal, text->path());
  }
  RP_ASSIGN(const Json regex, pattern.at("Regex"));
  RP_ASSIGN(const std::string_view text, regex.text());
  return Regex::compile(text, regex.path());
}

Result<Replacement> Replacement::parse(const Json& json) {
  RP_ASSIGN(Regex pattern, parse_pattern(json));
  RP_ASSIGN(const Json content, json.at("content"));
  RP_ASSIGN(const std::string_view text, content.text());
  return Replacement(std::move(pattern), std::string(text));
}

Status Replacement::apply(std::string& text) const {
  std::string out;
  size_t copied = 0;
  Match m;
  bool after = false;
  for (size_t from = 0; from <= text.size(); from = m.end, after = true) {
    RP_ASSIGN(const bool found, pattern_.search(text, from, after, m));
    if (!found) break;
    out.append(text, copied, m.begin - copied);
    out += content_;
    if (out.size() > 64 * text.size() + 65536)
      return invalid_input("a text becomes more than 64 times as long by a replacement");
    copied = m.end;
  }
  if (copied == 0 && out.empty()) return {};
  out.append(text, copied);
  text = std::move(out);
  return {};
}

}  // namespace reprise::text
