// What is done once for equal kernels of all variants of a package.
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
  /// `enabled` false: everything is done anew, which must give the same.
  explicit KernelCache(bool enabled) : enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  /// kernel::legalize() and kernel::simplify(). `structure`: kernel::structure(k); may be empty
  /// where the cache is not enabled.
  Status legalize(kernel::Kernel& k, const std::string& structure,
                  const kernel::LegalizeFor& target);
  Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const emit::SpirvOptions& options);

 private:
  bool enabled_;
  // By what they are made for, then the kernel's structure.
  std::unordered_map<std::string, kernel::Kernel> legal_;
  std::unordered_map<std::string, std::vector<uint32_t>> spirv_;
};

}  // namespace reprise
