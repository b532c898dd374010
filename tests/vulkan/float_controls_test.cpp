#include "backends/vulkan/float_modes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "backends/vulkan/api.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::vulkan {
namespace {

constexpr auto kNone = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
constexpr auto kSingles = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
constexpr auto kAll = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;

constexpr FloatWidths kEvery{true, true, true}, kNever{}, kBesidesSingles{true, false, true};

/// What drivers say, of the features that matter here.
struct Offered {
  VkDriverId id = VK_DRIVER_ID_MESA_RADV;
  VkShaderFloatControlsIndependence subnormals_apart = kAll, rounding_apart = kAll;
  FloatWidths subnormals = kNever, nearest = kNever;
};

FloatControls controls_of(const Offered& d, bool float64) {
  VkPhysicalDeviceFloatControlsProperties offered{};
  offered.denormBehaviorIndependence = d.subnormals_apart;
  offered.roundingModeIndependence = d.rounding_apart;
  offered.shaderDenormPreserveFloat16 = VkBool32{d.subnormals.f16};
  offered.shaderDenormPreserveFloat32 = VkBool32{d.subnormals.f32};
  offered.shaderDenormPreserveFloat64 = VkBool32{d.subnormals.f64};
  offered.shaderRoundingModeRTEFloat16 = VkBool32{d.nearest.f16};
  offered.shaderRoundingModeRTEFloat32 = VkBool32{d.nearest.f32};
  offered.shaderRoundingModeRTEFloat64 = VkBool32{d.nearest.f64};
  offered.shaderSignedZeroInfNanPreserveFloat16 = VK_TRUE;
  offered.shaderSignedZeroInfNanPreserveFloat32 = VK_TRUE;
  offered.shaderSignedZeroInfNanPreserveFloat64 = VK_TRUE;
  VkPhysicalDeviceDriverProperties driver{};
  driver.driverID = d.id;
  return float_controls(offered, driver, float64);
}

/// Such as "16 64".
std::string str(const FloatWidths& w) {
  std::string out;
  for (const uint32_t width : {16U, 32U, 64U})
    if (w.supports(width)) out += (out.empty() ? "" : " ") + std::to_string(width);
  return out;
}

struct Expected {
  const char* what;
  Offered driver;
  bool float64;
  const char* subnormals;
  const char* nearest;
  bool exact_halves;
};

const Expected kDrivers[] = {
    {"Intel's of Mesa, whose rounding is one for all widths",
     {VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, kAll, kNone, kEvery, kEvery},
     true,
     "16 64",
     "16 32 64",
     true},
    {"the same without doubles",
     {VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, kAll, kNone, {true, true, false}, {true, true, false}},
     false,
     "16",
     "16 32",
     true},
    {"one that cannot round all widths so",
     {VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, kAll, kNone, kEvery, kBesidesSingles},
     true,
     "16 64",
     "",
     false},
    {"AMD's of Mesa, where halves and doubles share a register",
     {VK_DRIVER_ID_MESA_RADV, kSingles, kSingles, kEvery, kEvery},
     true,
     "16 64",
     "16 64",
     true},
    {"the same for GPUs without packed halves",
     {VK_DRIVER_ID_MESA_RADV, kAll, kAll, {true, false, true}, {false, true, true}},
     true,
     "16 64",
     "64",
     false},
    {"NVIDIA's, which keeps subnormal halves and does not offer to",
     {VK_DRIVER_ID_NVIDIA_PROPRIETARY, kSingles, kSingles, {false, true, true}, kEvery},
     true,
     "",
     "16 64",
     true},
    {"the same with widths apart",
     {VK_DRIVER_ID_NVIDIA_PROPRIETARY, kAll, kAll, {false, true, true}, kEvery},
     true,
     "64",
     "16 64",
     true},
    {"another that does not offer it",
     {VK_DRIVER_ID_MESA_RADV, kSingles, kSingles, {false, true, true}, kEvery},
     true,
     "",
     "16 64",
     false},
    {"one that cannot round doubles as halves",
     {VK_DRIVER_ID_MESA_RADV, kSingles, kSingles, kEvery, {true, true, false}},
     true,
     "16 64",
     "",
     false},
    {"the same if modules have no doubles",
     {VK_DRIVER_ID_MESA_RADV, kSingles, kSingles, kEvery, {true, true, false}},
     false,
     "16 64",
     "16",
     true},
    {"llvmpipe", {VK_DRIVER_ID_MESA_LLVMPIPE, kAll, kAll, kNever, kEvery}, true, "", "16 64", true},
    {"SwiftShader",
     {VK_DRIVER_ID_GOOGLE_SWIFTSHADER, kNone, kNone, kNever, kNever},
     false,
     "",
     "",
     false},
};

TEST(FloatControls, OfDrivers) {
  for (const Expected& e : kDrivers) {
    SCOPED_TRACE(e.what);
    const FloatControls got = controls_of(e.driver, e.float64);
    EXPECT_EQ(str(got.modes.subnormals), e.subnormals);
    EXPECT_EQ(str(got.modes.nearest), e.nearest);
    EXPECT_EQ(got.exact_halves, e.exact_halves);
    const bool preserves = e.driver.id != VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
    EXPECT_EQ(str(got.modes.special_values), preserves ? "16 32" : "");
  }
}

/// A module that rounds to halves, and computes with floats and, if `doubles`, with those.
std::vector<uint32_t> rounding_module(bool doubles) {
  using kernel::Access;
  using kernel::Ty;
  kernel::Builder b("rounds");
  const Ty from = doubles ? Ty::F64 : Ty::F32;
  const int x = b.buffer("x", from, Access::Read), y = b.buffer("y", Ty::F16, Access::Write);
  const kernel::Val v = b.load(x, b.i32(0));
  b.store(y, b.i32(0), b.convert(b.convert(b.add(v, v), Ty::F32), Ty::F16));
  const auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  auto words = emit::spirv(*k, {});
  EXPECT_TRUE(words.ok()) << words.status().message();
  return *words;
}

/// The widths that a module declares an execution mode for.
FloatWidths widths_in(const std::vector<uint32_t>& module, uint32_t mode) {
  constexpr uint32_t kWordsAndOp = 4U << 16U | 16U;  // OpExecutionMode with a width
  FloatWidths out;
  for (size_t at = 5; at + 3 < module.size(); at += std::max(module[at] >> 16U, 1U)) {
    if (module[at] != kWordsAndOp || module[at + 2] != mode) continue;
    out.f16 |= module[at + 3] == 16;
    out.f32 |= module[at + 3] == 32;
    out.f64 |= module[at + 3] == 64;
  }
  return out;
}

/// What Vulkan demands of a module (VUID-RuntimeSpirv-*Independence-06289 to 06292, and that each
/// mode is offered).
void expect_allowed(const FloatWidths& used, const FloatWidths& offered,
                    VkShaderFloatControlsIndependence apart, bool doubles) {
  EXPECT_TRUE((!used.f16 || offered.f16) && (!used.f32 || offered.f32) &&
              (!used.f64 || offered.f64));
  EXPECT_TRUE(apart == kAll || !doubles || used.f16 == used.f64);
  EXPECT_TRUE(apart != kNone || used.f16 == used.f32);
}

TEST(FloatControls, ModulesDeclareWhatVulkanAllows) {
  constexpr uint32_t kDenormPreserve = 4459, kRoundingModeRTE = 4462;
  const std::array modules{rounding_module(false), rounding_module(true)};
  EXPECT_EQ(str(widths_in(modules[0], kRoundingModeRTE)), "16 32");
  EXPECT_EQ(str(widths_in(modules[1], kDenormPreserve)), "16 32 64");
  size_t exact = 0;
  for (uint32_t offers = 0; offers < 64; ++offers) {
    const auto has = [&](uint32_t bit) { return (offers >> bit & 1U) != 0; };
    for (const auto subnormals_apart : {kNone, kSingles, kAll}) {
      for (const auto rounding_apart : {kNone, kSingles, kAll}) {
        for (const bool float64 : {false, true}) {
          const Offered d{VK_DRIVER_ID_NVIDIA_PROPRIETARY,
                          subnormals_apart,
                          rounding_apart,
                          {has(0), has(1), has(2)},
                          {has(3), has(4), has(5)}};
          const FloatControls controls = controls_of(d, float64);
          exact += controls.exact_halves ? 1 : 0;
          for (const bool doubles : {false, true}) {
            if (doubles && !float64) continue;
            SCOPED_TRACE(str(d.subnormals) + ", " + str(d.nearest) + (doubles ? ", doubles" : ""));
            const auto words = with_supported_modes(modules[doubles ? 1 : 0], controls.modes);
            const FloatWidths nearest = widths_in(words, kRoundingModeRTE);
            expect_allowed(nearest, d.nearest, rounding_apart, doubles);
            expect_allowed(widths_in(words, kDenormPreserve), d.subnormals, subnormals_apart,
                           doubles);
            EXPECT_TRUE(!controls.exact_halves || nearest.f16);
          }
        }
      }
    }
  }
  EXPECT_GT(exact, 0U);
}

}  // namespace
}  // namespace reprise::vulkan
