// Where text is: the input of the detection model, and boxes from the map that it returns.
#pragma once

#include <vector>

#include "apps/ocr/image.h"

namespace ocr {

/// A batch of pictures as models take them: float32[count, 3, height, width], blue first.
struct Batch {
  int count = 0, height = 0, width = 0;
  std::vector<float> values;

  Batch(int n, int h, int w);
  /// Writes a picture of this height to the left of row `index`; the rest stays 0, which is grey.
  void set(int index, const Image& image);
};

/// The picture at a size that the model takes: multiples of 32, the longer side near `side`, but at
/// most twice the picture's.
Batch detection_input(const Image& image, int side);

struct DetectOptions {
  float ink = 0.3F;         // above this, a pixel of the map belongs to text
  float certainty = 0.5F;   // boxes whose mean is below are dropped
  float margin = 2;         // how much boxes are grown: the model marks only the core of a line
  float smallest_side = 3;  // in pixels of the map
};

/// Finds lines of text in the probabilities that the model returns, row by row. The boxes are in
/// pixels of a picture of the size `to_width` by `to_height`, in reading order.
std::vector<Quad> find_boxes(const std::vector<float>& map, int width, int height, int to_width,
                             int to_height, const DetectOptions& options);

}  // namespace ocr
