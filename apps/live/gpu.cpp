#include "apps/live/gpu.h"

#include <SDL_vulkan.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

namespace live {
namespace {

constexpr const char* kValidation = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user) {
  ++*static_cast<int*>(user);
  std::fprintf(stderr, "device: %s\n", data->pMessage);
  return VK_FALSE;
}

[[noreturn]] void fail_with_sdl(const std::string& what) {
  throw std::runtime_error(what + ": " + SDL_GetError());
}

/// The first queue family that renders, computes and shows in the window; -1: none.
int family_of(vk::PhysicalDevice device, vk::SurfaceKHR surface) {
  const auto families = device.getQueueFamilyProperties();
  const vk::QueueFlags needed = vk::QueueFlagBits::eGraphics | vk::QueueFlagBits::eCompute;
  for (uint32_t i = 0; i < families.size(); ++i) {
    if ((families[i].queueFlags & needed) == needed && device.getSurfaceSupportKHR(i, surface))
      return static_cast<int>(i);
  }
  return -1;
}

/// Higher for devices that draw faster.
int rank(vk::PhysicalDeviceType type) {
  switch (type) {
    case vk::PhysicalDeviceType::eDiscreteGpu:
      return 4;
    case vk::PhysicalDeviceType::eIntegratedGpu:
      return 3;
    case vk::PhysicalDeviceType::eVirtualGpu:
      return 2;
    default:
      return 1;
  }
}

bool has_buffer_addresses(vk::PhysicalDevice device) {
  if (device.getProperties().apiVersion < VK_API_VERSION_1_2) return false;
  const auto features =
      device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>();
  return features.get<vk::PhysicalDeviceVulkan12Features>().bufferDeviceAddress;
}

uint32_t memory_type(vk::PhysicalDevice physical, uint32_t allowed,
                     vk::MemoryPropertyFlags needed) {
  const vk::PhysicalDeviceMemoryProperties memory = physical.getMemoryProperties();
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed >> i & 1) && (memory.memoryTypes[i].propertyFlags & needed) == needed) return i;
  }
  throw std::runtime_error("the device has no memory of the kind " + vk::to_string(needed));
}

}  // namespace

Window open_window(int width, int height) {
  if (SDL_Init(SDL_INIT_VIDEO) != 0) fail_with_sdl("there is no display");
  Window window(SDL_CreateWindow("reprise-live", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED,
                                 width, height, SDL_WINDOW_VULKAN | SDL_WINDOW_RESIZABLE));
  if (!window) fail_with_sdl("the window could not be opened");
  return window;
}

Gpu::Gpu(SDL_Window* window, bool validation) {
  create_instance(window, validation);
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  if (!SDL_Vulkan_CreateSurface(window, *instance_, &surface))
    fail_with_sdl("Vulkan cannot draw in the window");
  surface_ = vk::UniqueSurfaceKHR(surface, *instance_);
  choose_device();
  create_device();
}

