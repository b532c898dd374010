#include "backends/vulkan/images.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/vulkan/memory.h"

namespace reprise::vulkan {

namespace {

struct FormatName {
  VkFormat format;
  ImageFormat as;
  const char* name;
};

// sRGB images have the bytes that they store; nothing decodes them.
constexpr FormatName kFormats[] = {
    {VK_FORMAT_R8G8B8A8_UNORM, ImageFormat::Rgba8, "VK_FORMAT_R8G8B8A8_UNORM"},
    {VK_FORMAT_R8G8B8A8_SRGB, ImageFormat::Rgba8, "VK_FORMAT_R8G8B8A8_SRGB"},
    {VK_FORMAT_A8B8G8R8_UNORM_PACK32, ImageFormat::Rgba8, "VK_FORMAT_A8B8G8R8_UNORM_PACK32"},
    {VK_FORMAT_A8B8G8R8_SRGB_PACK32, ImageFormat::Rgba8, "VK_FORMAT_A8B8G8R8_SRGB_PACK32"},
    {VK_FORMAT_B8G8R8A8_UNORM, ImageFormat::Bgra8, "VK_FORMAT_B8G8R8A8_UNORM"},
    {VK_FORMAT_B8G8R8A8_SRGB, ImageFormat::Bgra8, "VK_FORMAT_B8G8R8A8_SRGB"},
    {VK_FORMAT_R16G16B16A16_SFLOAT, ImageFormat::Rgba16F, "VK_FORMAT_R16G16B16A16_SFLOAT"},
    {VK_FORMAT_R8_UNORM, ImageFormat::R8, "VK_FORMAT_R8_UNORM"},
    {VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, ImageFormat::Nv12, "VK_FORMAT_G8_B8R8_2PLANE_420_UNORM"},
};

const FormatName* find_format(uint32_t format) {
  const auto* const it = std::ranges::find_if(
      kFormats, [&](const FormatName& f) { return static_cast<uint32_t>(f.format) == format; });
  return it == std::end(kFormats) ? nullptr : it;
}

Status check_format(const DeviceImage& image, ImageFormat format) {
  const FormatName* const found = find_format(image.format);
  // NV12 in two images is R8 and R8G8.
  const ImageFormat wanted =
      format == ImageFormat::Nv12 && image.second != 0 ? ImageFormat::R8 : format;
  if (found && found->as == wanted) return {};
  std::string known;
  for (const FormatName& f : kFormats)
    if (f.as == wanted) known += (known.empty() ? "" : " or ") + std::string(f.name);
  if (format == ImageFormat::Nv12 && found && found->as == ImageFormat::R8) {
    return invalid_input(
        "the VkImage has the format VK_FORMAT_R8_UNORM, in which nv12 needs a `second` image");
  }
  return invalid_input("the VkImage has the format " +
                       (found ? found->name : "number " + std::to_string(image.format)) +
                       ", but the model was compiled for " + std::string(name_of(format)) +
                       ", which is " + known + "; compile it for the format of the image");
}

/// Like a pointer or a 64-bit integer, depending on the platform.
VkImage image_handle(uint64_t handle) {
  VkImage image = VK_NULL_HANDLE;
  std::memcpy(&image, &handle, sizeof(VkImage));
  return image;
}

constexpr VkAccessFlags kAnyAccess = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;

/// A part of an image that one command copies.
struct Plane {
  VkImage image = VK_NULL_HANDLE;
  VkImageAspectFlags aspect = VK_IMAGE_ASPECT_COLOR_BIT;
  uint64_t offset = 0;  // in the tensor
  uint32_t width = 0, height = 0;
};

std::vector<Plane> planes_of(const PixelCopy& c) {
  const DeviceImage& i = c.image;
  const VkImage first = image_handle(i.handle);
  if (c.format != ImageFormat::Nv12)
    return {{first, VK_IMAGE_ASPECT_COLOR_BIT, 0, i.width, i.height}};
  const uint64_t luma = uint64_t{i.width} * i.height;
  const uint32_t width = i.width / 2, height = i.height / 2;
  if (i.second != 0) {
    return {{first, VK_IMAGE_ASPECT_COLOR_BIT, 0, i.width, i.height},
            {image_handle(i.second), VK_IMAGE_ASPECT_COLOR_BIT, luma, width, height}};
  }
  return {{first, VK_IMAGE_ASPECT_PLANE_0_BIT, 0, i.width, i.height},
          {first, VK_IMAGE_ASPECT_PLANE_1_BIT, luma, width, height}};
}

VkBufferImageCopy region_of(const PixelCopy& c, const Plane& p) {
  VkBufferImageCopy region{};
  region.bufferOffset = p.offset;
  region.imageSubresource = {p.aspect, c.image.mip_level, c.image.layer, 1};
  region.imageExtent = {p.width, p.height, 1};
  return region;
}

VkImageLayout layout(uint32_t number) {
  return static_cast<VkImageLayout>(number);
}

/// Writes the barriers and copies of one side of a run.
class Writer {
 public:
  Writer(Driver& driver, VkCommandBuffer commands, std::span<const PixelCopy> copies,
         bool to_tensor)
      : driver_(driver), commands_(commands), copies_(copies), to_tensor_(to_tensor) {}

