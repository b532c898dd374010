// The picture that the renderer draws: one pass with a fragment shader, at a low resolution.
#pragma once

#include "apps/live/gpu.h"

namespace live {

class Scene {
 public:
  Scene(const Gpu& gpu, uint32_t width, uint32_t height);
  /// Draws the picture of a time in seconds. Its layout is TransferSrcOptimal then.
  void record(vk::CommandBuffer commands, float time) const;
  const Image& image() const { return image_; }

 private:
  void create_pass(const Gpu& gpu);
  void create_pipeline(const Gpu& gpu);

  Image image_;
  vk::UniqueImageView view_;
  vk::UniqueRenderPass pass_;
  vk::UniqueFramebuffer framebuffer_;
  vk::UniquePipelineLayout layout_;
  vk::UniquePipeline pipeline_;
};

}  // namespace live
