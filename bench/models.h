// The measured models, as ONNX files in memory.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::bench {

/// About 36 pointwise operators over [rows, columns]: scale and bias, then sin + cos * tanh,
/// x * sigmoid(x) + relu(x), x / (1 + |x|), repeated.
std::string pointwise_model(int64_t rows, int64_t columns);
/// gelu(x * a + b) over `count` floats, with scalars a and b.
std::string gelu_model(int64_t count);
/// y = x w with a constant w, [n, n] each.
std::string matmul_model(int64_t n);

}  // namespace reprise::bench
