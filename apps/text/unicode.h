// Characters: UTF-8 and the properties that tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::text {

/// The length of the character that begins with this byte of valid UTF-8.
inline size_t char_length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}
/// The character at `at` of valid UTF-8.
char32_t char_at(std::string_view text, size_t at);
void append_char(std::string& out, char32_t c);
std::string to_utf8(char32_t c);
std::vector<char32_t> to_chars(std::string_view valid);
size_t count_chars(std::string_view valid);
/// Where the first byte stands that is not valid UTF-8; the size of the text if there is none.
size_t first_invalid(std::string_view text);
/// Each longest part of an ill-formed sequence becomes U+FFFD.
std::string valid_utf8(std::string_view bytes);

bool is_space(char32_t c);         // White_Space
bool is_control(char32_t c);       // Cc
bool is_other(char32_t c);         // Cc, Cf, Cn, Co
bool is_mark(char32_t c);          // M
bool is_nonspacing(char32_t c);    // Mn
bool is_punctuation(char32_t c);   // P
bool is_number(char32_t c);        // N
bool is_alphanumeric(char32_t c);  // Alphabetic or N
bool is_word(char32_t c);          // \w of regular expressions
bool is_cjk(char32_t c);           // ideographs that BERT separates
/// Whether the character was there in Unicode 8, whose categories the library `tokenizers` has for
/// BERT.
bool is_of_unicode_8(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_digit(char32_t c);  // of any script
void append_lower(std::string& out, std::string_view text);
/// With the rules that look at more than one character.
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
/// A character at the beginning of a word.
void append_title(std::string& out, char32_t c);

enum class NormalForm : unsigned char { NFC, NFD, NFKC, NFKD };
Result<std::string> normal_form(NormalForm form, const std::string& text);
/// Where each extended grapheme cluster ends.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace reprise::text
