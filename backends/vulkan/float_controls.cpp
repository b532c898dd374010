#include "backends/vulkan/float_controls.h"

#include "backends/vulkan/api.h"
#include "backends/vulkan/workarounds.h"

namespace reprise::vulkan {
namespace {

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

}  // namespace reprise::vulkan
