#include "tests/support/tensors.h"

namespace reprise::test {

namespace {

/// Calls f with a value of the C++ type that holds an element, 16-bit floats as their bits.
template <typename F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::F32:
      return f(float{});
    case DType::F64:
      return f(double{});
    case DType::I8:
      return f(int8_t{});
    case DType::I16:
      return f(int16_t{});
    case DType::F16:
    case DType::BF16:
    case DType::U16:
      return f(uint16_t{});
    case DType::I32:
      return f(int32_t{});
    case DType::U32:
      return f(uint32_t{});
    case DType::I64:
      return f(int64_t{});
    case DType::U64:
      return f(uint64_t{});
    default:
      return f(uint8_t{});
  }
}

}  // namespace

HostTensor random_tensor(DType dtype, const std::vector<int64_t>& dims, std::mt19937& rng) {
  HostTensor t(dtype, dims);
  std::uniform_real_distribution<float> real(-2, 2);
  std::uniform_int_distribution<int> whole(0, 3);
  with_type(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < t.count(); ++i) {
      T& element = t.mutable_data<T>()[i];
      if (dtype == DType::F16) {
        element = static_cast<T>(float_to_f16(real(rng)));
      } else if (dtype == DType::BF16) {
        element = static_cast<T>(float_to_bf16(real(rng)));
      } else if (is_float(dtype)) {
        element = static_cast<T>(real(rng));
      } else if (dtype != DType::Bool && size_of(dtype) < 4) {
        element = static_cast<T>(rng());  // all values, so that sums and products wrap
      } else {
        element = static_cast<T>(whole(rng) & (dtype == DType::Bool ? 1 : 3));
      }
    }
  });
  return t;
}

double number(const HostTensor& t, int64_t i) {
  if (t.dtype() == DType::F16) return f16_to_float(t.data<uint16_t>()[i]);
  if (t.dtype() == DType::BF16) return bf16_to_float(t.data<uint16_t>()[i]);
  double out = 0;
  with_type(t.dtype(), [&]<typename T>(T) { out = static_cast<double>(t.data<T>()[i]); });
  return out;
}

}  // namespace reprise::test
