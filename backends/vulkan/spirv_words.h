// What code that reads SPIR-V words needs to know of their form (SPIR-V 1.6, sections 2.3 and 3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::vulkan {

inline constexpr size_t kModuleHeaderWords = 5;
inline constexpr uint32_t kOpCapability = 17;

}  // namespace reprise::vulkan
