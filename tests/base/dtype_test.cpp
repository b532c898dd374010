#include "runtime/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "runtime/base/tensor.h"

namespace reprise {
namespace {

TEST(DType, NamesAndSizes) {
  for (uint8_t n = 1; n <= 24; ++n) {
    const auto t = static_cast<DType>(n);
    EXPECT_TRUE(is_dtype(n));
    EXPECT_EQ(dtype_from_name(name_of(t)), std::optional(t));
    EXPECT_EQ(dtype_with_onnx_number(onnx_number_of(t)), t);
    EXPECT_EQ(static_cast<size_t>(bits_of(t)), is_low_bit(t) ? bits_of(t) : 8 * size_of(t));
    EXPECT_EQ(size_of(carrier_of(t)), size_of(t));
    EXPECT_NE(is_low_bit(t), carrier_of(t) == t);
  }
  EXPECT_FALSE(is_dtype(0) || is_dtype(25));
  EXPECT_EQ(dtype_with_onnx_number(0), DType::Invalid);
  EXPECT_EQ(dtype_with_onnx_number(14), DType::Invalid);
  EXPECT_EQ(bits_of(DType::I2), 2);
  EXPECT_EQ(size_of(DType::I2), 1u);
  EXPECT_FALSE(is_float(DType::F8E5M2) || is_int(DType::U4));
  EXPECT_EQ(size_of(DType::BF16), 2u);
  EXPECT_EQ(size_of(DType::String), 0u);
  EXPECT_EQ(size_of(static_cast<DType>(200)), 0u);
  EXPECT_FALSE(dtype_from_name("invalid"));
  EXPECT_FALSE(dtype_from_name("float33"));
  EXPECT_TRUE(is_int(DType::U64) && is_int(DType::I8) && !is_int(DType::Bool));
  EXPECT_TRUE(is_float(DType::F64) && !is_float(DType::I32));
  EXPECT_TRUE(is_signed_int(DType::I16) && !is_signed_int(DType::U16));
}

TEST(DType, ContainersHaveNamesAndItems) {
  int found = 0;
  for (int n = 32; n < 256; ++n) {
    const auto t = static_cast<DType>(n);
    EXPECT_TRUE(is_container(t) && is_host_only(t));
    EXPECT_EQ(size_of(t), 0U);
    EXPECT_EQ(onnx_number_of(t), 0);
    EXPECT_FALSE(is_float(t) || is_int(t) || is_low_bit(t));
    if (!is_dtype(static_cast<uint8_t>(n))) continue;
    ++found;
    EXPECT_EQ(in_container(container_of(t), element_of(t)), t);
    EXPECT_EQ(dtype_from_name(name_of(t)), std::optional(t)) << name_of(t);
  }
  EXPECT_EQ(found, 7 * 24);
  const auto of = [](Container c) { return in_container(c, DType::F32); };
  EXPECT_EQ(name_of(of(Container::OptionalSequence)), "optional(seq(float32))");
  EXPECT_EQ(name_of(of(Container::SequenceOfStringMaps)), "seq(map(string,float32))");
  EXPECT_EQ(item_type_of(of(Container::Sequence)), DType::F32);
  EXPECT_EQ(item_type_of(of(Container::OptionalSequence)), of(Container::Sequence));
  EXPECT_EQ(item_type_of(of(Container::SequenceOfIntMaps)), of(Container::IntMap));
  EXPECT_EQ(item_type_of(of(Container::StringMap)), DType::Invalid);
  EXPECT_FALSE(is_container(DType::String) || is_container(DType::F8E8M0));
}

TEST(Tensor, ContainersHoldTensors) {
  const std::vector<float> data{1, 2};
  const HostTensor borrowed =
      HostTensor::borrow(DType::F32, {2}, std::as_bytes(std::span(data)), nullptr);
  const DType type = in_container(Container::Sequence, DType::F32);
  const HostTensor list = HostTensor::container(type, {borrowed, borrowed});
  EXPECT_EQ(list.items().size(), 2U);
  EXPECT_EQ(list.rank(), 0);
  EXPECT_TRUE(list.bytes().empty());
  EXPECT_EQ(describe(list.dtype(), list.dims()), "seq(float32)");
  EXPECT_EQ(list.items()[0].bytes().data(), borrowed.bytes().data());
  EXPECT_NE(list.detached().items()[0].bytes().data(), borrowed.bytes().data());
  EXPECT_TRUE(HostTensor(type, {}).items().empty());
  EXPECT_TRUE(borrowed.items().empty());
}

TEST(DType, EveryHalfRoundTrips) {
  for (uint32_t n = 0; n < 65536; ++n) {
    const auto bits = static_cast<uint16_t>(n);
    const float f = f16_to_float(bits);
    const float g = bf16_to_float(bits);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f))));
    } else {
      ASSERT_EQ(float_to_f16(f), bits);
    }
    if (std::isnan(g)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(g))));
    } else {
      ASSERT_EQ(float_to_bf16(g), bits);
    }
  }
}

