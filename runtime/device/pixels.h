// Images and rows of pixels of the application, and their copies to and from the dense tensors that
// kernels address.
#pragma once

#include <cstdint>

#include "runtime/base/image_format.h"

namespace reprise {

class DeviceBuffer;

/// An image of the application on its own Vulkan device. It is borrowed and never freed.
struct DeviceImage {
  static constexpr uint32_t kIgnored = ~uint32_t{0};  // VK_QUEUE_FAMILY_IGNORED

  uint64_t handle = 0;                // VkImage
  uint64_t second = 0;                // the plane U and V of NV12, if it is an image of its own
  uint32_t format = 0;                // VkFormat
  uint32_t usage = 0;                 // VkImageUsageFlags with which it was created
  uint32_t width = 0, height = 0;     // of the mip level
  uint32_t mip_level = 0, layer = 0;  // of an array
  uint32_t layout = 0;                // VkImageLayout in which the run finds it
  uint32_t final_layout = 0;          // in which the run is to leave it; 0: the same
  uint32_t acquire_from = kIgnored;   // queue family that releases it to the run
  uint32_t release_to = kIgnored;     // queue family that acquires it after the run

  /// The VkImageLayout in which the run leaves it.
  uint32_t left_in() const { return final_layout != 0 ? final_layout : layout; }

  friend bool operator==(const DeviceImage&, const DeviceImage&) = default;
};

/// A copy between a dense tensor and either an image or rows with a pitch. Kernels read and write
/// the tensor.
struct PixelCopy {
  DeviceImage image = {};  // if its handle is not 0
  ImageFormat format = ImageFormat::None;
  const DeviceBuffer* rows = nullptr;  // otherwise
  uint64_t rows_offset = 0, row_pitch = 0, row_bytes = 0, row_count = 0;
  const DeviceBuffer* tensor = nullptr;

  friend bool operator==(const PixelCopy&, const PixelCopy&) = default;
};

}  // namespace reprise
