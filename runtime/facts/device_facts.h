// What a device can do. Facts select the variant of a package and, at compile time, schedules.
// Driver bugs are listed separately (runtime/base/driver_workarounds.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/driver_workarounds.h"
#include "runtime/base/mma_config.h"

namespace reprise {

enum class DeviceKind : uint8_t { Host, Cpu, IntegratedGpu, DiscreteGpu, VirtualGpu, Other };
enum class Api : uint8_t { Host, Vulkan, Cuda };

struct DeviceFacts {
  Api api = Api::Host;
  DeviceKind kind = DeviceKind::Other;
  // Features.
  bool int64 = false;
  bool float16 = false;       // fp16 arithmetic
  bool exact_halves = false;  // fp16 conversions round to nearest even and keep subnormal numbers
  bool float64 = false;       // fp64 arithmetic
  bool storage8 = false;      // 8-bit loads and stores in buffers
  bool storage16 = false;
  bool buffer_address = false;  // else kernels take descriptors
  bool subgroup_arithmetic = false;
  bool subgroup_shuffle = false;
  bool subgroup_extended_types = false;  // subgroup operations on 64-bit integers and fp16
  std::vector<MmaConfig> matrices;       // what matrix units multiply
  /// What they multiply in all multiples of these sizes.
  std::vector<MmaConfig> flexible_matrices;
  uint32_t subgroup_size = 1;  // invocations
  // The subgroup sizes that a kernel may require instead; 0: it may not.
  uint32_t least_subgroup_size = 0, largest_subgroup_size = 0;
  // Limits.
  uint32_t max_workgroup_invocations = 128;
  uint32_t max_shared_bytes = 16384;
  uint32_t reserved_shared_bytes = 0;            // of these, if a workgroup holds matrices
  uint32_t max_grid[3] = {65535, 65535, 65535};  // workgroups
  uint64_t max_buffer_bytes = uint64_t{128} << 20;
  uint32_t max_push_constant_bytes = 128;
  uint32_t max_storage_buffers = 4;  // descriptors of a kernel; without buffer addresses
  uint32_t cuda_arch = 0;            // compute capability, 10 * major + minor; CUDA devices only
  DriverTraits driver;

  bool has_subgroups_of(uint32_t size) const {
    return size == subgroup_size || (size >= least_subgroup_size && size <= largest_subgroup_size);
  }

  bool multiplies(const MmaConfig& matrix) const;

  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

/// A device in a list for people and programs.
struct DeviceInfo {
  std::string id;  // "vulkan:0", "host", "cuda:0"
  std::string name;
  std::string kind;    // "cpu", "discrete-gpu", ...
  std::string driver;  // name and version
  std::string api;     // "Vulkan 1.3.230"
  bool usable = false;
  std::string reason;  // if not usable: why, and what to do
  DeviceFacts facts;
  /// Of a device that an application lends without all of its features: the facts with them.
  std::optional<DeviceFacts> offered;
  uint8_t uuid[16] = {};
  uint32_t driver_version = 0;
  // Of the adapter on Windows.
  bool has_luid = false;
  uint8_t luid[8] = {};
  uint32_t luid_node_mask = 0;
};

/// The facts that a variant needs. A session uses the first variant whose predicate its device
/// satisfies.
struct Predicate {
  Api api = Api::Vulkan;
  bool needs_int64 = false;
  bool needs_float16 = false;
  bool needs_exact_halves = false;
  bool needs_float64 = false;
  bool needs_storage8 = false;
  bool needs_storage16 = false;
  bool needs_subgroup_arithmetic = false;
  bool needs_subgroup_shuffle = false;
  bool needs_subgroup_extended_types = false;
  bool cpu_type = false;                 // tuned for DeviceKind::Cpu; refuses other kinds
  bool slow_loads = false;               // tuned for DriverTraits::slow_loads; refuses others
  uint32_t subgroup_size = 0;            // exactly this size; 0: any
  std::vector<MmaConfig> matrices;       // the device must multiply all of them
  uint32_t workgroup_invocations = 128;  // minimum
  uint32_t shared_bytes = 16384;         // minimum
  // For devices without buffer addresses: kernels take up to this many storage buffers. 0: the
  // kernels use addresses.
  uint32_t storage_buffers = 0;
  std::string cuda_arch;  // "sm_90" (cubin) or "compute_80" (PTX); empty for Vulkan

  /// Empty if the facts satisfy the predicate; or else why not, for people: the first reason, but
  /// all optional features that are missing.
  std::string mismatch(const DeviceFacts& facts) const;
  /// The features that an application must enable and declare when it lends the device, of those
  /// that are missing: members of reprise_vulkan_device, with what they are for.
  std::string missing_of_lent(const DeviceFacts& facts) const;

  friend bool operator==(const Predicate&, const Predicate&) = default;
};

}  // namespace reprise
