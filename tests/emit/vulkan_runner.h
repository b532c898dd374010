// Runs one SPIR-V module on each Vulkan device of the machine. Independent of the Vulkan backend,
// so that the emitter's tests do not test the emitter and the backend at once; but modules lose the
// float modes that a device lacks, as they do there.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/float_modes.h"
#include "codegen/kernel/ir/kernel.h"
#include "runtime/base/status.h"
#include "tests/emit/launch.h"

namespace reprise::test {

struct VulkanFacts {
  std::string name;
  uint32_t api_version = 0;
  bool int64 = false, int8 = false, int16 = false, float16 = false, float64 = false;
  bool storage8 = false, storage16 = false;
  bool exact_halves = false;  // as in DeviceFacts
  bool subgroup_arithmetic = false, subgroup_shuffle = false;
  bool subgroup_extended_types = false;
  vulkan::FloatModes float_modes;
  uint32_t subgroup_size = 0, workgroup_invocations = 0, shared_bytes = 0;
};

/// One device with its own queue and memory. Not thread-safe.
class VulkanRunner {
 public:
  virtual ~VulkanRunner() = default;
  virtual const VulkanFacts& facts() const = 0;
  /// Whether the device has every feature in `r`.
  bool supports(const kernel::Requirements& r) const;
  /// Builds a pipeline and runs it once. Buffers lie between guard bytes; a write to a guard, a
  /// validation message or a failed call is an error.
  /// `descriptors`: the module takes descriptors. Half of its launches bind the whole memory, the
  /// others each buffer from near its begin on.
  virtual Status run(std::span<const uint32_t> spirv, Launch& launch, bool descriptors = false) = 0;
};

/// Every device of every driver that the loader finds and that has buffer addresses. The devices
/// stay open until the process ends.
Result<std::vector<VulkanRunner*>> vulkan_runners();

}  // namespace reprise::test