  void write() {
    acquire();
    begin();
    for (const PixelCopy& c : copies_) copy(c);
    end();
    release();
  }

 private:
  VkImageLayout during() const {
    return to_tensor_ ? VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL : VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
  }
  VkAccessFlags access() const {
    return to_tensor_ ? VK_ACCESS_TRANSFER_READ_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  }

  /// A barrier for each part of an image, also if several inputs read it: they describe it alike.
  /// `fill` returns whether an image needs a barrier.
  template <typename F>
  std::vector<VkImageMemoryBarrier> barriers(const F& fill) const {
    std::vector<VkImageMemoryBarrier> list;
    for (const PixelCopy& c : copies_) {
      if (c.image.handle == 0) continue;
      VkImageMemoryBarrier b{};
      b.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
      b.srcQueueFamilyIndex = b.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
      // All planes together, which images without separate planes need.
      b.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, c.image.mip_level, 1, c.image.layer, 1};
      if (!fill(c.image, b)) continue;
      for (const uint64_t handle : {c.image.handle, c.image.second}) {
        b.image = image_handle(handle);
        const auto same_part = [&](const VkImageMemoryBarrier& other) {
          return other.image == b.image &&
                 other.subresourceRange.baseMipLevel == c.image.mip_level &&
                 other.subresourceRange.baseArrayLayer == c.image.layer;
        };
        if (handle != 0 && std::ranges::none_of(list, same_part)) list.push_back(b);
      }
    }
    return list;
  }

  void barrier(VkPipelineStageFlags from, VkPipelineStageFlags to, const VkMemoryBarrier* memory,
               const std::vector<VkImageMemoryBarrier>& images) {
    if (!memory && images.empty()) return;
    driver_.vk.vkCmdPipelineBarrier(commands_, from, to, 0, memory ? 1 : 0, memory, 0, nullptr,
                                    static_cast<uint32_t>(images.size()), images.data());
    ++driver_.counters.barriers;
  }

  bool is_other(uint32_t family) const {
    return family != VK_QUEUE_FAMILY_IGNORED && family != driver_.queue_family;
  }

  // The second halves of the application's ownership transfers, which keep the layout.
  void acquire() {
    barrier(VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, nullptr,
            barriers([&](const DeviceImage& i, VkImageMemoryBarrier& b) {
              b.dstAccessMask = access();
              b.oldLayout = b.newLayout = layout(i.layout);
              b.srcQueueFamilyIndex = i.acquire_from;
              b.dstQueueFamilyIndex = driver_.queue_family;
              return is_other(i.acquire_from);
            }));
  }

  void begin() {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, &memory,
            barriers([&](const DeviceImage& i, VkImageMemoryBarrier& b) {
              b.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
              b.dstAccessMask = access();
              b.oldLayout = layout(i.layout);
              b.newLayout = during();
              return true;
            }));
  }

  void end() {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    memory.dstAccessMask = kAnyAccess;
    barrier(VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, &memory,
            barriers([&](const DeviceImage& i, VkImageMemoryBarrier& b) {
              b.srcAccessMask = to_tensor_ ? VkAccessFlags{0} : access();
              b.dstAccessMask = kAnyAccess;
              b.oldLayout = during();
              b.newLayout = layout(i.left_in());
              return true;
            }));
  }

  void release() {
    barrier(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, nullptr,
            barriers([&](const DeviceImage& i, VkImageMemoryBarrier& b) {
              b.srcAccessMask = kAnyAccess;
              b.oldLayout = b.newLayout = layout(i.left_in());
              b.srcQueueFamilyIndex = driver_.queue_family;
              b.dstQueueFamilyIndex = i.release_to;
              return is_other(i.release_to);
            }));
  }

  void copy(const PixelCopy& c) {
    if (c.image.handle == 0) return copy_rows(c);
    const VkBuffer tensor = static_cast<const VulkanBuffer*>(c.tensor)->handle();
    for (const Plane& p : planes_of(c)) {
      const VkBufferImageCopy region = region_of(c, p);
      if (to_tensor_) {
        driver_.vk.vkCmdCopyImageToBuffer(commands_, p.image, during(), tensor, 1, &region);
      } else {
        driver_.vk.vkCmdCopyBufferToImage(commands_, tensor, p.image, during(), 1, &region);
      }
      ++driver_.counters.copies;
    }
  }

