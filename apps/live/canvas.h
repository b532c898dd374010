// What the window shows: two pictures side by side and lines of text, composed in an image of its
// own, which screenshots read.
#pragma once

#include <string>
#include <vector>

#include "apps/live/gpu.h"
#include "apps/live/text.h"

namespace live {

class Canvas {
 public:
  Canvas(const Gpu& gpu, uint32_t width, uint32_t height);

  /// Records: the picture enlarged, its right half replaced by that of `better` if there is one,
  /// and a panel with text. With `better`, a line and labels tell the halves apart. The layouts of
  /// all images are TransferSrcOptimal before and after.
  void record(vk::CommandBuffer commands, const Image& picture, const Image* better,
              const std::vector<std::string>& lines);
  const Image& image() const { return image_; }
  /// Copies the image to the host: RGBA, row by row.
  std::vector<unsigned char> read(const Gpu& gpu) const;

 private:
  /// Copies the pixels to a place of the image, through `text_` from a byte on, and returns the
  /// byte after them. What does not fit into the image is left out.
  vk::DeviceSize show(vk::CommandBuffer commands, const Pixels& pixels, uint32_t x, uint32_t y,
                      vk::DeviceSize from);
  void label_halves(vk::CommandBuffer commands, uint32_t y, vk::DeviceSize from);

  Image image_;
  Buffer text_;  // pixels of all panels
};

}  // namespace live
