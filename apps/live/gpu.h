// The renderer's own Vulkan: a window, a device that can show in it, and memory.
#pragma once

#include <SDL.h>

#include <memory>
#include <string>
#include <vulkan/vulkan.hpp>

#include "reprise/reprise.hpp"

namespace live {

struct WindowCloser {
  void operator()(SDL_Window* window) const {
    SDL_DestroyWindow(window);
    SDL_Quit();
  }
};
using Window = std::unique_ptr<SDL_Window, WindowCloser>;

/// Opens a window in which Vulkan can draw. Throws std::runtime_error.
Window open_window(int width, int height);

/// An instance, a surface, and a device with one queue for everything.
class Gpu {
 public:
  /// Throws vk::SystemError and std::runtime_error, as all functions of the renderer do.
  Gpu(SDL_Window* window, bool validation);

  vk::PhysicalDevice physical() const { return physical_; }
  vk::Device device() const { return *device_; }
  vk::Queue queue() const { return queue_; }
  uint32_t family() const { return family_; }
  vk::SurfaceKHR surface() const { return *surface_; }
  std::string name() const { return physical_.getProperties().deviceName; }
  /// How many messages validation layers have written.
  int complaints() const { return *complaints_; }

  /// What Reprise needs to know to work on this device.
  reprise_vulkan_device lend() const;

 private:
  void create_instance(SDL_Window* window, bool validation);
  void choose_device();
  void create_device();

  std::unique_ptr<int> complaints_ = std::make_unique<int>(0);
  vk::UniqueInstance instance_;
  vk::DispatchLoaderDynamic debug_functions_;
  vk::UniqueHandle<vk::DebugUtilsMessengerEXT, vk::DispatchLoaderDynamic> messenger_;
  vk::UniqueSurfaceKHR surface_;
  vk::PhysicalDevice physical_;
  uint32_t family_ = 0;
  reprise_vulkan_device lent_ = REPRISE_VULKAN_DEVICE_INIT;  // its features
  vk::UniqueDevice device_;
  vk::Queue queue_;
};

struct Buffer {
  vk::UniqueDeviceMemory memory;
  vk::UniqueBuffer buffer;
  void* mapped = nullptr;  // if the host can see it
};
Buffer make_buffer(const Gpu& gpu, vk::DeviceSize bytes, vk::BufferUsageFlags usage, bool mapped);

/// A picture of RGBA bytes.
struct Image {
  vk::UniqueDeviceMemory memory;
  vk::UniqueImage image;
  uint32_t width = 0, height = 0;
};
Image make_image(const Gpu& gpu, uint32_t width, uint32_t height, vk::ImageUsageFlags usage);

/// Waits for everything before, and makes the image ready for what comes next.
void change_layout(vk::CommandBuffer commands, vk::Image image, vk::ImageLayout from,
                   vk::ImageLayout to);

vk::ImageSubresourceLayers colour_layer();
vk::BufferImageCopy whole_picture(uint32_t width, uint32_t height);

}  // namespace live
