// Converts between stored elements and the types in which kernels compute, and moves elements.
#include <algorithm>
#include <bit>

#include "runtime/base/low_bit.h"
#include "runtime/base/storage.h"
#include "runtime/host/support.h"

namespace reprise::host {

namespace {

template <typename To, typename From>
To convert_in(From v) {
  if constexpr (std::is_same_v<From, F16>) {
    return convert_in<To>(f16_to_float(v.bits));
  } else if constexpr (std::is_same_v<From, BF16>) {
    return convert_in<To>(bf16_to_float(v.bits));
  } else if constexpr (std::is_same_v<From, Bool8>) {
    return v.bits != 0 ? To{1} : To{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return To{0};
  } else {
    return static_cast<To>(v);
  }
}

template <typename To, typename From>
To convert_out(From v) {
  if constexpr (std::is_same_v<To, F16>) {
    return {double_to_f16(static_cast<double>(v))};
  } else if constexpr (std::is_same_v<To, BF16>) {
    return {double_to_bf16(static_cast<double>(v))};
  } else if constexpr (std::is_same_v<To, Bool8>) {
    return {static_cast<uint8_t>(v != 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if constexpr (std::is_same_v<To, uint64_t>) {
      return saturate_u64(v);
    } else {
      return static_cast<To>(std::clamp<int64_t>(saturate_i64(v),
                                                 int64_t{std::numeric_limits<To>::min()},
                                                 int64_t{std::numeric_limits<To>::max()}));
    }
  } else {
    return static_cast<To>(v);
  }
}

template <typename To>
void load_low_bit(const HostTensor& t, int64_t start, int64_t stride, int64_t n, To* out) {
  const auto* codes = t.data<uint8_t>() + start;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = codes[i * stride];
    if constexpr (std::is_integral_v<To>) {
      out[i] = is_low_bit_int(t.dtype()) ? static_cast<To>(low_bit_to_int(t.dtype(), code)) : To{0};
    } else {
      out[i] = low_bit_to_float(t.dtype(), code);
    }
  }
}

template <typename From>
void store_low_bit(HostTensor& t, int64_t start, int64_t n, const From* values) {
  auto* codes = t.mutable_data<uint8_t>() + start;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<From>) {
      const auto v = static_cast<int64_t>(values[i]);
      codes[i] = is_low_bit_int(t.dtype())
                     ? low_bit_from_int(t.dtype(), v)
                     : double_to_low_bit(t.dtype(), static_cast<double>(values[i]));
    } else {
      codes[i] = double_to_low_bit(t.dtype(), values[i]);
    }
  }
}

template <typename To>
void load_as(const HostTensor& t, int64_t start, int64_t stride, int64_t n, To* out) {
  if (is_low_bit(t.dtype())) return load_low_bit(t, start, stride, n, out);
  with_storage(t.dtype(), [&](auto tag) {
    using From = decltype(tag);
    if (n <= 0) return;
    constexpr auto kSize = static_cast<int64_t>(sizeof(From));
    const std::byte* p = t.bytes().data() + start * kSize;
    for (int64_t i = 0; i < n; ++i) {
      From v;  // borrowed memory may be unaligned
      std::memcpy(&v, p + i * stride * kSize, sizeof(From));
      out[i] = convert_in<To>(v);
    }
  });
}

template <typename From>
void store_as(HostTensor& t, int64_t start, int64_t n, const From* values) {
  if (is_low_bit(t.dtype())) return store_low_bit(t, start, n, values);
  with_storage(t.dtype(), [&](auto tag) {
    using To = decltype(tag);
    if (n <= 0) return;
    std::byte* p = t.mutable_bytes().data() + start * static_cast<int64_t>(sizeof(To));
    for (int64_t i = 0; i < n; ++i) {
      const To v = convert_out<To>(values[i]);
      std::memcpy(p + i * static_cast<int64_t>(sizeof(To)), &v, sizeof(To));
    }
  });
}

}  // namespace

Domain domain_of(DType t) {
  if (is_float(t)) return Domain::Float;
  if (is_signed_int(t)) return Domain::Signed;
  if (is_int(t) || t == DType::Bool) return Domain::Unsigned;
  return Domain::None;
}

uint8_t double_to_low_bit(DType t, double v, LowBitRules rules) {
  if (!is_low_bit_int(t)) return low_bit_from_float(t, to_float_odd(v), rules);
  // As in kernels, whose integers have 32 bits.
  return low_bit_from_int(t,
                          std::clamp<int64_t>(saturate_i64(v), std::numeric_limits<int32_t>::min(),
                                              std::numeric_limits<int32_t>::max()));
}

int64_t saturate_i64(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

uint64_t saturate_u64(double v) {
  if (std::isnan(v) || v <= 0) return 0;
  return v >= 0x1p64 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(v);
}

void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, double* out) {
  load_as(t, start, stride, n, out);
}
void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, int64_t* out) {
  load_as(t, start, stride, n, out);
}
void load(const HostTensor& t, int64_t start, int64_t stride, int64_t n, uint64_t* out) {
  load_as(t, start, stride, n, out);
}
void store(HostTensor& t, int64_t start, int64_t n, const double* v) {
  store_as(t, start, n, v);
}
void store(HostTensor& t, int64_t start, int64_t n, const int64_t* v) {
  store_as(t, start, n, v);
}
void store(HostTensor& t, int64_t start, int64_t n, const uint64_t* v) {
  store_as(t, start, n, v);
}

