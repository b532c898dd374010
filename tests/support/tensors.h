// Tensors for tests: random contents, and elements as numbers.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise::test {

/// Floats between -2 and 2, integers from 0 to 3, but those of 8 and 16 bits anywhere.
HostTensor random_tensor(DType dtype, const std::vector<int64_t>& dims, std::mt19937& rng);

/// Element i as a number. Not for strings.
double number(const HostTensor& t, int64_t i);

}  // namespace reprise::test
