// Parts that normalizers, pre-tokenizers and decoders share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/text/regex.h"
#include "codegen/formats/json.h"

namespace reprise::text {

/// A member "pattern": {"String": ...} or {"Regex": ...}.
Result<Regex> parse_pattern(const formats::Json& json);

/// Replaces each match of a pattern by a text.
class Replacement {
 public:
  Replacement(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  /// From the members "pattern" and "content".
  static Result<Replacement> parse(const formats::Json& json);
  Status apply(std::string& text) const;

 private:
  Regex pattern_;
  std::string content_;
};

/// Each byte as the character that stands for it in byte-level vocabularies: printable characters
/// of Latin-1 stand for themselves, all other bytes for characters from U+0100 on.
std::string to_byte_chars(std::string_view bytes);
void append_byte_char(std::string& out, unsigned char byte);
/// The byte that a character stands for, or -1.
int byte_of_char(char32_t c);

}  // namespace reprise::text