void Gpu::create_instance(SDL_Window* window, bool validation) {
  unsigned count = 0;
  SDL_Vulkan_GetInstanceExtensions(window, &count, nullptr);
  std::vector<const char*> extensions(count), layers;
  if (!SDL_Vulkan_GetInstanceExtensions(window, &count, extensions.data()))
    fail_with_sdl("SDL does not know how Vulkan draws in the window");
  if (validation) {
    layers.push_back(kValidation);
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  vk::ApplicationInfo application("reprise-live", 1, nullptr, 0, VK_API_VERSION_1_2);
  instance_ = vk::createInstanceUnique({{}, &application, layers, extensions});
  if (!validation) return;
  debug_functions_.init(*instance_, vkGetInstanceProcAddr);
  using Severity = vk::DebugUtilsMessageSeverityFlagBitsEXT;
  using Type = vk::DebugUtilsMessageTypeFlagBitsEXT;
  const vk::DebugUtilsMessengerCreateInfoEXT info({}, Severity::eWarning | Severity::eError,
                                                  Type::eValidation, on_message, complaints_.get());
  messenger_ = instance_->createDebugUtilsMessengerEXTUnique(info, nullptr, debug_functions_);
}

void Gpu::choose_device() {
  int best = 0;
  for (const vk::PhysicalDevice candidate : instance_->enumeratePhysicalDevices()) {
    const int family = family_of(candidate, *surface_);
    const int its_rank = rank(candidate.getProperties().deviceType);
    if (family < 0 || !has_buffer_addresses(candidate) || its_rank <= best) continue;
    best = its_rank;
    physical_ = candidate;
    family_ = static_cast<uint32_t>(family);
  }
  if (!physical_)
    throw std::runtime_error("no Vulkan device can draw in the window and has buffer addresses");
}

void Gpu::create_device() {
  lent_.instance = static_cast<VkInstance>(*instance_);
  lent_.physical_device = static_cast<VkPhysicalDevice>(physical_);
  reprise_error error{};
  if (reprise_vulkan_wanted_features(&lent_, &error) != REPRISE_OK)
    throw std::runtime_error(error.message);
  vk::PhysicalDeviceVulkan12Features v12;
  v12.bufferDeviceAddress = VK_TRUE;
  v12.storageBuffer8BitAccess = v12.shaderInt8 = lent_.storage8 != 0;
  v12.shaderFloat16 = lent_.shader_float16 != 0;
  vk::PhysicalDeviceVulkan11Features v11;
  v11.storageBuffer16BitAccess = lent_.storage16 != 0;
  v11.pNext = &v12;
  vk::PhysicalDeviceFeatures core;
  core.shaderInt16 = lent_.storage16 != 0;
  core.shaderInt64 = lent_.shader_int64 != 0;
  core.shaderFloat64 = lent_.shader_float64 != 0;
  const float priority = 1;
  const vk::DeviceQueueCreateInfo queue({}, family_, 1, &priority);
  const char* const extensions[] = {VK_KHR_SWAPCHAIN_EXTENSION_NAME};
  vk::DeviceCreateInfo info({}, queue, {}, extensions);
  info.pNext = &v11;
  info.pEnabledFeatures = &core;
  device_ = physical_.createDeviceUnique(info);
  queue_ = device_->getQueue(family_, 0);
}

reprise_vulkan_device Gpu::lend() const {
  reprise_vulkan_device lent = lent_;
  lent.device = static_cast<VkDevice>(*device_);
  lent.queue = static_cast<VkQueue>(queue_);
  lent.queue_family = family_;
  return lent;
}

Buffer make_buffer(const Gpu& gpu, vk::DeviceSize bytes, vk::BufferUsageFlags usage, bool mapped) {
  Buffer made;
  made.buffer = gpu.device().createBufferUnique({{}, bytes, usage});
  const vk::MemoryRequirements needs = gpu.device().getBufferMemoryRequirements(*made.buffer);
  const vk::MemoryPropertyFlags properties =
      mapped ? vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent
             : vk::MemoryPropertyFlags();
  vk::MemoryAllocateInfo info(needs.size,
                              memory_type(gpu.physical(), needs.memoryTypeBits, properties));
  const vk::MemoryAllocateFlagsInfo flags(vk::MemoryAllocateFlagBits::eDeviceAddress);
  if (usage & vk::BufferUsageFlagBits::eShaderDeviceAddress) info.pNext = &flags;
  made.memory = gpu.device().allocateMemoryUnique(info);
  gpu.device().bindBufferMemory(*made.buffer, *made.memory, 0);
  if (mapped) made.mapped = gpu.device().mapMemory(*made.memory, 0, VK_WHOLE_SIZE);
  return made;
}

Image make_image(const Gpu& gpu, uint32_t width, uint32_t height, vk::ImageUsageFlags usage) {
  Image made{{}, {}, width, height};
  vk::ImageCreateInfo info({}, vk::ImageType::e2D, vk::Format::eR8G8B8A8Unorm, {width, height, 1},
                           1, 1);
  info.usage = usage;
  made.image = gpu.device().createImageUnique(info);
  const vk::MemoryRequirements needs = gpu.device().getImageMemoryRequirements(*made.image);
  made.memory = gpu.device().allocateMemoryUnique(
      {needs.size, memory_type(gpu.physical(), needs.memoryTypeBits, {})});
  gpu.device().bindImageMemory(*made.image, *made.memory, 0);
  return made;
}

void change_layout(vk::CommandBuffer commands, vk::Image image, vk::ImageLayout from,
                   vk::ImageLayout to) {
  using Access = vk::AccessFlagBits;
  const vk::ImageMemoryBarrier barrier(Access::eMemoryWrite,
                                       Access::eMemoryRead | Access::eMemoryWrite, from, to,
                                       VK_QUEUE_FAMILY_IGNORED, VK_QUEUE_FAMILY_IGNORED, image,
                                       {vk::ImageAspectFlagBits::eColor, 0, 1, 0, 1});
  commands.pipelineBarrier(vk::PipelineStageFlagBits::eAllCommands,
                           vk::PipelineStageFlagBits::eAllCommands, {}, {}, {}, barrier);
}

vk::ImageSubresourceLayers colour_layer() {
  return {vk::ImageAspectFlagBits::eColor, 0, 0, 1};
}

vk::BufferImageCopy whole_picture(uint32_t width, uint32_t height) {
  return {0, 0, 0, colour_layer(), {}, {width, height, 1}};
}

}  // namespace live
