#include "apps/filetype/features.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/common/status.h"
#include "apps/common/utf8.h"

namespace reprise::filetype {

namespace {

using Json = nlohmann::json;

Result<Json> read_json(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return app::file_error("cannot read", path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid_model("'" + path + "' is not a JSON object");
  return json;
}

/// A number of the configuration that must be there and not negative.
Result<double> number_of(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_number() || it->get<double>() < 0) {
    return invalid_model(std::string("the configuration has no number '") + key + "'");
  }
  return it->get<double>();
}

Result<size_t> size_of_key(const Json& json, const char* key) {
  RP_ASSIGN(const double v, number_of(json, key));
  if (v > 1 << 20) return invalid_model(std::string("'") + key + "' is too large");
  return static_cast<size_t>(v);
}

Status read_sizes(const Json& json, Config& c) {
  RP_ASSIGN(c.beg_size, size_of_key(json, "beg_size"));
  RP_ASSIGN(c.end_size, size_of_key(json, "end_size"));
  RP_ASSIGN(c.block_size, size_of_key(json, "block_size"));
  RP_ASSIGN(c.min_file_size, size_of_key(json, "min_file_size_for_dl"));
  RP_ASSIGN(const size_t padding, size_of_key(json, "padding_token"));
  RP_ASSIGN(const size_t mid_size, size_of_key(json, "mid_size"));
  RP_ASSIGN(c.medium_confidence, number_of(json, "medium_confidence_threshold"));
  c.padding = static_cast<int32_t>(padding);
  if (mid_size != 0 || json.value("use_inputs_at_offsets", false)) {
    return unsupported("the configuration asks for features from the middle of files");
  }
  const size_t largest = std::max(c.beg_size, c.end_size);
  if (c.min_file_size == 0 || c.min_file_size > c.beg_size || largest > c.block_size) {
    return invalid_model("the configuration's sizes contradict each other");
  }
  return {};
}

Status read_labels(const Json& json, Config& c) {
  for (const Json& label : json.value("target_labels_space", Json::array())) {
    if (!label.is_string()) return invalid_model("a label of the configuration is not a string");
    c.labels.push_back(label);
  }
  const Json thresholds = json.value("thresholds", Json::object());
  for (const auto& [label, threshold] : thresholds.items()) {
    if (!threshold.is_number())
      return invalid_model("the threshold of '" + label + "' is not a number");
    c.thresholds[label] = threshold;
  }
  const Json overwrite_map = json.value("overwrite_map", Json::object());
  for (const auto& [from, to] : overwrite_map.items()) {
    if (!to.is_string()) return invalid_model("the overwrite of '" + from + "' is not a string");
    c.overwrites[from] = to;
  }
  if (c.labels.empty()) return invalid_model("the configuration has no 'target_labels_space'");
  return {};
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

Prediction few_bytes(std::string_view content) {
  return {app::from_utf8(content).ok() ? "txt" : "unknown", 1.0};
}

}  // namespace

Result<Config> read_config(const std::string& config, const std::string& types) {
  Config c;
  RP_ASSIGN(const Json json, read_json(config));
  Status s = read_sizes(json, c);
  if (s.ok()) s = read_labels(json, c);
  if (!s.ok()) return s.with_context("'" + config + "'");
  RP_ASSIGN(const Json kinds, read_json(types));
  for (const auto& [label, kind] : kinds.items()) {
    c.is_text[label] = kind.is_object() && kind.value("is_text", Json(false)) == true;
  }
  return c;
}

Result<FileBlocks> read_blocks(const std::string& path, size_t block_size) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return app::file_error("cannot read", path);
  FileBlocks file;
  const std::streamoff size = in.tellg();
  if (size < 0) return app::file_error("cannot read", path);
  file.size = static_cast<uint64_t>(size);
  const size_t n = static_cast<size_t>(std::min<uint64_t>(file.size, block_size));
  file.head.resize(n);
  file.tail.resize(n);
  in.seekg(0);
  in.read(file.head.data(), static_cast<std::streamsize>(n));
  in.seekg(size - static_cast<std::streamoff>(n));
  in.read(file.tail.data(), static_cast<std::streamsize>(n));
  if (!in) return app::file_error("cannot read", path);
  return file;
}

Extracted extract(const FileBlocks& file, const Config& config) {
  Extracted out;
  if (file.size == 0) {
    out.settled = {"empty", 1.0};
    return out;
  }
  const std::string_view head = strip_left(file.head).substr(0, config.beg_size);
  // Too few bytes besides white space say nothing: only text and binary are told apart.
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

}  // namespace reprise::filetype
