#include "apps/transcribe/vocabulary.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/samples/path.h"
#include "apps/samples/terminal.h"

namespace transcribe {
namespace {

using Json = nlohmann::json;

/// GPT-2 writes each byte as a character that can be seen: most as themselves, and the others, in
/// their order, as those from U+0100 on.
std::map<std::string, char, std::less<>> bytes_of_characters() {
  std::map<std::string, char, std::less<>> out;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const int code = is_visible ? byte : next++;
    std::string utf8;
    if (code < 128) {
      utf8 = static_cast<char>(code);
    } else {
      utf8 = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
    out[utf8] = static_cast<char>(byte);
  }
  return out;
}

/// The list of ids with this name; false if there is something else.
bool read_ids(const Json& config, const char* name, size_t size, std::vector<int64_t>& ids) {
  if (!config.is_object() || !config.contains(name)) return true;
  if (!config[name].is_array()) return false;
  for (const Json& id : config[name]) {
    if (!id.is_number_integer() || id.get<int64_t>() >= static_cast<int64_t>(size)) return false;
    if (id.get<int64_t>() >= 0) ids.push_back(id.get<int64_t>());
  }
  return true;
}

}  // namespace

Result<Vocabulary> Vocabulary::read(const std::string& tokens, const std::string& config) {
  std::ifstream in(samples::utf8_path(tokens), std::ios::binary);
  std::ifstream settings(samples::utf8_path(config), std::ios::binary);
  for (const auto& [stream, path] : {std::pair(&in, &tokens), std::pair(&settings, &config)})
    if (!*stream)
      return Error{REPRISE_IO, *path + ": cannot be opened; 'tools/models whisper' fetches it"};
  Vocabulary v;
  std::map<std::string, int64_t> special;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("<|") && line.ends_with("|>"))
      special[line] = static_cast<int64_t>(v.tokens_.size());
    v.tokens_.push_back(std::move(line));
  }
  const std::pair<const char*, int64_t*> needed[] = {{"<|endoftext|>", &v.end},
                                                     {"<|startoftranscript|>", &v.start},
                                                     {"<|notimestamps|>", &v.no_timestamps},
                                                     {"<|0.00|>", &v.first_time}};
  for (const auto& [name, id] : needed) {
    const auto found = special.find(name);
    if (found == special.end())
      return Error{REPRISE_INVALID_INPUT, tokens + " is not Whisper's: it lacks " + name};
    *id = found->second;
  }
  if (v.no_timestamps < 1 || v.first_time <= v.no_timestamps)
    return Error{REPRISE_INVALID_INPUT, tokens + " is not Whisper's: times come last"};
  v.no_speech = v.no_timestamps - 1;  // <|nocaptions|> or <|nospeech|>
  const bool knows_languages =
      static_cast<int64_t>(v.tokens_.size()) - v.first_time == 1501 && v.end == 50257;
  if (knows_languages && special.contains("<|en|>") && special.contains("<|transcribe|>"))
    v.prompt = {special["<|en|>"], special["<|transcribe|>"]};
  const Json json = Json::parse(settings, nullptr, false);
  if (!read_ids(json, "suppress_ids", v.size(), v.suppressed) ||
      !read_ids(json, "suppress_ids_begin", v.size(), v.suppressed_first))
    return Error{REPRISE_INVALID_INPUT, config + ": suppress_ids are not tokens of " + tokens};
  return v;
}

std::string Vocabulary::text(const std::vector<int64_t>& ids) const {
  static const auto bytes = bytes_of_characters();
  std::string out;
  for (const int64_t id : ids) {
    if (id < 0 || id >= end) continue;
    const std::string& token = tokens_[static_cast<size_t>(id)];
    for (size_t at = 0; at < token.size();) {
      const size_t size = static_cast<unsigned char>(token[at]) < 128 ? 1 : 2;
      const auto found = bytes.find(std::string_view(token).substr(at, size));
      if (found != bytes.end()) out += found->second;
      at += size;
    }
  }
  return out;
}

std::string Vocabulary::shown(const std::vector<int64_t>& ids) const {
  const std::string said = samples::without_controls(text(ids));
  return said.substr(std::min(said.find_first_not_of(' '), said.size()));
}

}  // namespace transcribe
