// When two tensors count as equal: |a - b| <= atol + rtol |b|, for all elements but a share of
// them. NaN equals NaN, infinities match by sign, integers, bool and strings match exactly.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise {

enum class Rule : uint8_t {
  Operator,  // the ONNX suite's: rtol 1e-3, atol 1e-7
  Model,     // a fraction of max|b| by dtype: fp32 1e-4, fp16 1e-2, bf16 2e-2
};

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  double of_max = 0;  // added to atol: this fraction of the largest finite |b|
  double others = 0;  // this share of the elements may differ by any finite amount
};

Tolerance tolerance(Rule rule, DType dtype);
/// `t` for a model that computes in this precision, by compilation or by itself: outputs of any
/// float type are allowed what models of fp16 or bf16 are.
Tolerance widened(Tolerance t, DType precision, DType dtype);

struct Comparison {
  bool ok = true;
  double max_error = 0;     // largest |a - b|; infinite where only one is NaN or infinite
  double max_relative = 0;  // max_error over the largest finite |b|
  int64_t differing = 0;    // elements beyond what is allowed
  std::string reason;       // the first difference, for people; empty when ok
};

/// Differing dtypes or dims are a difference, not an error. `slack` is what each element may be off
/// besides; where elements must be exact, any that has some is allowed everything.
Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& t,
                   std::span<const double> slack = {});
/// |a - b|; infinite where only one is NaN or infinite.
double element_error(double a, double b);

/// The first element whose bits differ between two runs, with both values: "element 3 is 0.5 and
/// 0.25"; empty where there is none.
std::string bit_difference(const HostTensor& first, const HostTensor& later);

/// Elements as double; 64-bit integers beyond 2^53 lose precision. Not for strings.
std::vector<double> to_double(const HostTensor& t);

}  // namespace reprise
