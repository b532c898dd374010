// From a file's bytes to what Magika's model reads, and from its scores to a file type. Follows the
// extraction that Magika documents: leading bytes without leading white space, trailing bytes
// without trailing white space, both padded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace filetype {

using reprise::Error;
using reprise::Result;

enum class Mode : uint8_t { HighConfidence, MediumConfidence, BestGuess };

/// What the model's config.min.json says, and which labels are text.
struct Config {
  size_t beg_size = 1024, end_size = 1024, block_size = 4096;
  size_t min_file_size = 8;  // smaller files are not given to the model
  int32_t padding = 256;
  double medium_confidence = 0.5;
  std::vector<std::string> labels;                // by index of the model's output
  std::map<std::string, double> thresholds;       // by label, for Mode::HighConfidence
  std::map<std::string, std::string> overwrites;  // labels that are shown as another
  std::map<std::string, bool> is_text;            // by label
};

/// `config` and `types` are config.min.json and content_types_kb.min.json. Configurations that ask
/// for other features than beginning and end are refused by name.
Result<Config> read_config(const std::string& config, const std::string& types);

/// A file as far as detection needs it: its size, first and last block.
struct FileBlocks {
  uint64_t size = 0;
  std::string head, tail;  // each the smaller of block size and file size
};
Result<FileBlocks> read_blocks(const std::string& path, size_t block_size);

struct Prediction {
  std::string label;
  double score = 0;
};

/// beg_size + end_size numbers for the model, or the answer for files that are too small for it.
struct Extracted {
  std::vector<int32_t> features;
  std::optional<Prediction> settled;
};
Extracted extract(const FileBlocks& file, const Config& config);

/// The label to show for one row of the model's scores: the best one, unless it is below what the
/// mode demands; then "txt" or "unknown". Scores must be as many as labels.
Prediction decide(std::span<const float> scores, const Config& config, Mode mode);

/// Of a file of the application: "cannot read 'a.json': No such file or directory", from errno.
Error file_error(const std::string& what, const std::string& path);

}  // namespace filetype
