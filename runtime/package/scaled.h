// Weights that equal another weight times a factor for each channel. They arise when a
// BatchNormalization is folded into a convolution: the host plan still needs the model's own
// weight, so the file stores only the factors for the other one. Internal to runtime/package.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/package/package.h"

namespace reprise::package {

/// A float32 weight as the product of another one and factors along an axis.
struct Scaled {
  uint32_t base = 0;  // a weight of the same dims that is stored as it is
  uint32_t axis = 0;
  std::vector<float> factors;
};

/// For each weight of the package: how it follows from another one, bit for bit, or nothing if it
/// must be stored. A weight is the base of at most one other weight.
std::vector<std::optional<Scaled>> find_scaled(const Package& p);
/// Computes the product. `base` must be float32, and its dim `axis` must be the number of factors.
HostTensor scaled_tensor(const HostTensor& base, uint32_t axis, std::span<const float> factors);

}  // namespace reprise::package
