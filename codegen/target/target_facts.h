// The device facts that kernel templates may ask for. A TargetFacts records which of them were
// asked for, so that one kernel serves every variant with the same answers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/facts/cuda_arch.h"
#include "runtime/facts/device_facts.h"

namespace reprise::shaders {

/// The facts that a predicate guarantees. Not thread-safe: each question is recorded in the object.
class TargetFacts {
 public:
  TargetFacts(const Predicate& p)  // NOLINT(google-explicit-constructor): a predicate states facts
      : values_{p.cpu_type,          p.slow_loads,
                p.needs_float64,     p.needs_storage8,
                p.needs_storage16,   p.needs_subgroup_shuffle,
                p.subgroup_size,     p.workgroup_invocations,
                p.shared_bytes,      p.storage_buffers,
                has_async_copies(p), has_matrix_elements(p)},
        matrices_(p.matrices) {}

  bool cpu_type() const { return ask(kCpuType) != 0; }
  bool slow_loads() const { return ask(kSlowLoads) != 0; }
  bool float64() const { return ask(kFloat64) != 0; }
  bool storage8() const { return ask(kStorage8) != 0; }
  bool storage16() const { return ask(kStorage16) != 0; }
  bool subgroup_shuffle() const { return ask(kSubgroupShuffle) != 0; }
  uint32_t subgroup_size() const { return ask(kSubgroupSize); }  // 0: any
  uint32_t workgroup_invocations() const { return ask(kWorkgroupInvocations); }
  uint32_t shared_bytes() const { return ask(kSharedBytes); }
  bool async_copies() const { return ask(kAsyncCopies) != 0; }
  /// Whether kernels may name the elements of matrices, which the API says where to find.
  bool matrix_elements() const { return ask(kMatrixElements) != 0; }
  /// What matrix units multiply there, of these types. None: nothing.
  std::vector<MmaConfig> matrices(const MmaTypes& types) const {
    if (std::ranges::find(asked_types_, types) == asked_types_.end()) asked_types_.push_back(types);
    return matrices_of(types);
  }

  /// Whether teams multiply matrices in shared memory, to which copies bring boxes of views.
  bool has_teams() const {
    asked_teams_ = true;
    return teams();
  }

  static bool has_async_copies(const Predicate& p) {
    const auto arch = CudaArch::parse(p.cuda_arch);
    return arch && CudaArch::copies_asynchronously(arch->number);
  }

  static bool has_matrix_elements(const Predicate& p) {
    return p.api == Api::Cuda && !p.matrices.empty();
  }

  /// Kernels with so few buffers serve all devices.
  static constexpr size_t kBuffersThatFit = 15;
  /// Whether a kernel may have so many buffers, besides the error word.
  bool fits_buffers(size_t n) const {
    if (n <= kBuffersThatFit) return true;
    const uint32_t most = ask(kStorageBuffers);
    return most == 0 || n < most;
  }

  /// Whether an answer depended on fp64 arithmetic.
  bool asked_for_float64() const { return asked_[kFloat64]; }

  /// Whether `other` has the same answer to every question that this object was asked.
  bool answers_like(const TargetFacts& other) const {
    for (size_t i = 0; i < kFacts; ++i) {
      if (asked_[i] && values_[i] != other.values_[i]) return false;
    }
    return (!asked_teams_ || teams() == other.teams()) &&
           std::ranges::all_of(asked_types_, [&](const MmaTypes& types) {
             return matrices_of(types) == other.matrices_of(types);
           });
  }

 private:
  enum Fact : uint8_t {
    kCpuType,
    kSlowLoads,
    kFloat64,
    kStorage8,
    kStorage16,
    kSubgroupShuffle,
    kSubgroupSize,
    kWorkgroupInvocations,
    kSharedBytes,
    kStorageBuffers,
    kAsyncCopies,
    kMatrixElements,
    kFacts
  };
  std::vector<MmaConfig> matrices_of(const MmaTypes& types) const {
    std::vector<MmaConfig> out;
    for (const MmaConfig& m : matrices_)
      if (m.types == types) out.push_back(m);
    return out;
  }
  bool teams() const {
    return std::ranges::any_of(matrices_,
                               [](const MmaConfig& m) { return m.scope == MmaScope::Team; });
  }
  uint32_t ask(Fact f) const {
    asked_[f] = true;
    return values_[f];
  }

  std::array<uint32_t, kFacts> values_;
  mutable std::array<bool, kFacts> asked_{};
  std::vector<MmaConfig> matrices_;
  mutable std::vector<MmaTypes> asked_types_;  // of which matrices were asked for
  mutable bool asked_teams_ = false;
};

}  // namespace reprise::shaders