  void copy_rows(const PixelCopy& c) {
    std::vector<VkBufferCopy> regions(c.row_count);
    for (size_t i = 0; i < regions.size(); ++i) {
      const uint64_t pitched = c.rows_offset + i * c.row_pitch, dense = i * c.row_bytes;
      regions[i] = {to_tensor_ ? pitched : dense, to_tensor_ ? dense : pitched, c.row_bytes};
    }
    const VkBuffer rows = static_cast<const VulkanBuffer*>(c.rows)->handle();
    const VkBuffer tensor = static_cast<const VulkanBuffer*>(c.tensor)->handle();
    if (regions.empty() || c.row_bytes == 0) return;
    driver_.vk.vkCmdCopyBuffer(commands_, to_tensor_ ? rows : tensor, to_tensor_ ? tensor : rows,
                               static_cast<uint32_t>(regions.size()), regions.data());
    ++driver_.counters.copies;
  }

  Driver& driver_;
  VkCommandBuffer commands_;
  std::span<const PixelCopy> copies_;
  const bool to_tensor_;
};

}  // namespace

Status check_image(const Driver& driver, const DeviceImage& image, ImageFormat format,
                   bool written) {
  if (driver.owned) {
    return {Code::Usage,
            "only an application that lends its own Vulkan device has images of this device"};
  }
  if (image.handle == 0) return {Code::Usage, "the VkImage is null"};
  RP_TRY(check_format(image, format));
  const VkImageUsageFlags needed =
      written ? VK_IMAGE_USAGE_TRANSFER_DST_BIT : VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
  if ((image.usage & needed) == 0) {
    return {Code::Usage, std::string("the VkImage needs VK_IMAGE_USAGE_TRANSFER_") +
                             (written ? "DST" : "SRC") +
                             "_BIT; create it with that usage, and pass its usage"};
  }
  for (const uint32_t family : {image.acquire_from, image.release_to}) {
    // VK_QUEUE_FAMILY_FOREIGN_EXT, _EXTERNAL and _IGNORED are the largest numbers.
    if (family < driver.physical.families.size() || family >= VK_QUEUE_FAMILY_FOREIGN_EXT) continue;
    return {Code::Usage, "the device has no queue family " + std::to_string(family) +
                             " to acquire the VkImage from or to release it to"};
  }
  if (image.second != 0 && format != ImageFormat::Nv12)
    return {Code::Usage, "only nv12 has a second image"};
  const uint32_t most = driver.physical.properties.limits.maxImageDimension2D;
  if (image.width == 0 || image.height == 0 || image.width > most || image.height > most) {
    return invalid_input("the VkImage has " + std::to_string(image.width) + " x " +
                         std::to_string(image.height) + " pixels; this device has images of 1 to " +
                         std::to_string(most));
  }
  if (format == ImageFormat::Nv12 && (image.width % 2 != 0 || image.height % 2 != 0))
    return invalid_input("the width and height of an nv12 image must be even");
  const bool undefined = image.layout == VK_IMAGE_LAYOUT_UNDEFINED;
  if (undefined && !written)
    return {Code::Usage, "the VkImage has the layout UNDEFINED, in which it has no pixels"};
  if (image.left_in() == VK_IMAGE_LAYOUT_UNDEFINED ||
      image.left_in() == VK_IMAGE_LAYOUT_PREINITIALIZED) {
    return {Code::Usage,
            "the VkImage needs the layout in which the run is to leave it, and that cannot be "
            "UNDEFINED or PREINITIALIZED"};
  }
  return {};
}

void write_to_tensors(Driver& driver, VkCommandBuffer commands, std::span<const PixelCopy> copies) {
  if (!copies.empty()) Writer(driver, commands, copies, true).write();
}

void write_from_tensors(Driver& driver, VkCommandBuffer commands,
                        std::span<const PixelCopy> copies) {
  if (!copies.empty()) Writer(driver, commands, copies, false).write();
}

Status PixelCommands::make_pool() {
  if (pool_.get()) return {};
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool_info.queueFamilyIndex = driver_->queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  RP_TRY(
      driver_->check(driver_->vk.vkCreateCommandPool(driver_->device, &pool_info, nullptr, &pool),
                     "vkCreateCommandPool"));
  pool_ = {driver_, pool};
  return {};
}

template <typename F>
Status PixelCommands::update(Side& side, std::span<const PixelCopy> copies, const F& write) {
  if (std::ranges::equal(side.copies, copies)) return {};
  side.copies.clear();
  if (copies.empty()) return {};
  RP_TRY(make_pool());
  if (!side.commands) {
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool_.get();
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    RP_TRY(
        driver_->check(driver_->vk.vkAllocateCommandBuffers(driver_->device, &info, &side.commands),
                       "vkAllocateCommandBuffers"));
  }
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  RP_TRY(driver_->check(driver_->vk.vkBeginCommandBuffer(side.commands, &begin),
                        "vkBeginCommandBuffer"));
  write(*driver_, side.commands, copies);
  RP_TRY(driver_->check(driver_->vk.vkEndCommandBuffer(side.commands), "vkEndCommandBuffer"));
  side.copies.assign(copies.begin(), copies.end());
  return {};
}

Status PixelCommands::set(std::span<const PixelCopy> before, std::span<const PixelCopy> after) {
  RP_TRY(update(before_, before, write_to_tensors));
  return update(after_, after, write_from_tensors);
}

}  // namespace reprise::vulkan
