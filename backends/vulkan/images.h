// Copies between the application's images, or rows with a pitch, and dense tensors. Kernels address
// linear memory, so the device's copy engine converts the tiling of an image. That needs neither
// descriptors nor a kernel, and works for every format and device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/vulkan/driver.h"
#include "runtime/device/pixels.h"

namespace reprise::vulkan {

/// Code::Usage or InvalidInput unless the image can be copied as the format says. `written`: by the
/// run, or else it is read.
Status check_image(const Driver& driver, const DeviceImage& image, ImageFormat format,
                   bool written);

/// Writes copies and their barriers to a command buffer. Copies to tensors come before the kernels
/// of a run, and copies from tensors after them.
void write_to_tensors(Driver& driver, VkCommandBuffer commands, std::span<const PixelCopy> copies);
void write_from_tensors(Driver& driver, VkCommandBuffer commands,
                        std::span<const PixelCopy> copies);

/// Command buffers with the copies before and after a recording, which are written again only when
/// the copies change.
class PixelCommands {
 public:
  explicit PixelCommands(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  /// The last submission of the command buffers must have ended.
  Status set(std::span<const PixelCopy> before, std::span<const PixelCopy> after);
  /// Null if there are no copies.
  VkCommandBuffer before() const {
    return before_.copies.empty() ? VK_NULL_HANDLE : before_.commands;
  }
  VkCommandBuffer after() const { return after_.copies.empty() ? VK_NULL_HANDLE : after_.commands; }

 private:
  struct Side {
    std::vector<PixelCopy> copies;
    VkCommandBuffer commands = VK_NULL_HANDLE;
  };
  Status make_pool();
  template <typename F>
  Status update(Side& side, std::span<const PixelCopy> copies, const F& write);

  std::shared_ptr<Driver> driver_;
  OwnedCommandPool pool_;
  Side before_, after_;
};

}  // namespace reprise::vulkan
