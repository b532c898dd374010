#include "backends/vulkan/workarounds.h"

#include <gtest/gtest.h>

namespace reprise::vulkan {
namespace {

bool slow_loads(VkDriverId driver, const char* info) {
  return driver_traits(driver, info).slow_loads;
}

TEST(Workarounds, SlowLoadsAreThoseOfOldLlvmpipe) {
  EXPECT_TRUE(slow_loads(VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 22.3.6 (LLVM 15.0.6)"));
  EXPECT_FALSE(slow_loads(VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)"));
  EXPECT_FALSE(slow_loads(VK_DRIVER_ID_MESA_RADV, "Mesa 22.3.6"));
  EXPECT_FALSE(slow_loads(VK_DRIVER_ID_MESA_LLVMPIPE, "22.3.6"));
  EXPECT_FALSE(slow_loads(VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa "));
}

TEST(Workarounds, LlvmpipeLeavesLongLoops) {
  EXPECT_EQ(driver_traits(VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 25.0.7").max_loop_iterations,
            kLeastLoopLimit);
  EXPECT_EQ(driver_traits(VK_DRIVER_ID_GOOGLE_SWIFTSHADER, "").max_loop_iterations, 0U);
}

TEST(Workarounds, SwiftShaderGetsNoPreservedFloats) {
  EXPECT_TRUE(miscompiles_preserved_floats(VK_DRIVER_ID_GOOGLE_SWIFTSHADER));
  EXPECT_FALSE(miscompiles_preserved_floats(VK_DRIVER_ID_MESA_LLVMPIPE));
  EXPECT_TRUE(keeps_subnormal_halves(VK_DRIVER_ID_MESA_LLVMPIPE));
  EXPECT_FALSE(keeps_subnormal_halves(VK_DRIVER_ID_GOOGLE_SWIFTSHADER));
}

}  // namespace
}  // namespace reprise::vulkan
