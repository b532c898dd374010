// Frames: commands that are recorded anew for each one, and a swapchain that shows them.
#pragma once

#include <functional>
#include <vector>

#include "apps/live/gpu.h"

namespace live {

class Presenter {
 public:
  Presenter(const Gpu& gpu, SDL_Window* window);

  /// Records a frame with `record`, executes it, waits for it, and shows `canvas`. Returns the
  /// milliseconds from the beginning of recording until the device was ready. (A game would have
  /// two frames in flight instead of waiting; then it needs a second run object.)
  double frame(const Image& canvas, const std::function<void(vk::CommandBuffer)>& record);

 private:
  void create_swapchain();
  /// The index of an image of the swapchain, which is made again if the window's size changed.
  uint32_t acquire();
  void show(vk::CommandBuffer commands, const Image& canvas, vk::Image target) const;

  const Gpu& gpu_;
  SDL_Window* window_;
  vk::UniqueSwapchainKHR swapchain_;
  vk::Extent2D extent_;
  std::vector<vk::Image> images_;
  std::vector<vk::UniqueSemaphore> rendered_;  // one for each image
  vk::UniqueSemaphore acquired_;
  vk::UniqueFence done_;
  vk::UniqueCommandPool pool_;
  vk::UniqueCommandBuffer commands_;
};

}  // namespace live
