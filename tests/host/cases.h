// Tests of host kernels as tables: an operator, its inputs, and the outputs or the error expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/host/host_kernels.h"

namespace reprise::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
inline const std::nullopt_t kOmitted = std::nullopt;

using Dims = std::vector<int64_t>;
using Inputs = std::vector<std::optional<HostTensor>>;

HostTensor f32(Dims dims, const std::vector<float>& v);
HostTensor f64(Dims dims, const std::vector<double>& v);
/// Rounded to half precision.
HostTensor f16(Dims dims, const std::vector<float>& v);
HostTensor bf16(Dims dims, const std::vector<float>& v);
HostTensor i64(Dims dims, const std::vector<int64_t>& v);
HostTensor i32(Dims dims, const std::vector<int32_t>& v);
HostTensor i8(Dims dims, const std::vector<int8_t>& v);
HostTensor u8(Dims dims, const std::vector<uint8_t>& v);
HostTensor u64(Dims dims, const std::vector<uint64_t>& v);
HostTensor boolean(Dims dims, const std::vector<uint8_t>& v);
HostTensor strings(Dims dims, const std::vector<std::string>& v);
/// 0, 1, 2, ... as float32.
HostTensor counting(Dims dims, float first = 0);

AttrMap attrs(std::initializer_list<std::pair<const char*, Attr>> list);
/// A list of integers as an attribute.
inline Attr ints(Dims v) {
  return Attr(std::move(v));
}
inline Attr text(const char* s) {
  return Attr(std::string(s));
}

struct Case {
  std::string label;
  std::string op;
  Inputs inputs;
  std::vector<HostTensor> expected;
  AttrMap attrs = {};
  int64_t opset = 0;
  /// Relative error allowed, and the same absolute one; 0 is equality. NaN equals NaN.
  double tolerance = 0;
  std::optional<Dims> output_dims = std::nullopt;
};
void run_cases(const std::vector<Case>& cases);

struct ErrorCase {
  std::string label;
  std::string op;
  Inputs inputs;
  Code code;
  std::string message;  // a part of it
  AttrMap attrs = {};
  int64_t opset = 0;
  size_t output_count = 1;
};
void run_error_cases(const std::vector<ErrorCase>& cases);

/// An empty string if the tensors agree.
std::string difference(const HostTensor& got, const HostTensor& want, double tolerance);

}  // namespace reprise::test
