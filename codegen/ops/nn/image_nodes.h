// The nodes that turn pixels into the numbers of a model, and back.
#pragma once

#include "codegen/graph/image_option.h"
#include "codegen/ops/row/composed.h"

namespace reprise {

/// A tensor of the model that is an image, without its batch.
struct ImageTensor {
  Shape shape;  // with the batch
  DType dtype = DType::F32;
  int64_t channels = 0;
  Expr height, width;
  size_t height_axis = 0, width_axis = 0;
  bool channels_first = true;
  ImageOption::Colors colors = ImageOption::Colors::Rgb;
};

namespace ops {
/// The node that stands where the nodes below will be; it needs a name, inputs and outputs.
graph::NodeSpec image_place();
}  // namespace ops

/// Adds the nodes that compute the model's tensor from `pixels`, which has the shape of the format.
/// `crop` is the rectangle of a crop that each run gives, or kNone.
graph::ValueId tensor_from_pixels(ops::Composer& c, const ImageOption& option,
                                  const ImageTensor& tensor, graph::ValueId pixels,
                                  graph::ValueId crop);
/// Adds the nodes that compute the pixels from the model's tensor `value`.
graph::ValueId pixels_from_tensor(ops::Composer& c, const ImageOption& option,
                                  const ImageTensor& tensor, graph::ValueId value);

}  // namespace reprise
