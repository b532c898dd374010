#include "tests/cuda_shim/tensor_map.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace reprise::test {
namespace {

constexpr std::array<uint8_t, 13> kElementBytes{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

/// Appends "box 2 is 0" and the like to what is wrong; the first is what is reported.
class Rules {
 public:
  void require(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  void require(bool holds, const char* of, uint32_t n, uint64_t value, const char* rule) {
    if (!holds && wrong_.empty())
      wrong_ =
          std::string(of) + " " + std::to_string(n) + " is " + std::to_string(value) + ": " + rule;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  std::string wrong_;
};

bool is_float(cuda::CUtensorMapDataType type) {
  return type >= cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

/// Whether the enumerations have values that compute capability 9.0 knows.
void check_names(Rules& r, const TensorMapArguments& a) {
  const auto within = [](int v, int most) { return v >= 0 && v <= most; };
  r.require(within(a.type, cuda::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ),
            "a data type that compute capability 9.0 does not have");
  r.require(within(a.interleave, cuda::CU_TENSOR_MAP_INTERLEAVE_32B), "an unknown interleave");
  r.require(within(a.swizzle, cuda::CU_TENSOR_MAP_SWIZZLE_128B),
            "a swizzle that compute capability 9.0 does not have");
  r.require(within(a.l2_promotion, cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
            "an unknown L2 promotion");
  r.require(within(a.fill, cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA),
            "an unknown fill");
  const uint32_t least_rank = a.interleave == cuda::CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 3;
  r.require(a.rank >= least_rank && a.rank <= TensorMap::kDims,
            "a rank of " + std::to_string(a.rank));
  r.require(a.fill == cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_float(a.type),
            "NaN as the fill of integers");
  r.require(a.interleave != cuda::CU_TENSOR_MAP_INTERLEAVE_32B ||
                a.swizzle == cuda::CU_TENSOR_MAP_SWIZZLE_32B,
            "an interleave of 32 bytes with another swizzle");
}

void check_memory(Rules& r, const TensorMapArguments& a) {
  const bool wide = a.interleave == cuda::CU_TENSOR_MAP_INTERLEAVE_32B;
  const uint64_t unit = wide ? 32 : 16;
  r.require(a.address != 0 && a.address % unit == 0,
            "an address that is not aligned to " + std::to_string(unit) + " bytes");
  for (uint32_t n = 0; n < a.rank; ++n)
    r.require(a.dims[n] >= 1 && a.dims[n] <= uint64_t{1} << 32, "dimension", n, a.dims[n],
              "1 to 2^32 elements");
  for (uint32_t n = 0; n + 1 < a.rank; ++n) {
    r.require(a.strides[n] % unit == 0, "stride", n, a.strides[n],
              wide ? "a multiple of 32 bytes" : "a multiple of 16 bytes");
    r.require(a.strides[n] < uint64_t{1} << 40, "stride", n, a.strides[n], "less than 2^40");
    // The reference asserts this, in bytes on the left and in elements on the right.
    r.require(n == 0 || a.strides[n] >= a.dims[n], "stride", n, a.strides[n],
              "at least the elements of its dimension");
  }
}

void check_box(Rules& r, const TensorMapArguments& a) {
  const bool plain = a.interleave == cuda::CU_TENSOR_MAP_INTERLEAVE_NONE;
  for (uint32_t n = 0; n < a.rank; ++n) {
    r.require(a.box[n] >= 1 && a.box[n] <= 256, "box", n, a.box[n], "1 to 256 elements");
    if (plain && n == 0) continue;  // the first step is ignored
    r.require(a.steps[n] >= 1 && a.steps[n] <= 8, "element stride", n, a.steps[n], "1 to 8");
  }
  if (!plain || !r.wrong().empty()) return;
  const uint32_t inner = a.box[0] * kElementBytes[a.type];
  r.require(inner % 16 == 0, "box", 0, a.box[0], "a multiple of 16 bytes");
  const uint32_t span = a.swizzle == cuda::CU_TENSOR_MAP_SWIZZLE_NONE ? ~0U : 16U << a.swizzle;
  r.require(inner <= span, "box", 0, a.box[0], "no more than the swizzle spans");
}

}  // namespace

std::string encode_tensor_map(void* map, const TensorMapArguments& a) {
  if (map == nullptr || a.dims == nullptr || a.box == nullptr || a.steps == nullptr ||
      (a.strides == nullptr && a.rank > 1))
    return "a null pointer";
  Rules r;
  r.require(reinterpret_cast<uintptr_t>(map) % kTensorMapAlignment == 0,
            "a map that is not aligned to 64 bytes");
  check_names(r, a);
  if (!r.wrong().empty()) return r.wrong();  // the rank says how long the arrays are
  check_memory(r, a);
  check_box(r, a);
  if (!r.wrong().empty()) return r.wrong();
  TensorMap m{};
  m.magic = kTensorMapMagic;
  m.address = a.address;
  std::fill_n(m.dims, TensorMap::kDims, 1);
  std::fill_n(m.box, TensorMap::kDims, 1);
  std::fill_n(m.steps, TensorMap::kDims, 1);
  for (uint32_t n = 0; n < a.rank; ++n) {
    m.dims[n] = a.dims[n];
    m.strides[n] = n == 0 ? kElementBytes[a.type] : a.strides[n - 1];
    m.box[n] = static_cast<uint16_t>(a.box[n]);
    const bool ignored = n == 0 && a.interleave == cuda::CU_TENSOR_MAP_INTERLEAVE_NONE;
    m.steps[n] = static_cast<uint8_t>(ignored ? 1 : a.steps[n]);
  }
  m.type = static_cast<uint8_t>(a.type);
  m.rank = static_cast<uint8_t>(a.rank);
  m.interleave = static_cast<uint8_t>(a.interleave);
  m.swizzle = static_cast<uint8_t>(a.swizzle);
  m.l2_promotion = static_cast<uint8_t>(a.l2_promotion);
  m.fill = static_cast<uint8_t>(a.fill);
  std::memcpy(map, &m, sizeof m);
  return "";
}

}  // namespace reprise::test
