#include "apps/live/presenter.h"

#include <SDL_vulkan.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace live {
namespace {

constexpr uint64_t kPatience = 60'000'000'000;  // nanoseconds

vk::SurfaceFormatKHR choose_format(const std::vector<vk::SurfaceFormatKHR>& formats) {
  for (const vk::SurfaceFormatKHR& f : formats) {
    if (f.format == vk::Format::eB8G8R8A8Unorm || f.format == vk::Format::eR8G8B8A8Unorm) return f;
  }
  return formats.at(0);
}

}  // namespace

Presenter::Presenter(const Gpu& gpu, SDL_Window* window) : gpu_(gpu), window_(window) {
  create_swapchain();
  acquired_ = gpu.device().createSemaphoreUnique({});
  done_ = gpu.device().createFenceUnique({});
  pool_ = gpu.device().createCommandPoolUnique(
      {vk::CommandPoolCreateFlagBits::eResetCommandBuffer, gpu.family()});
  commands_ = std::move(
      gpu.device().allocateCommandBuffersUnique({*pool_, vk::CommandBufferLevel::ePrimary, 1})[0]);
}

void Presenter::create_swapchain() {
  const vk::SurfaceCapabilitiesKHR can = gpu_.physical().getSurfaceCapabilitiesKHR(gpu_.surface());
  if (!(can.supportedUsageFlags & vk::ImageUsageFlagBits::eTransferDst))
    throw std::runtime_error("pictures cannot be copied to this window");
  int width = 0, height = 0;
  SDL_Vulkan_GetDrawableSize(window_, &width, &height);
  extent_ = can.currentExtent;
  if (extent_.width == UINT32_MAX)
    extent_ = vk::Extent2D(static_cast<uint32_t>(width), static_cast<uint32_t>(height));
  const vk::SurfaceFormatKHR format =
      choose_format(gpu_.physical().getSurfaceFormatsKHR(gpu_.surface()));
  uint32_t count = can.minImageCount + 1;
  if (can.maxImageCount) count = std::min(count, can.maxImageCount);
  vk::SwapchainCreateInfoKHR info({}, gpu_.surface(), count, format.format, format.colorSpace,
                                  extent_, 1, vk::ImageUsageFlagBits::eTransferDst);
  info.preTransform = can.currentTransform;
  info.presentMode = vk::PresentModeKHR::eFifo;
  info.clipped = VK_TRUE;
  info.oldSwapchain = *swapchain_;
  swapchain_ = gpu_.device().createSwapchainKHRUnique(info);
  images_ = gpu_.device().getSwapchainImagesKHR(*swapchain_);
  rendered_.clear();
  for (size_t i = 0; i < images_.size(); ++i)
    rendered_.push_back(gpu_.device().createSemaphoreUnique({}));
}

uint32_t Presenter::acquire() {
  for (;;) {
    uint32_t index = 0;
    // This calls the C function, because vulkan.hpp would throw an exception when the window has
    // changed its size.
    const VkResult result = vkAcquireNextImageKHR(gpu_.device(), *swapchain_, kPatience, *acquired_,
                                                  VK_NULL_HANDLE, &index);
    if (result == VK_SUCCESS || result == VK_SUBOPTIMAL_KHR) return index;
    if (result != VK_ERROR_OUT_OF_DATE_KHR)
      throw std::runtime_error("no image to show: " + vk::to_string(vk::Result(result)));
    gpu_.queue().waitIdle();
    create_swapchain();
  }
}

void Presenter::show(vk::CommandBuffer commands, const Image& canvas, vk::Image target) const {
  using Layout = vk::ImageLayout;
  const auto whole = [](uint32_t width, uint32_t height) {
    return std::array{vk::Offset3D(),
                      vk::Offset3D(static_cast<int>(width), static_cast<int>(height), 1)};
  };
  change_layout(commands, target, Layout::eUndefined, Layout::eTransferDstOptimal);
  const vk::ImageBlit region(colour_layer(), whole(canvas.width, canvas.height), colour_layer(),
                             whole(extent_.width, extent_.height));
  commands.blitImage(*canvas.image, Layout::eTransferSrcOptimal, target,
                     Layout::eTransferDstOptimal, region, vk::Filter::eLinear);
  change_layout(commands, target, Layout::eTransferDstOptimal, Layout::ePresentSrcKHR);
}

double Presenter::frame(const Image& canvas, const std::function<void(vk::CommandBuffer)>& record) {
  const uint32_t index = acquire();
  const auto start = std::chrono::steady_clock::now();
  commands_->begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  record(*commands_);
  show(*commands_, canvas, images_[index]);
  commands_->end();
  const vk::PipelineStageFlags wait_at = vk::PipelineStageFlagBits::eAllCommands;
  gpu_.queue().submit(vk::SubmitInfo(*acquired_, wait_at, *commands_, *rendered_[index]), *done_);
  if (gpu_.device().waitForFences(*done_, VK_TRUE, kPatience) != vk::Result::eSuccess)
    throw std::runtime_error("the device did not finish a frame within a minute");
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  gpu_.device().resetFences(*done_);
  const vk::PresentInfoKHR present(*rendered_[index], *swapchain_, index);
  const VkResult result =
      vkQueuePresentKHR(gpu_.queue(), &static_cast<const VkPresentInfoKHR&>(present));
  if (result < 0 && result != VK_ERROR_OUT_OF_DATE_KHR)
    throw std::runtime_error("a frame could not be shown: " + vk::to_string(vk::Result(result)));
  return spent.count();
}

}  // namespace live
