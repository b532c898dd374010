// What is known of an index without executing the kernel: its form as a sum, and its divisors.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// A 32-bit integer as a constant plus multiples of other values, modulo 2^32.
struct IndexForm {
  std::map<int32_t, uint32_t> terms;  // factors that are not 0, by instruction
  uint32_t constant = 0;
};

/// The kernel must outlive the object and not change.
class IndexForms {
 public:
  explicit IndexForms(const Kernel& k)
      : k_(k), divisors_(k.insts.size(), 0), forms_(k.insts.size()) {}

  const IndexForm& form(Val v);
  /// A power of two that divides an integer of 32 bits.
  int64_t divisor(Val v);
  /// One that divides all multiples in a form; the constant does not count.
  int64_t divisor(const IndexForm& form);

 private:
  const Inst& at(Val v) const { return k_.insts[static_cast<size_t>(v.id)]; }
  int64_t find_divisor(const Inst& i);
  IndexForm find_form(Val v);

  const Kernel& k_;
  std::vector<int64_t> divisors_;  // 0: not known yet
  std::vector<std::optional<IndexForm>> forms_;
};

}  // namespace reprise::kernel
