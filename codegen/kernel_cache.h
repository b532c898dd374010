// Equal kernels are legalised and emitted once for all variants of a package.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/kernel.h"

namespace reprise {

/// Not thread-safe.
class KernelCache {
 public:
  /// `enabled` false: nothing is kept. The results must be the same.
  explicit KernelCache(bool enabled) : enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  /// kernel::legalize() and kernel::simplify().
  Status legalize(kernel::Kernel& k, const kernel::LegalizeFor& target);
  Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const emit::SpirvOptions& options);

 private:
  bool enabled_;
  // The keys are the target's flags and the kernel's structure.
  std::unordered_map<std::string, kernel::Kernel> legal_;
  std::unordered_map<std::string, std::vector<uint32_t>> spirv_;
};

}  // namespace reprise
