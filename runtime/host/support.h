// Helpers of the host kernels: argument checks, element conversion, index iteration.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/low_bit.h"
#include "runtime/host/host_kernels.h"

namespace reprise::host {

using Dims = std::vector<int64_t>;
using Tensors = std::vector<HostTensor>;
using KernelResult = Result<Tensors>;

using PrepareResult = Result<std::shared_ptr<const Prepared>>;
using Prepare = PrepareResult (*)(const Call&);

struct Entry {
  std::string_view name;
  Kernel kernel;
  Prepare prepare = nullptr;  // for kernels that have much to do before they read an input
};

/// The state T that `prepare` makes, now or before.
template <typename T>
Result<std::shared_ptr<const T>> prepared(const Call& c, Prepare prepare) {
  if (c.prepared) return std::static_pointer_cast<const T>(c.prepared);
  RP_ASSIGN(auto state, prepare(c));
  return std::static_pointer_cast<const T>(std::move(state));
}

// --- arguments ---

inline bool has_input(const Call& c, size_t i) {
  return i < c.inputs.size() && c.inputs[i] != nullptr;
}
inline const HostTensor& input(const Call& c, size_t i) {
  return *c.inputs[i];
}
/// Checks that the first `required` inputs are given, that there are at most `max_inputs`, and that
/// at most `max_outputs` outputs are requested.
Status check_arity(const Call& c, size_t required, size_t max_inputs, size_t max_outputs = 1);
/// "input 1 (indices): float32[2,3]"
std::string describe_input(const Call& c, size_t i, std::string_view role);
Status wrong_dtype(const Call& c, size_t i, std::string_view role, std::string_view wanted);
Status require_float(const Call& c, size_t i, std::string_view role);
Status require_number(const Call& c, size_t i, std::string_view role);
Status require_same_dtype(const Call& c, size_t i, size_t j);
Status require_rank(const Call& c, size_t i, std::string_view role, int64_t min_rank,
                    int64_t max_rank);
/// A dtype attribute in ONNX's numbering (TensorProto.DataType).
Result<DType> dtype_from_onnx(int64_t code);

/// Whether the attribute `attr` or input i has an integer list.
bool has_ints(const Call& c, std::string_view attr, size_t i);
/// An integer list from the attribute `attr`, as in core form, or else from input i (int32 or
/// int64, rank 0 or 1).
Result<Dims> read_ints(const Call& c, std::string_view attr, size_t i);
/// All elements of an integer tensor.
Result<Dims> tensor_ints(const HostTensor& t, const std::string& what);
/// The only element of a tensor of any numeric dtype.
Result<double> scalar_value(const Call& c, size_t i, std::string_view role);

Result<int64_t> normalize_axis(int64_t axis, int64_t rank, std::string_view what = "axis");
/// Non-negative, ascending, without duplicates.
Result<Dims> normalize_axes(const Dims& axes, int64_t rank);

// --- allocation and shape arithmetic ---

/// A tensor of zeros. Fails if its size is implausible or there is no memory.
Result<HostTensor> allocate(DType dtype, Dims dims);
/// Scratch memory with the same limits.
Result<std::vector<double>> allocate_scratch(std::span<const int64_t> dims);
std::string dims_str(std::span<const int64_t> dims);
/// The product, saturated at 2^62: if one dim is zero, the others may have any size.
int64_t product(std::span<const int64_t> dims);
inline int64_t product_range(const Dims& dims, int64_t begin, int64_t end) {
  return product(
      std::span(dims).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}
Dims strides_of(std::span<const int64_t> dims);
Result<Dims> broadcast_dims(std::span<const HostTensor* const> inputs);
/// The strides for reading a tensor of shape `from` at indices of shape `to`. The shapes must have
/// been checked to broadcast.
Dims broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);
inline KernelResult one(HostTensor t) {
  Tensors out;
  out.push_back(std::move(t));
  return out;
}
inline int64_t at(const Dims& d, int64_t i) {
  return d[static_cast<size_t>(i)];
}
inline int64_t& at(Dims& d, int64_t i) {
  return d[static_cast<size_t>(i)];
}

// --- elements ---

/// The type in which an operator computes: floats in double, integers in 64 bits that wrap around,
/// Bool as unsigned integer.
enum class Domain : uint8_t { Float, Signed, Unsigned, None };
Domain domain_of(DType t);

/// Rounds halves to the even neighbour, whatever the floating-point environment.
inline double round_half_even(double v) {
  const double r = std::round(v);
  return std::copysign(std::fabs(v - std::trunc(v)) == 0.5 ? 2 * std::round(v / 2) : r, v);
}
uint8_t double_to_low_bit(DType t, double v, LowBitRules rules = {});
/// Truncates and saturates; NaN gives 0.
int64_t saturate_i64(double v);
uint64_t saturate_u64(double v);

/// Reads n elements from `start` on, `stride` elements apart. Integers are rounded to double.
/// Floats cannot be read as integers; the result is 0. Low-bit types are numbers here.
void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, double* out);
void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, int64_t* out);
void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, uint64_t* out);
/// Writes n consecutive elements. A double is rounded once to a float dtype; for an integer dtype
/// it is truncated and saturated. Integers wrap to narrower ones. Bool stores v != 0.
void store(HostTensor& t, int64_t start, int64_t n, const double* v);
void store(HostTensor& t, int64_t start, int64_t n, const int64_t* v);
void store(HostTensor& t, int64_t start, int64_t n, const uint64_t* v);
/// The whole tensor as doubles.
Result<std::vector<double>> load_all(const HostTensor& t);
/// A tensor with these dims and values, each rounded once.
Result<HostTensor> store_all(DType dtype, Dims dims, const std::vector<double>& v);

