// When two tensors count as equal: |a - b| <= atol + rtol |b| for all elements, except for a given
// share of them. NaN equals NaN; infinities must have the same sign; integers, bools and strings
// must match exactly.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise {

enum class Rule : uint8_t {
  Operator,  // as in the ONNX suite: rtol 1e-3, atol 1e-7
  Model,     // a fraction of max|b|: 1e-4 for fp32, 1e-2 for fp16, 2e-2 for bf16
};

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  double of_max = 0;  // added to atol: this fraction of the largest finite |b|
  double others = 0;  // this share of the elements may differ by any finite amount
};

Tolerance tolerance(Rule rule, DType dtype);
/// Widens `t` for a model that computes in `precision`, by compilation or by itself: float outputs
/// of any dtype get the tolerance of that precision.
Tolerance widened(Tolerance t, DType precision, DType dtype);

struct Comparison {
  bool ok = true;
  double max_error = 0;     // largest |a - b|; infinite where only one is NaN or infinite
  double max_relative = 0;  // max_error over the largest finite |b|
  int64_t differing = 0;    // number of elements beyond the tolerance
  std::string reason;       // the first difference, for people; empty if ok
};

/// Differing dtypes or dims are a difference, not an error. `slack`, if not empty, has an
/// additional tolerance for each element. If elements must be exact, an element with any slack may
/// have any value.
Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& t,
                   std::span<const double> slack = {});
/// |a - b|; infinite if only one is NaN or infinite.
double element_error(double a, double b);

/// Describes the first element whose bits differ between two runs: "element 3 is 0.5 and 0.25".
/// Empty if there is none.
std::string bit_difference(const HostTensor& first, const HostTensor& later);

/// The elements as doubles. 64-bit integers beyond 2^53 lose precision. `t` must not hold strings.
std::vector<double> to_double(const HostTensor& t);

}  // namespace reprise
