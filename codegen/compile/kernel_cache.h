// A cache in which equal kernels are legalised and emitted once for all variants of a package.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise {

/// Threads may call it concurrently.
class KernelCache {
 public:
  /// If `enabled` is false, nothing is cached; the results are the same.
  explicit KernelCache(bool enabled) : enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  /// kernel::legalize(). Kernels with the same number are equal.
  Status legalize(kernel::Kernel& k, std::optional<size_t> number,
                  const kernel::LegalizeFor& target);
  /// Makes what legalize() will give for such kernels.
  Status prepare(const kernel::Kernel& k, std::optional<size_t> number,
                 const kernel::LegalizeFor& target);
  /// `structure`: kernel::structure(k).
  Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const std::string& structure,
                                      const emit::SpirvOptions& options);

 private:
  using Known = std::shared_ptr<const kernel::Kernel>;
  Result<Known> legal_form(const kernel::Kernel& k, std::optional<size_t> number,
                           const kernel::LegalizeFor& target);
  Known find(const std::unordered_map<std::string, Known>& in, const std::string& key) const;

  bool enabled_;
  mutable std::mutex mutex_;
  // A key has the target's flags, and the kernel's number or its structure.
  std::unordered_map<std::string, Known> by_number_, by_structure_;
  std::unordered_map<std::string, std::vector<uint32_t>> spirv_;
};

}  // namespace reprise