/// Calls f with a value of the unsigned type of the element's width (uint8_t to uint64_t), or with
/// a std::string. For operators that only move elements.
template <typename F>
void with_width(DType t, F&& f) {
  if (t == DType::String) return f(std::string{});
  switch (size_of(t)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}
template <typename T>
T element(const HostTensor& t, int64_t i) {
  if constexpr (std::is_same_v<T, std::string>) {
    return t.strings()[static_cast<size_t>(i)];
  } else {
    T v;  // borrowed memory may be unaligned
    std::memcpy(&v, t.bytes().data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return v;
  }
}
template <typename T>
void set_element(HostTensor& t, int64_t i, const T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    t.mutable_strings()[static_cast<size_t>(i)] = v;
  } else {
    std::memcpy(t.mutable_bytes().data() + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
  }
}

/// dst[dst_at + i] = src[src_at + i]; equal dtypes.
void copy_block(HostTensor& dst, int64_t dst_at, const HostTensor& src, int64_t src_at, int64_t n);
/// A traversal of a tensor: the element with index vector i is at offset + i . strides.
struct Strided {
  Dims strides;
  int64_t offset = 0;
};
/// Copies the element at `from` to the element at `to` for every index vector over dims.
void copy_strided(const Dims& dims, HostTensor& dst, const Strided& to, const HostTensor& src,
                  const Strided& from);
/// Sets every element to element 0 of `value`, which must have the same dtype.
void fill(HostTensor& dst, const HostTensor& value);

// --- iteration ---

/// Calls f(offsets) for every index over dims in row-major order; offset k starts at start[k] and
/// moves by strides[k].
template <size_t N, typename F>
void for_each_index(const Dims& dims, const std::array<const Dims*, N>& strides,
                    std::array<int64_t, N> offsets, F&& f) {
  for (int64_t d : dims) {
    if (d <= 0) return;
  }
  std::vector<int64_t> index(dims.size(), 0);
  for (;;) {
    f(offsets);
    size_t d = dims.size();
    for (;;) {
      if (d == 0) return;
      --d;
      for (size_t k = 0; k < N; ++k) offsets[k] += (*strides[k])[d];
      if (++index[d] < dims[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= (*strides[k])[d] * dims[d];
      index[d] = 0;
    }
  }
}

/// Operands that broadcast together.
struct Broadcast {
  Dims dims;  // of the output
  Dims loop;  // the output's dims with neighbours joined where possible; at least one
  std::vector<Dims> strides;  // per operand, over `loop`
};
Result<Broadcast> broadcast(std::span<const HostTensor* const> inputs);

inline constexpr int64_t kChunk = 512;

/// Calls f(out_start, n, offsets) for sequences of n <= kChunk consecutive output elements. Operand
/// k is to be read from offsets[k] with stride b.strides[k].back().
void for_each_chunk(const Broadcast& b,
                    const std::function<void(int64_t, int64_t, std::span<const int64_t>)>& f);

/// Splits dims around an axis: index = (outer * axis_size + a) * inner + in.
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
};
AxisSplit split_at(const Dims& dims, int64_t axis);
Dims without(Dims dims, int64_t axis);
/// Elements [begin, begin + size) along the axis.
Result<HostTensor> slice_of(const HostTensor& t, int64_t axis, int64_t begin, int64_t size);

}  // namespace reprise::host
