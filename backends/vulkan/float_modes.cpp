#include "backends/vulkan/float_modes.h"

#include <cstddef>

#include "backends/vulkan/spirv_words.h"

namespace reprise::vulkan {
namespace {

// From the tables of instructions, execution modes and capabilities in SPIR-V 1.6, section 3.
constexpr uint32_t kOpExecutionMode = 16;
constexpr uint32_t kSignedZeroInfNanPreserve = 4461;            // mode
constexpr uint32_t kSignedZeroInfNanPreserveCapability = 4466;  // capability

}  // namespace

std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const PreservedFloats& preserved) {
  const auto as_it_is = [&] { return std::vector<uint32_t>(module.begin(), module.end()); };
  if (module.size() < kModuleHeaderWords) return as_it_is();
  std::vector<uint32_t> kept(module.begin(), module.begin() + kModuleHeaderWords);
  kept.reserve(module.size());
  size_t capability = 0, modes = 0;
  for (size_t at = kModuleHeaderWords; at < module.size();) {
    const uint32_t op = module[at] & 0xffffU;
    const size_t words = module[at] >> 16U;
    if (words == 0 || words > module.size() - at) return as_it_is();
    const auto instruction = module.subspan(at, words);
    at += words;
    const bool mode =
        op == kOpExecutionMode && words == 4 && instruction[2] == kSignedZeroInfNanPreserve;
    if (op == kOpCapability && words == 2 && instruction[1] == kSignedZeroInfNanPreserveCapability)
      capability = kept.size();
    if (mode && !preserved.supports(instruction[3])) continue;
    kept.insert(kept.end(), instruction.begin(), instruction.end());
    modes += mode ? 1 : 0;
  }
  if (capability != 0 && modes == 0) {
    const auto first = kept.begin() + static_cast<std::ptrdiff_t>(capability);
    kept.erase(first, first + 2);
  }
  return kept;
}

}  // namespace reprise::vulkan
