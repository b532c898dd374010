#include "apps/filetype/features.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/samples/path.h"

namespace filetype {

namespace {

using Json = nlohmann::json;

Error invalid(std::string message) {
  return {REPRISE_INVALID_MODEL, std::move(message)};
}

Result<Json> read_json(const std::string& path) {
  std::ifstream in(samples::utf8_path(path), std::ios::binary);
  if (!in) return file_error("cannot read", path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid("'" + path + "' is not a JSON object");
  return Result<Json>(std::move(json));
}

/// Reads values of the configuration and keeps the first error.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  /// A required number of the configuration, which must not be negative.
  double number(const char* key) {
    const auto it = json_.find(key);
    if (it != json_.end() && it->is_number() && it->get<double>() >= 0) return it->get<double>();
    complain(std::string("the configuration has no number '") + key + "'");
    return 0;
  }

  size_t size(const char* key) {
    const double v = number(key);
    if (v <= 1 << 20) return static_cast<size_t>(v);
    complain(std::string("'") + key + "' is too large");
    return 0;
  }

  void complain(std::string message) {
    if (!error_) error_ = invalid(std::move(message));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json& json_;
  std::optional<Error> error_;
};

void read_sizes(const Json& json, Reader& from, Config& c) {
  c.beg_size = from.size("beg_size");
  c.end_size = from.size("end_size");
  c.block_size = from.size("block_size");
  c.min_file_size = from.size("min_file_size_for_dl");
  c.padding = static_cast<int32_t>(from.size("padding_token"));
  c.medium_confidence = from.number("medium_confidence_threshold");
  if (from.size("mid_size") != 0 || json.value("use_inputs_at_offsets", false))
    from.complain("the configuration needs features from the middle of files");
  const size_t largest = std::max(c.beg_size, c.end_size);
  if (c.min_file_size == 0 || c.min_file_size > c.beg_size || largest > c.block_size)
    from.complain("the configuration's sizes contradict each other");
}

void read_labels(const Json& json, Reader& from, Config& c) {
  for (const Json& label : json.value("target_labels_space", Json::array())) {
    if (!label.is_string()) return from.complain("a label of the configuration is not a string");
    c.labels.push_back(label);
  }
  const Json thresholds = json.value("thresholds", Json::object());
  for (const auto& [label, threshold] : thresholds.items()) {
    if (!threshold.is_number())
      return from.complain("the threshold of '" + label + "' is not a number");
    c.thresholds[label] = threshold;
  }
  const Json overwrite_map = json.value("overwrite_map", Json::object());
  for (const auto& [label, to] : overwrite_map.items()) {
    if (!to.is_string()) return from.complain("the overwrite of '" + label + "' is not a string");
    c.overwrites[label] = to;
  }
  if (c.labels.empty()) from.complain("the configuration has no 'target_labels_space'");
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string_view strip_left(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  return s;
}

std::string_view strip_right(std::string_view s) {
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

/// The JSON library refuses to write a string that is not UTF-8.
bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Prediction few_bytes(std::string_view content) {
  return {is_utf8(content) ? "txt" : "unknown", 1.0};
}

}  // namespace

Error file_error(const std::string& what, const std::string& path) {
  const int error = errno;
  return {REPRISE_IO, what + " '" + path + "': " + std::strerror(error)};
}

Result<Config> read_config(const std::string& config, const std::string& types) {
  Config c;
  const Result<Json> json = read_json(config);
  if (!json) return json.error();
  Reader reader(*json);
  read_sizes(*json, reader, c);
  read_labels(*json, reader, c);
  if (reader.error()) return invalid("'" + config + "': " + reader.error()->message);
  Result<Json> kinds = read_json(types);
  if (!kinds) return kinds.error();
  for (const auto& [label, kind] : kinds->items()) {
    c.is_text[label] = kind.is_object() && kind.value("is_text", Json(false)) == true;
  }
  return c;
}

Result<FileBlocks> read_blocks(const std::string& path, size_t block_size) {
  std::ifstream in(samples::utf8_path(path), std::ios::binary | std::ios::ate);
  if (!in) return file_error("cannot read", path);
  FileBlocks file;
  const std::streamoff size = in.tellg();
  if (size < 0) return file_error("cannot read", path);
  file.size = static_cast<uint64_t>(size);
  const size_t n = static_cast<size_t>(std::min<uint64_t>(file.size, block_size));
  file.head.resize(n);
  file.tail.resize(n);
  in.seekg(0);
  in.read(file.head.data(), static_cast<std::streamsize>(n));
  in.seekg(size - static_cast<std::streamoff>(n));
  in.read(file.tail.data(), static_cast<std::streamsize>(n));
  if (!in) return file_error("cannot read", path);
  return file;
}

Extracted extract(const FileBlocks& file, const Config& config) {
  Extracted out;
  if (file.size == 0) {
    out.settled = {"empty", 1.0};
    return out;
  }
  const std::string_view head = strip_left(file.head).substr(0, config.beg_size);
  // With too few bytes besides white space, only text and binary can be distinguished.
  if (file.size < config.min_file_size || head.size() < config.min_file_size) {
    out.settled = few_bytes(file.head);
    return out;
  }
  std::string_view tail = strip_right(file.tail);
  tail.remove_prefix(tail.size() - std::min(tail.size(), config.end_size));
  out.features.assign(config.beg_size + config.end_size, config.padding);
  const auto byte = [](char c) { return static_cast<int32_t>(static_cast<unsigned char>(c)); };
  std::transform(head.begin(), head.end(), out.features.begin(), byte);
  std::transform(tail.rbegin(), tail.rend(), out.features.rbegin(), byte);
  return out;
}

Prediction decide(std::span<const float> scores, const Config& config, Mode mode) {
  const auto best = std::max_element(scores.begin(), scores.end());
  const std::string& label = config.labels[static_cast<size_t>(best - scores.begin())];
  const double score = *best;
  const auto overwrite = config.overwrites.find(label);
  const std::string shown = overwrite == config.overwrites.end() ? label : overwrite->second;
  double demanded = config.medium_confidence;
  const auto own = config.thresholds.find(label);
  if (mode == Mode::HighConfidence && own != config.thresholds.end()) demanded = own->second;
  if (mode == Mode::BestGuess || score >= demanded) return {shown, score};
  const auto text = config.is_text.find(shown);
  return {text != config.is_text.end() && text->second ? "txt" : "unknown", score};
}

}  // namespace filetype
