// An application that renders with Vulkan: a device of its own, and images on it. Uses no header of
// the library, so that tests of the C interface can include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise::test {

/// The number of usable Vulkan devices, which have the ids "vulkan:0", ...
size_t vulkan_devices();

class Application {
 public:
  explicit Application(size_t device);
  ~Application();
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  struct Handles {
    void *instance, *physical_device, *device, *queue;
    uint32_t queue_family;
  };
  Handles handles() const;

  /// A part of an image: bytes of its pixels, dense.
  struct Plane {
    uint32_t aspect = 1;  // VkImageAspectFlagBits
    uint32_t width = 0, height = 0, bytes_per_pixel = 0;
  };
  /// Whether images of this format can be copied to and from buffers.
  bool supports(uint32_t format) const;
  /// An image with optimal tiling, in the layout UNDEFINED. It lives as long as the application.
  uint64_t make_image(uint32_t format, uint32_t width, uint32_t height, uint32_t usage,
                      uint32_t mips = 1, uint32_t layers = 1);
  /// Destroys all images, so that later ones may get their handles.
  void destroy_images();
  /// Fills planes of the image, and leaves it in a layout.
  void write(uint64_t image, const std::vector<Plane>& planes, const std::vector<uint8_t>& bytes,
             uint32_t layout, uint32_t mip = 0, uint32_t layer = 0);
  /// Reads a plane of an image that is in the layout.
  std::vector<uint8_t> read(uint64_t image, const Plane& plane, uint32_t layout);
  /// A buffer of the application that runs can use, and its bytes.
  uint64_t make_buffer(const std::vector<uint8_t>& bytes);
  std::vector<uint8_t> read_buffer(uint64_t buffer, size_t bytes);
  /// Records a command buffer and executes it.
  void execute(const std::function<void(void* command_buffer)>& record, int times = 1);
  /// Writes vkCmdClearColorImage with a barrier before it, from one layout to TRANSFER_DST_OPTIMAL.
  void clear(void* command_buffer, uint64_t image, uint32_t from_layout, float value);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::test
