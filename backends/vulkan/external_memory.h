// Declares what Vulkan has for external memory on Windows and Android. Its own declarations are in
// headers that include those of the two systems.
#pragma once

#include "backends/vulkan/api.h"

namespace reprise::vulkan {

inline constexpr const char* kExternalMemoryWin32 = "VK_KHR_external_memory_win32";
inline constexpr const char* kExternalMemoryAndroid =
    "VK_ANDROID_external_memory_android_hardware_buffer";
/// Those that a device enables if it has them. Mesa lists Android's extension on Linux too, where
/// nothing can export such buffers.
inline constexpr const char* kExternalMemoryExtensions[] = {
    VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
#ifdef __ANDROID__
    VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME, kExternalMemoryAndroid,
#endif
    kExternalMemoryWin32};

/// VkImportMemoryWin32HandleInfoKHR
struct ImportWin32Handle {
  VkStructureType type = VK_STRUCTURE_TYPE_IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR;
  const void* pNext = nullptr;
  VkExternalMemoryHandleTypeFlagBits handle_type{};
  void* handle = nullptr;
  const wchar_t* name = nullptr;
};

/// VkImportAndroidHardwareBufferInfoANDROID
struct ImportHardwareBuffer {
  VkStructureType type = VK_STRUCTURE_TYPE_IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID;
  const void* pNext = nullptr;
  void* buffer = nullptr;
};

/// VkAndroidHardwareBufferPropertiesANDROID
struct HardwareBufferProperties {
  VkStructureType type = VK_STRUCTURE_TYPE_ANDROID_HARDWARE_BUFFER_PROPERTIES_ANDROID;
  void* pNext = nullptr;
  VkDeviceSize bytes = 0;
  uint32_t memory_types = 0;
};

inline constexpr const char* kGetHardwareBufferProperties =
    "vkGetAndroidHardwareBufferPropertiesANDROID";
using GetHardwareBufferProperties = VkResult(VKAPI_PTR*)(VkDevice, const void* buffer,
                                                         HardwareBufferProperties*);

}  // namespace reprise::vulkan
