// Computes the input of Magika's model from the bytes of a file, and a file type from the model's
// scores. Follows the extraction that Magika documents: leading bytes without leading white space,
// trailing bytes without trailing white space, both padded.
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

/// The contents of the model's config.min.json, and which labels are text.
struct Config {
  size_t beg_size = 1024, end_size = 1024, block_size = 4096;  // bytes
  size_t min_file_size = 8;                                    // of files that the model is run on
  int32_t padding = 256;
  double medium_confidence = 0.5;
  std::vector<std::string> labels;                // by index of the model's output
  std::map<std::string, double> thresholds;       // by label, for Mode::HighConfidence
  std::map<std::string, std::string> overwrites;  // labels that are replaced by another
  std::map<std::string, bool> is_text;            // by label
};

/// Parses the contents of config.min.json and content_types_kb.min.json. A configuration that needs
/// other features than beginning and end is an error that names the feature.
Result<Config> read_config(const std::string& config, const std::string& types);

/// The parts of a file that detection needs: its size, its first and its last block.
struct FileBlocks {
  uint64_t size = 0;
  std::string head, tail;  // of block size, or of file size if that is smaller
};
Result<FileBlocks> read_blocks(const std::string& path, size_t block_size);

struct Prediction {
  std::string label;
  double score = 0;
};

/// beg_size + end_size numbers for the model, or the answer for a file that is too small for it.
struct Extracted {
  std::vector<int32_t> features;
  std::optional<Prediction> settled;
};
Extracted extract(const FileBlocks& file, const Config& config);

/// Chooses the label for one row of the model's scores, which has one score per label: the best
/// one, or "txt" or "unknown" if its score is below the threshold of the mode.
Prediction decide(std::span<const float> scores, const Config& config, Mode mode);

/// An error about a file, from errno: "cannot read 'a.json': No such file or directory".
Error file_error(const std::string& what, const std::string& path);

}  // namespace filetype
