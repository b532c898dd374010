#include "backends/vulkan/workarounds.h"

#include <charconv>

namespace reprise::vulkan {

namespace {

/// "Mesa 22.3.6 (LLVM 15.0.6)" -> 22; 0 for another form.
int mesa_major(std::string_view info) {
  constexpr std::string_view kMesa = "Mesa ";
  if (!info.starts_with(kMesa)) return 0;
  info.remove_prefix(kMesa.size());
  int major = 0;
  std::from_chars(info.data(), info.data() + info.size(), major);
  return major;
}

}  // namespace

void apply_workarounds(VkDriverId driver, std::string_view info, DeviceFacts& facts) {
  // llvmpipe 22.3.6 loads through an address by a loop over lanes: 67 ns for 16 bytes in each of 8
  // lanes, 25.0.7 needs 3 ns. Versions between them were not measured.
  constexpr int kFirstFast = 23;
  const int mesa = mesa_major(info);
  const bool llvmpipe = driver == VK_DRIVER_ID_MESA_LLVMPIPE;
  facts.slow_loads = llvmpipe && mesa != 0 && mesa < kFirstFast;
  // In every version so far (LP_MAX_TGSI_LOOP_ITERATIONS): measured with 22.3.6, 25.0.7 and 26.2.6.
  facts.max_loop_iterations = llvmpipe ? kLeastLoopLimit : 0;
}

// SwiftShader optimises modules with SPIRV-Tools, which do not fold floating-point instructions in
// a module that has the mode. Their constant propagation then treats a value that a loop carries
// through an extended instruction as a constant (tests/agreement/attention_of_constant_scores.txt).
bool miscompiles_preserved_floats(VkDriverId driver) {
  return driver == VK_DRIVER_ID_GOOGLE_SWIFTSHADER;
}

}  // namespace reprise::vulkan
