#include "tests/ptx/machine/tokens.h"

#include <charconv>

namespace reprise::test::ptx {
namespace {

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.' || c == ':';
}

}  // namespace

std::vector<Token> tokens(std::string_view text) {
  std::vector<Token> out;
  uint32_t line = 1;
  for (size_t at = 0; at < text.size() && text[at] != '\0';) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      const size_t end = std::min(text.find("*/", at), text.size() - 2) + 2;
      for (; at < end; ++at) line += text[at] == '\n' ? 1 : 0;
    } else if (c == '"') {
      const size_t end = std::min(text.find('"', at + 1), text.size() - 1) + 1;
      out.push_back({std::string(text.substr(at, end - at)), line});
      at = end;
    } else if (in_word(c) && c != ':') {
      size_t end = at;
      while (end < text.size() && in_word(text[end])) ++end;
      // The colons within "cp.async.shared::cta" are part of the word, that of a label is not.
      if (text[end - 1] == ':') --end;
      out.push_back({std::string(text.substr(at, end - at)), line});
      at = end;
    } else {
      out.push_back({std::string(1, c), line});
      ++at;
    }
  }
  return out;
}

Status fault(uint32_t line, const std::string& what) {
  return {Code::Device, "PTX line " + std::to_string(line) + ": " + what};
}

bool number(std::string_view text, uint64_t& bits) {
  const bool negative = text.starts_with("-");
  if (negative) text.remove_prefix(1);
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  int base = 10;
  const std::string_view prefix = text.substr(0, 2);
  if (prefix == "0f" || prefix == "0F" || prefix == "0d" || prefix == "0D" || prefix == "0x" ||
      prefix == "0X") {
    base = 16;
    text.remove_prefix(2);
  }
  if (text.ends_with("U")) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, base);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (negative) bits = 0 - bits;
  return true;
}

}  // namespace reprise::test::ptx
