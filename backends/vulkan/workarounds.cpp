#include "backends/vulkan/workarounds.h"

#include <charconv>

namespace reprise::vulkan {

namespace {

/// 22 for "Mesa 22.3.6 (LLVM 15.0.6)"; 0 for text of another form.
int mesa_major(std::string_view info) {
  constexpr std::string_view kMesa = "Mesa ";
  if (!info.starts_with(kMesa)) return 0;
  info.remove_prefix(kMesa.size());
  int major = 0;
  std::from_chars(info.data(), info.data() + info.size(), major);
  return major;
}

}  // namespace

DriverTraits driver_traits(VkDriverId driver, std::string_view info) {
  // workarounds::kLongLoops affects every version so far (LP_MAX_TGSI_LOOP_ITERATIONS).
  // workarounds::kSlowLoads: versions between 22.3.6 and 25.0.7 were not measured.
  constexpr int kFirstFast = 23;
  const int mesa = mesa_major(info);
  const bool llvmpipe = driver == VK_DRIVER_ID_MESA_LLVMPIPE;
  return {.slow_loads = llvmpipe && mesa != 0 && mesa < kFirstFast,
          .max_loop_iterations = llvmpipe ? kLeastLoopLimit : 0};
}

bool miscompiles_preserved_floats(VkDriverId driver) {
  return driver == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
}

bool keeps_subnormal_halves(VkDriverId driver) {
  return driver == VK_DRIVER_ID_MESA_LLVMPIPE || driver == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
}

}  // namespace reprise::vulkan
