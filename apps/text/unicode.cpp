#include "apps/text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <memory>

namespace reprise::text {

char32_t char_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
  return (lead & 0x07) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
}

void append_char(std::string& out, char32_t c) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::string to_utf8(char32_t c) {
  std::string out;
  append_char(out, c);
  return out;
}

std::vector<char32_t> to_chars(std::string_view valid) {
  std::vector<char32_t> out;
  out.reserve(valid.size());
  for (size_t i = 0; i < valid.size(); i += char_length(valid[i])) out.push_back(char_at(valid, i));
  return out;
}

size_t count_chars(std::string_view valid) {
  size_t count = 0;
  for (const char c : valid) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

namespace {

/// Bytes of the well-formed character at `at`; if there is none, `wrong` is the length of the
/// longest part of one, at least 1, and the result is 0.
size_t well_formed(std::string_view text, size_t at, size_t& wrong) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  wrong = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (; wrong < length; ++wrong) {
    if (at + wrong >= text.size()) return 0;
    const unsigned b = byte(wrong);
    if (b < low || b > high) return 0;
    low = 0x80, high = 0xBF;
  }
  return length;
}

icu::UnicodeString from_utf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
}

}  // namespace

size_t first_invalid(std::string_view text) {
  size_t at = 0, wrong = 0;
  while (at < text.size()) {
    const size_t length = well_formed(text, at, wrong);
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0, wrong = 0; at < bytes.size();) {
    const size_t length = well_formed(bytes, at, wrong);
    out += length > 0 ? bytes.substr(at, length) : std::string_view("\xEF\xBF\xBD");
    at += length > 0 ? length : wrong;
  }
  return out;
}

bool is_space(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}
bool is_control(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_CONTROL_CHAR;
}
bool is_other(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) &
          (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CN_MASK | U_GC_CO_MASK)) != 0;
}
bool is_mark(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0;
}
bool is_nonspacing(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK;
}
bool is_punctuation(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}
bool is_number(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0;
}
bool is_alphanumeric(char32_t c) {
  return u_isUAlphabetic(static_cast<UChar32>(c)) != 0 || is_number(c);
}
bool is_word(char32_t c) {
  return u_isUAlphabetic(static_cast<UChar32>(c)) != 0 || c == 0x200C || c == 0x200D ||
         (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) !=
             0;
}

bool is_of_unicode_8(char32_t c) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && age[0] <= 8;
}

bool is_cjk(char32_t c) {
  static constexpr struct {
    char32_t first, last;
  } kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                 {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& r : kRanges) {
    if (c >= r.first && c <= r.last) return true;
  }
  return false;
}

void append_lower(std::string& out, std::string_view text) {
  // Character by character, without the rule for a sigma at the end of a word.
  for (size_t i = 0; i < text.size(); i += char_length(text[i])) {
    const char32_t c = char_at(text, i);
    if (c == 0x130) {  // the only character whose lower case has two
      out += "i\xCC\x87";
    } else {
      append_char(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
    }
  }
}

bool is_upper(char32_t c) {
  return u_isUUppercase(static_cast<UChar32>(c)) != 0;
}
bool is_lower(char32_t c) {
  return u_isULowercase(static_cast<UChar32>(c)) != 0;
}
bool is_digit(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}

std::string upper_case(std::string_view text) {
  std::string out;
  return from_utf8(text).toUpper(icu::Locale::getRoot()).toUTF8String(out);
}

std::string lower_case(std::string_view text) {
  std::string out;
  return from_utf8(text).toLower(icu::Locale::getRoot()).toUTF8String(out);
}

void append_title(std::string& out, char32_t c) {
  icu::UnicodeString one(static_cast<UChar32>(c));
  const char32_t title = static_cast<char32_t>(u_totitle(static_cast<UChar32>(c)));
  if (title != c) return append_char(out, title);
  // Such as a letter that becomes two.
  one.toTitle(nullptr, icu::Locale::getRoot()).toUTF8String(out);
}

Result<std::string> normal_form(NormalForm form, const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* n = nullptr;
  if (form == NormalForm::NFC) n = icu::Normalizer2::getNFCInstance(status);
  if (form == NormalForm::NFD) n = icu::Normalizer2::getNFDInstance(status);
  if (form == NormalForm::NFKC) n = icu::Normalizer2::getNFKCInstance(status);
  if (form == NormalForm::NFKD) n = icu::Normalizer2::getNFKDInstance(status);
  std::string out;
  if (U_SUCCESS(status) != 0) {
    icu::StringByteSink<std::string> sink(&out);
    n->normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, status);
  }
  if (U_SUCCESS(status) != 0) return out;
  return internal_error(std::string("ICU cannot normalise a text: ") + u_errorName(status));
}

std::vector<size_t> grapheme_ends(std::string_view text) {
  std::vector<size_t> out;
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  const icu::UnicodeString wide = from_utf8(text);
  if (U_SUCCESS(status) == 0) {
    for (size_t i = 0; i < text.size();) out.push_back(i += char_length(text[i]));
    return out;
  }
  breaks->setText(wide);
  breaks->first();
  size_t at = 0;
  int32_t from = 0;
  for (int32_t to = breaks->next(); to != icu::BreakIterator::DONE; to = breaks->next()) {
    for (; from < to; from = wide.moveIndex32(from, 1)) at += char_length(text[at]);
    out.push_back(at);
  }
  return out;
}

}  // namespace reprise::text
