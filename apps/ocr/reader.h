// Reads the text of pictures with three models: where text is, which way up, and what it says.
#pragma once

#include <string>
#include <vector>

#include "apps/ocr/detect.h"
#include "apps/ocr/recognise.h"
#include "apps/samples/device.h"

namespace ocr {

struct ReaderOptions {
  std::string models;                // folder
  std::string device = "auto";       // as reprise_device_open takes it
  std::vector<std::string> targets;  // for models that must be compiled; none: Vulkan
  bool recompile = false;
  int side = 960;    // of the picture that text is looked for in
  size_t batch = 6;  // lines in one run
  DetectOptions detect;
  float least_score = 0.5F;  // lines below are dropped
};

struct Line {
  Quad box;
  bool turned = false;  // the line was upside down
  Text text;
};

/// Milliseconds of the three models, with what is done before and after them.
struct Times {
  double detect = 0, turn = 0, recognise = 0;
};

/// A model with one input and one output, both float32.
class Model {
 public:
  static Result<Model> create(const reprise::Package& package, const reprise::Device& device,
                              const std::string& name);
  /// Returns the output; `dims` receives its shape.
  Result<std::vector<float>> run(const Batch& batch, std::vector<int64_t>& dims);

 private:
  Model(reprise::Session session, std::string input)
      : session_(std::move(session)), input_(std::move(input)) {}
  reprise::Session session_;
  std::string input_;
};

class Reader {
 public:
  /// `options.models` has det.rpk, cls.rpk, rec.rpk and alphabet.txt, or det.onnx, cls.onnx and
  /// rec.onnx, of which those files are then made. `validation` must outlive the reader.
  static Result<Reader> open(const ReaderOptions& options, samples::Validation& validation);
  Result<std::vector<Line>> read(const Image& image);

  reprise_device_info device() const { return device_.info(); }
  const Times& times() const { return times_; }

 private:
  Reader(ReaderOptions options, reprise::Device device, Alphabet alphabet, Model det, Model cls,
         Model rec);
  Result<std::vector<Quad>> find(const Image& image);
  /// Turns pictures of lines that are upside down.
  Error set_upright(std::vector<Image>& pictures, std::vector<Line>& lines);
  Error recognise(const std::vector<Image>& pictures, std::vector<Line>& lines);

  ReaderOptions options_;
  reprise::Device device_;  // before the sessions on it
  Alphabet alphabet_;
  Model det_, cls_, rec_;
  Times times_;
};

}  // namespace ocr
