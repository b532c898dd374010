#include "apps/say/voice.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/samples/path.h"

namespace say {
namespace {

using Json = nlohmann::json;

constexpr const char* kPadding = "_";
constexpr const char* kBeginning = "^";
constexpr const char* kEnd = "$";

/// The element at a JSON pointer, or null.
const Json* element(const Json& document, const std::string& at) {
  const Json::json_pointer pointer(at);
  return document.contains(pointer) ? &document.at(pointer) : nullptr;
}

/// Reads a number that may be missing; false if it is something else.
template <typename T>
bool read_number(const Json& document, const std::string& at, double least, double most, T& value) {
  const Json* const found = element(document, at);
  if (!found) return true;
  if (!found->is_number()) return false;
  const auto number = found->get<double>();
  if (!(number >= least && number <= most)) return false;
  value = static_cast<T>(number);
  return true;
}

/// Reads a list of small numbers; false if it is something else.
bool read_ids(const Json& list, std::vector<int64_t>& ids) {
  if (!list.is_array() || list.empty() || list.size() > 16) return false;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > 65535) return false;
    ids.push_back(id.get<int64_t>());
  }
  return true;
}

/// The bytes of the first character.
size_t character_size(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

std::string fault_of(const Json& document, Voice& voice) {
  if (!document.is_object()) return "it is not a JSON object";
  if (const Json* const kind = element(document, "/phoneme_type"); kind && *kind != "espeak")
    return "its phoneme_type is not \"espeak\"";
  if (const Json* const name = element(document, "/espeak/voice")) {
    if (!name->is_string()) return "espeak.voice is not a string";
    voice.espeak = name->get<std::string>();
  }
  if (!read_number(document, "/audio/sample_rate", 1000, 192000, voice.rate))
    return "audio.sample_rate is not a number from 1000 to 192000";
  if (!read_number(document, "/num_speakers", 1, 100000, voice.speakers))
    return "num_speakers is not a number from 1 to 100000";
  Style& s = voice.style;
  if (!read_number(document, "/inference/noise_scale", 0, 10, s.noise) ||
      !read_number(document, "/inference/noise_w", 0, 10, s.rhythm_noise) ||
      !read_number(document, "/inference/length_scale", 0.05, 20, s.length))
    return "inference.noise_scale, noise_w or length_scale is missing or out of range";
  const Json* const map = element(document, "/phoneme_id_map");
  if (!map || !map->is_object()) return "it has no phoneme_id_map";
  for (const auto& [phoneme, list] : map->items())
    if (!read_ids(list, voice.ids[phoneme]))
      return "the ids of '" + phoneme + "' are not a list of numbers from 0 to 65535";
  for (const char* const needed : {kPadding, kBeginning, kEnd})
    if (!voice.ids.contains(needed)) return std::string("its phoneme_id_map lacks ") + needed;
  return {};
}

}  // namespace

Result<Voice> Voice::read(const std::string& path) {
  std::ifstream in(samples::utf8_path(path), std::ios::binary);
  if (!in)
    return Error{REPRISE_IO,
                 path + ": cannot be opened; 'tools/models voice' fetches a voice with it"};
  const std::string text(std::istreambuf_iterator<char>(in), {});
  Voice voice;
  const std::string fault = fault_of(Json::parse(text, nullptr, false), voice);
  if (fault.empty()) return voice;
  return Error{REPRISE_INVALID_INPUT, path + " does not describe a voice of Piper: " + fault};
}

Result<std::vector<int64_t>> Voice::ids_of(const std::string& phonemes,
                                           std::string& unknown) const {
  std::vector<int64_t> out;
  out.reserve(2 * phonemes.size() + 3);
  const auto append = [&](std::string_view phoneme) {
    const auto found = ids.find(phoneme);
    if (found == ids.end()) return false;
    out.insert(out.end(), found->second.begin(), found->second.end());
    return true;
  };
  append(kBeginning);
  append(kPadding);
  const size_t empty = out.size();
  for (size_t at = 0; at < phonemes.size();) {
    const std::string_view rest = std::string_view(phonemes).substr(at);
    const std::string_view phoneme = rest.substr(0, character_size(rest));
    if (append(phoneme)) {
      append(kPadding);
    } else {
      unknown += phoneme;
    }
    at += phoneme.size();
  }
  if (out.size() == empty)
    return Error{REPRISE_INVALID_INPUT, "'" + phonemes + "' has no phoneme that the voice knows"};
  append(kEnd);
  return out;
}

}  // namespace say