/// The nearest of all finite halves, ties to the even pattern: slow and independent.
uint16_t nearest_half(float v) {
  uint16_t best = 0;
  double distance = INFINITY;
  for (uint32_t n = 0; n < 0x7c00; ++n) {
    const double d = std::abs(static_cast<double>(f16_to_float(static_cast<uint16_t>(n))) - v);
    if (d < distance || (d == distance && n % 2 == 0)) {
      distance = d;
      best = static_cast<uint16_t>(n);
    }
  }
  return best;
}

TEST(DType, HalfRoundsToNearestEven) {
  for (const float v :
       {0.1f, 1.0009765f / 2, 1.00048828125f, 1.00146484375f, 2049.f, 2051.f, 65519.f, 3.1e-8f,
        2.98023224e-8f, 8.9406967e-8f, 6.1e-5f, 6.097555e-5f, 1e-10f}) {
    EXPECT_EQ(float_to_f16(v), nearest_half(v)) << v;
    EXPECT_EQ(float_to_f16(-v), nearest_half(v) | 0x8000) << v;
  }
  EXPECT_EQ(float_to_f16(65520.f), 0x7c00);
  EXPECT_EQ(float_to_f16(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bf16(3.4e38f), 0x7f80);
}

TEST(Tensor, Counts) {
  const std::vector<int64_t> dims{2, 3};
  EXPECT_EQ(*checked_element_count(dims, DType::F32), 6);
  EXPECT_EQ(*checked_element_count({}, DType::F32), 1);
  EXPECT_FALSE(checked_element_count(std::vector<int64_t>{2, -1}, DType::F32).ok());
  EXPECT_FALSE(checked_element_count(std::vector<int64_t>{int64_t{1} << 39}, DType::F32).ok());
  EXPECT_TRUE(checked_element_count(std::vector<int64_t>{int64_t{1} << 38}, DType::F32).ok());
  EXPECT_FALSE(
      checked_element_count(std::vector<int64_t>{int64_t{1} << 62, 1 << 30}, DType::U8).ok());
  EXPECT_EQ(*checked_element_count(std::vector<int64_t>{int64_t{1} << 62, 1 << 30, 0}, DType::U8),
            0);
  EXPECT_EQ(describe(DType::F32, dims), "float32[2,3]");
}

TEST(Tensor, OwnsAndBorrows) {
  const auto t = HostTensor::from<int32_t>(DType::I32, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(t.bytes().size(), 16u);
  EXPECT_EQ(t.data<int32_t>()[3], 4);
  const HostTensor flat = t.reshaped({4});
  EXPECT_EQ(flat.data<int32_t>(), t.data<int32_t>());
  EXPECT_EQ(flat.rank(), 1);
  auto owner = std::make_shared<std::vector<std::byte>>(8);
  const std::weak_ptr<std::vector<std::byte>> watch = owner;
  {
    const HostTensor view = HostTensor::borrow(DType::F32, {2}, *owner, owner);
    owner.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
  HostTensor strings(DType::String, {3});
  EXPECT_EQ(strings.mutable_strings().size(), 3u);
  EXPECT_TRUE(strings.bytes().empty());
}

}  // namespace
}  // namespace reprise
