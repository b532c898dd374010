#include "backends/vulkan/float_modes.h"

#include <cstddef>

namespace reprise::vulkan {
namespace {

// SPIR-V 1.6, section 3: tables of instructions, execution modes and capabilities.
constexpr uint32_t kOpExecutionMode = 16, kOpCapability = 17;
constexpr uint32_t kSignedZeroInfNanPreserve = 4461;            // mode
constexpr uint32_t kSignedZeroInfNanPreserveCapability = 4466;  // capability
constexpr size_t kHeaderWords = 5;

}  // namespace

std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const PreservedFloats& preserved) {
  std::vector<uint32_t> out(module.begin(), module.end());
  if (out.size() < kHeaderWords) return out;
  std::vector<uint32_t> kept(out.begin(), out.begin() + kHeaderWords);
  size_t capability = 0, modes = 0;
  for (size_t at = kHeaderWords; at < out.size();) {
    const uint32_t op = out[at] & 0xffffU;
    const size_t words = out[at] >> 16U;
    if (words == 0 || words > out.size() - at) return out;
    const bool mode =
        op == kOpExecutionMode && words == 4 && out[at + 2] == kSignedZeroInfNanPreserve;
    if (op == kOpCapability && words == 2 && out[at + 1] == kSignedZeroInfNanPreserveCapability)
      capability = kept.size();
    if (!mode || preserved.supports(out[at + 3])) {
      kept.insert(kept.end(), out.begin() + static_cast<std::ptrdiff_t>(at),
                  out.begin() + static_cast<std::ptrdiff_t>(at + words));
      modes += mode ? 1 : 0;
    }
    at += words;
  }
  if (capability != 0 && modes == 0) {
    const auto first = kept.begin() + static_cast<std::ptrdiff_t>(capability);
    kept.erase(first, first + 2);
  }
  return kept;
}

}  // namespace reprise::vulkan
