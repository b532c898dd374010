#include "apps/say/phonemes.h"

#include <espeak-ng/speak_lib.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace say {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
/// The marks that voices know, and which of them end a sentence.
constexpr std::string_view kMarks = ".,;:?!", kEnds = ".?!";

/// Words before a point that does not end the sentence.
bool is_title(std::string_view word) {
  constexpr std::array<std::string_view, 8> kTitles = {"Dr",   "Mr", "Mrs", "Ms",
                                                       "Prof", "St", "Sr",  "Jr"};
  return std::find(kTitles.begin(), kTitles.end(), word) != kTitles.end();
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// The mark at which espeak-ng has ended a part of the text; 0 if it was another reason. espeak-ng
/// reads one character more than the part, unless the text ends.
char mark_of(std::string_view part, bool ends) {
  while (!ends && !part.empty() && continues_character(part.back())) part.remove_suffix(1);
  if (!ends && !part.empty()) part.remove_suffix(1);
  part = part.substr(0, part.find_last_not_of(" \t\r\n\"')]") + 1);
  if (part.empty()) return 0;
  const char last = part.back();
  part.remove_suffix(1);
  if (last == '.' && is_title(part.substr(part.find_last_of(kSpaces) + 1))) return 0;
  if (kMarks.find(last) != std::string_view::npos) return last;
  return ends ? '.' : ',';  // a dash, a bracket or a new line
}

/// Without the marks of another language, as in "(en)", and spaces around.
std::string cleaned(std::string_view phonemes) {
  std::string out;
  bool outside = true;
  for (const char c : phonemes) {
    if (c == '(') outside = false;
    if (outside && !(c == ' ' && (out.empty() || out.back() == ' '))) out += c == '\n' ? ' ' : c;
    if (c == ')') outside = true;
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

Error set_up(const std::string& voice) {
  static const int rate =
      espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 0, nullptr, espeakINITIALIZE_DONT_EXIT);
  if (rate <= 0)
    return {REPRISE_IO, "espeak-ng found no data; the package espeak-ng-data has them"};
  if (espeak_SetVoiceByName(voice.c_str()) != EE_OK)
    return {REPRISE_UNSUPPORTED, "espeak-ng has no voice '" + voice + "'"};
  return {};
}

}  // namespace

Result<std::vector<std::string>> phonemes_of(const std::string& text, const std::string& voice) {
  Error e = set_up(voice);
  if (e.status != REPRISE_OK) return e;
  std::string plain = text;  // controls would be commands
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  std::vector<std::string> sentences;
  std::string sentence;
  const char* const end = plain.c_str() + plain.size();
  const void* next = plain.c_str();
  while (next) {
    const char* const begin = static_cast<const char*>(next);
    const char* const spoken = espeak_TextToPhonemes(&next, espeakCHARS_UTF8, espeakPHONEMES_IPA);
    const char* const after = next ? static_cast<const char*>(next) : end;
    if (next && (after <= begin || after > end)) break;
    const std::string clause = cleaned(spoken ? spoken : "");
    const char mark = mark_of({begin, static_cast<size_t>(after - begin)}, after == end);
    if (!clause.empty()) {
      if (!sentence.empty()) sentence += ' ';
      sentence += clause;
      if (mark) sentence += mark;
    }
    const bool is_end = mark && kEnds.find(mark) != std::string_view::npos;
    if (!sentence.empty() && (is_end || !next)) {
      sentences.push_back(std::move(sentence));
      sentence.clear();
    }
  }
  return sentences;
}

}  // namespace say
