#include "tests/support/tensors.h"

#include <cmath>
#include <type_traits>

#include "runtime/base/low_bit.h"
#include "runtime/base/storage.h"

namespace reprise::test {

namespace {

/// Two tensors, of 2 and 1 rows of three; or what an optional holds, or a map with two keys.
HostTensor random_container(DType dtype, std::mt19937& rng) {
  const DType held = item_type_of(dtype);
  if (held == DType::Invalid) {
    HostTensor keys = HostTensor::from<int64_t>(DType::I64, {2}, {1, 2});
    if (container_of(dtype) == Container::StringMap) {
      keys = HostTensor(DType::String, {2});
      keys.mutable_strings() = {"a", "b"};
    }
    return HostTensor::container(dtype, {keys, random_tensor(element_of(dtype), {2}, rng)});
  }
  std::vector<HostTensor> items{random_tensor(held, {2, 3}, rng)};
  if (!is_optional(dtype)) items.push_back(random_tensor(held, {1, 3}, rng));
  return HostTensor::container(dtype, std::move(items));
}

}  // namespace

HostTensor random_tensor(DType dtype, const std::vector<int64_t>& dims, std::mt19937& rng) {
  if (is_container(dtype)) return random_container(dtype, rng);
  HostTensor t(dtype, dims);
  std::uniform_real_distribution<float> real(-2, 2);
  std::uniform_int_distribution<int> whole(0, 3);
  for (int64_t i = 0; is_low_bit(dtype) && i < t.count(); ++i)
    t.mutable_data<uint8_t>()[i] = low_bit_from_float(dtype, std::floor(real(rng)));
  with_storage(dtype, [&]<typename T>(T) {
    const auto element = [&]() -> T {
      if constexpr (std::is_same_v<T, F16>) {
        return {float_to_f16(real(rng))};
      } else if constexpr (std::is_same_v<T, BF16>) {
        return {float_to_bf16(real(rng))};
      } else if constexpr (std::is_same_v<T, Bool8>) {
        return {static_cast<uint8_t>(whole(rng) & 1)};
      } else if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(real(rng));
      } else if constexpr (sizeof(T) < 4) {
        return static_cast<T>(rng());  // all values, so that sums and products wrap
      } else {
        return static_cast<T>(whole(rng));
      }
    };
    for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<T>()[i] = element();
  });
  return t;
}

double number(const HostTensor& t, int64_t i) {
  double out = 0;
  if (is_low_bit(t.dtype())) return low_bit_to_float(t.dtype(), t.data<uint8_t>()[i]);
  with_storage(t.dtype(), [&]<typename T>(T) {
    const T element = t.data<T>()[i];
    if constexpr (std::is_same_v<T, F16>) {
      out = f16_to_float(element.bits);
    } else if constexpr (std::is_same_v<T, BF16>) {
      out = bf16_to_float(element.bits);
    } else if constexpr (std::is_same_v<T, Bool8>) {
      out = element.bits;
    } else {
      out = static_cast<double>(element);
    }
  });
  return out;
}

}  // namespace reprise::test