Result<std::vector<double>> load_all(const HostTensor& t) {
  RP_ASSIGN(auto v, allocate_scratch(t.dims()));
  load(t, 0, 1, t.count(), v.data());
  return v;
}

Result<HostTensor> store_all(DType dtype, Dims dims, const std::vector<double>& v) {
  RP_ASSIGN(auto t, allocate(dtype, std::move(dims)));
  if (t.count() != static_cast<int64_t>(v.size())) {
    return internal_error("store_all: " + describe(dtype, t.dims()) + " from " +
                          std::to_string(v.size()) + " values");
  }
  store(t, 0, t.count(), v.data());
  return t;
}

void copy_block(HostTensor& dst, int64_t dst_at, const HostTensor& src, int64_t src_at, int64_t n) {
  if (n <= 0) return;
  if (dst.dtype() == DType::String) {
    std::copy_n(src.strings().begin() + src_at, n, dst.mutable_strings().begin() + dst_at);
    return;
  }
  const auto size = static_cast<int64_t>(size_of(dst.dtype()));
  std::memcpy(dst.mutable_bytes().data() + dst_at * size, src.bytes().data() + src_at * size,
              static_cast<size_t>(n * size));
}

void copy_strided(const Dims& dims, HostTensor& dst, const Strided& to, const HostTensor& src,
                  const Strided& from) {
  if (product(dims) == 0) return;
  Dims outer = dims;
  Dims outer_dst = to.strides;
  Dims outer_src = from.strides;
  // Trailing dims that are contiguous on both sides move as one block.
  int64_t block = 1;
  while (!outer.empty() &&
         (outer.back() == 1 || (outer_dst.back() == block && outer_src.back() == block))) {
    block *= outer.back();
    outer.pop_back();
    outer_dst.pop_back();
    outer_src.pop_back();
  }
  if (block > 1) {
    for_each_index<2>(
        outer, {&outer_dst, &outer_src}, {to.offset, from.offset},
        [&](const std::array<int64_t, 2>& o) { copy_block(dst, o[0], src, o[1], block); });
    return;
  }
  with_width(dst.dtype(), [&](auto tag) {
    using T = decltype(tag);
    for_each_index<2>(
        outer, {&outer_dst, &outer_src}, {to.offset, from.offset},
        [&](const std::array<int64_t, 2>& o) { set_element<T>(dst, o[0], element<T>(src, o[1])); });
  });
}

void fill(HostTensor& dst, const HostTensor& value) {
  if (dst.count() == 0) return;
  with_width(dst.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T v = element<T>(value, 0);
    for (int64_t i = 0; i < dst.count(); ++i) set_element<T>(dst, i, v);
  });
}

}  // namespace reprise::host
