#include "runtime/run/shared_images.h"

#include <string>

namespace reprise {
namespace {

Status check_inputs(const Binding& a, const Binding& b) {
  const DeviceImage &x = *a.image, &y = *b.image;
  if (x.layout == y.layout && x.left_in() == y.left_in() && x.acquire_from == y.acquire_from &&
      x.release_to == y.release_to)
    return {};
  return invalid_input("the inputs '" + a.name + "' and '" + b.name +
                       "' are the same image with different layouts or queue families; state them "
                       "alike");
}

Status check_input_and_output(const Binding& in, const Binding& out) {
  const DeviceImage &x = *in.image, &y = *out.image;
  const std::string both =
      "the output '" + out.name + "' is written to the image of the input '" + in.name + "'; ";
  if (y.layout != 0 && y.layout != x.left_in()) {
    return invalid_input(both + "the layout of the output must be the one in which the input " +
                         "leaves the image, number " + std::to_string(x.left_in()));
  }
  if (x.release_to != DeviceImage::kIgnored || y.acquire_from != DeviceImage::kIgnored)
    return invalid_input(both + "only the input can acquire it and only the output can release it");
  return {};
}

/// Whether two parts of images, given with all their planes, have pixels in common.
bool same_pixels(const DeviceImage& a, const DeviceImage& b) {
  if (a.mip_level != b.mip_level || a.layer != b.layer) return false;
  for (const uint64_t image : {a.handle, a.second})
    if (image != 0 && (image == b.handle || image == b.second)) return true;
  return false;
}

bool is_image(const Binding* b) {
  return b && b->image;
}

}  // namespace

Status check_shared_images(std::span<const Binding* const> inputs,
                           std::span<const Binding* const> outputs) {
  const auto shared = [](const Binding* a, const Binding* b) {
    return is_image(b) && same_pixels(*a->image, *b->image);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_image(inputs[i])) continue;
    for (const Binding* before : inputs.first(i))
      if (shared(inputs[i], before)) RP_TRY(check_inputs(*before, *inputs[i]));
    for (const Binding* out : outputs)
      if (shared(inputs[i], out)) RP_TRY(check_input_and_output(*inputs[i], *out));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_image(outputs[i])) continue;
    for (const Binding* before : outputs.first(i)) {
      if (shared(outputs[i], before)) {
        return invalid_input("the outputs '" + before->name + "' and '" + outputs[i]->name +
                             "' are the same image; bind an image of its own to every output");
      }
    }
  }
  return {};
}

}  // namespace reprise
