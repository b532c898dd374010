#include "backends/vulkan/float_modes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "backends/vulkan/api.h"
#include "backends/vulkan/spirv_words.h"
#include "backends/vulkan/workarounds.h"

namespace reprise::vulkan {
namespace {

constexpr uint32_t kOpExecutionMode = 16;

/// A mode and its capability, from the tables of SPIR-V 1.6, section 3.
struct Mode {
  uint32_t number, capability;
  FloatWidths FloatModes::*supported;
};
constexpr std::array kModes{Mode{4459, 4464, &FloatModes::subnormals},
                            Mode{4461, 4466, &FloatModes::special_values},
                            Mode{4462, 4467, &FloatModes::nearest}};

class ModeFilter {
 public:
  explicit ModeFilter(const FloatModes& supported) : supported_(supported) {}

  void take(std::span<const uint32_t> instruction) {
    const uint32_t op = instruction[0] & 0xffffU;
    if (op == kOpExecutionMode && instruction.size() == 4) {
      const size_t n = find(instruction[2], &Mode::number);
      if (n != kModes.size()) {
        if (!(supported_.*kModes[n].supported).supports(instruction[3])) return;
        kept_modes_[n] = true;
      }
    }
    if (op == kOpCapability && instruction.size() == 2) {
      const size_t n = find(instruction[1], &Mode::capability);
      if (n != kModes.size()) places_[n] = words_.size();
    }
    words_.insert(words_.end(), instruction.begin(), instruction.end());
  }

  std::vector<uint32_t> finish() {
    std::vector<size_t> unused;
    for (size_t n = 0; n < kModes.size(); ++n)
      if (places_[n] != 0 && !kept_modes_[n]) unused.push_back(places_[n]);
    std::sort(unused.rbegin(), unused.rend());
    for (const size_t place : unused) {
      const auto first = words_.begin() + static_cast<std::ptrdiff_t>(place);
      words_.erase(first, first + 2);
    }
    return std::move(words_);
  }

  std::vector<uint32_t>& words() { return words_; }

 private:
  static size_t find(uint32_t number, uint32_t Mode::*of) {
    const auto it = std::ranges::find(kModes, number, of);
    return static_cast<size_t>(it - kModes.begin());
  }

  const FloatModes& supported_;
  std::vector<uint32_t> words_;
  std::array<size_t, kModes.size()> places_{};  // of the capabilities; 0: there is none
  std::array<bool, kModes.size()> kept_modes_{};
};

FloatWidths widths(VkBool32 f16, VkBool32 f32, VkBool32 f64) {
  return {f16 != VK_FALSE, f32 != VK_FALSE, f64 != VK_FALSE};
}

/// Those of the widths that modules declare a mode for. Floats of 32 bits need it only where the
/// driver makes them share the mode of halves.
FloatWidths declared(const FloatWidths& offered, VkShaderFloatControlsIndependence independence,
                     bool float64) {
  if (independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL)
    return {offered.f16, false, offered.f64};
  const bool single = independence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  const bool all = offered.f16 && (!single || offered.f32) && (!float64 || offered.f64);
  return {all, all && single, all && offered.f64};
}

}  // namespace

FloatControls float_controls(const VkPhysicalDeviceFloatControlsProperties& offered,
                             const VkPhysicalDeviceDriverProperties& driver, bool float64) {
  FloatControls out;
  if (!miscompiles_preserved_floats(driver.driverID)) {
    out.modes.special_values = widths(offered.shaderSignedZeroInfNanPreserveFloat16,
                                      offered.shaderSignedZeroInfNanPreserveFloat32, VK_FALSE);
  }
  out.modes.subnormals =
      declared(widths(offered.shaderDenormPreserveFloat16, offered.shaderDenormPreserveFloat32,
                      offered.shaderDenormPreserveFloat64),
               offered.denormBehaviorIndependence, float64);
  out.modes.nearest =
      declared(widths(offered.shaderRoundingModeRTEFloat16, offered.shaderRoundingModeRTEFloat32,
                      offered.shaderRoundingModeRTEFloat64),
               offered.roundingModeIndependence, float64);
  out.exact_halves = out.modes.nearest.f16 &&
                     (out.modes.subnormals.f16 || keeps_subnormal_halves(driver.driverID));
  return out;
}

std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const FloatModes& supported) {
  const auto as_it_is = [&] { return std::vector<uint32_t>(module.begin(), module.end()); };
  if (module.size() < kModuleHeaderWords) return as_it_is();
  ModeFilter filter(supported);
  filter.words().reserve(module.size());
  filter.words().assign(module.begin(), module.begin() + kModuleHeaderWords);
  for (size_t at = kModuleHeaderWords; at < module.size();) {
    const size_t words = module[at] >> 16U;
    if (words == 0 || words > module.size() - at) return as_it_is();
    filter.take(module.subspan(at, words));
    at += words;
  }
  return filter.finish();
}

}  // namespace reprise::vulkan
