// Weights that are others with a factor for each channel, as a BatchNormalization that became part
// of a convolution leaves behind: the model's own weight stays for the host plan, and a file keeps
// the factors alone. Inside of the package, not for others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/package/package.h"

namespace reprise::package {

/// A float32 weight as the product of another one with factors along an axis.
struct Scaled {
  uint32_t base = 0;  // a weight of the same dims that is stored itself
  uint32_t axis = 0;
  std::vector<float> factors;
};

/// For each weight of the package how it follows from another one, bit for bit; nothing for those
/// that have to be stored. A weight is the base of one other at most.
std::vector<std::optional<Scaled>> find_scaled(const Package& p);
/// The product. The axis is one of the base's, which is float32 and has as many channels as there
/// are factors.
HostTensor scaled_tensor(const HostTensor& base, uint32_t axis, std::span<const float> factors);

}  // namespace reprise::package
