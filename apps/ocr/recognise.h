// What a line says: batches of lines for the models, and text from what they return.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/ocr/detect.h"

namespace ocr {

struct Text {
  std::string text;  // UTF-8
  float score = 0;   // the mean probability of its characters
};

/// The characters of the recognition model, one in each line of the file. The model's classes are a
/// blank, these, and a space.
class Alphabet {
 public:
  static Result<Alphabet> read(const std::string& path);
  /// Reads the characters from the metadata of an ONNX file.
  static Result<Alphabet> from_model(const std::string& path);
  Error write(const std::string& path) const;

  explicit Alphabet(std::string lines);
  size_t classes() const { return characters_.size(); }
  /// Decodes probabilities of [steps, classes()]: at each step the most probable class, of which
  /// repetitions and then blanks are left out (connectionist temporal classification).
  Text decode(std::span<const float> probabilities) const;

 private:
  std::string lines_;
  std::vector<std::string> characters_;  // of each class
};

/// The height of lines in batches, and the least width of a batch: the model was trained with it.
constexpr int kLineHeight = 48, kNarrowestBatch = 320;
/// A line at the height of batches, and at most `widest` wide.
Image line_of_batch(const Image& line, int widest);
/// Groups lines of similar width, as indices into `lines`: the model overlooks spaces if much of a
/// batch is empty beside a line.
std::vector<std::vector<size_t>> group_by_width(const std::vector<Image>& lines, size_t largest);

}  // namespace ocr
