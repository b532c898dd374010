// Kernels and data of primitives.
#pragma once

#include <cstring>
#include <random>

#include "codegen/kernel/build/builder.h"
#include "tests/primitives/lib/primitives.h"

namespace reprise::test {

/// Invocations of a team.
inline constexpr uint32_t kTeam = 128;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// Small integers as F16 or BF16: sums of their products are exact in any order.
std::vector<std::byte> small_integers(kernel::Ty type, size_t count, uint32_t seed);
/// Finite numbers of every magnitude, zeros and infinities among them.
std::vector<float> any_floats(size_t count, uint32_t seed);
/// The kernel that a builder has written, in the form that is emitted.
kernel::Kernel finished(kernel::Builder& b);

}  // namespace reprise::test
