// Which tensor maps the stand-in makes, and which it refuses as the driver's reference says.
#include "tests/cuda_shim/tensor_map.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/cuda_standin/loaded_driver.h"

namespace reprise::test {
namespace {

/// A map of 3 x 5 x 40 elements of 16 bits, in boxes of 2 x 4 x 32.
struct MapArguments {
  CUtensorMap map{};
  CUtensorMap* to = &map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  uint32_t rank = 3;
  uint64_t address = 4096;
  uint64_t dims[6] = {40, 5, 3, 2, 2, 2}, strides[5] = {96, 480, 1440, 2880, 5760};
  uint32_t box[6] = {32, 4, 2, 1, 1, 1}, steps[6] = {1, 1, 2, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;

  CUresult encode(const DriverApi& api) {
    return api.cuTensorMapEncodeTiled(to, type, rank, reinterpret_cast<void*>(address), dims,
                                      strides, box, steps, interleave, swizzle, promotion, fill);
  }
};

class TensorMaps : public StandinTest {};

TEST_F(TensorMaps, SayWhatTheyWereMadeOf) {
  MapArguments m;
  ASSERT_EQ(m.encode(api), CUDA_SUCCESS) << log();
  TensorMap got{};
  std::memcpy(&got, &m.map, sizeof got);
  EXPECT_EQ(got.magic, kTensorMapMagic);
  EXPECT_EQ(got.address, 4096U);
  EXPECT_EQ(got.rank, 3);
  const uint64_t dims[] = {40, 5, 3, 1, 1}, strides[] = {2, 96, 480, 0, 0};
  const uint32_t box[] = {32, 4, 2, 1, 1}, steps[] = {1, 1, 2, 1, 1}, count[] = {32, 4, 1, 1, 1};
  for (uint32_t n = 0; n < TensorMap::kDims; ++n) {
    EXPECT_EQ(got.dims[n], dims[n]) << n;
    EXPECT_EQ(got.strides[n], strides[n]) << n;
    EXPECT_EQ(got.box[n], box[n]) << n;
    EXPECT_EQ(got.steps[n], steps[n]) << n;
    EXPECT_EQ(got.count(n), count[n]) << n;
  }
  EXPECT_EQ(got.type, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(got.swizzle, CU_TENSOR_MAP_SWIZZLE_64B);
  EXPECT_EQ(got.l2_promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  EXPECT_EQ(got.interleave, 0);
  EXPECT_EQ(got.fill, 0);
}

struct MapRule {
  const char* what;
  std::function<void(MapArguments&)> change;
  const char* said;  // "": the map is made
};

const MapRule kMapRules[] = {
    {"no map", [](MapArguments& m) { m.to = nullptr; }, "null"},
    {"a map at 32 bytes",
     [](MapArguments& m) {
       m.to = reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(&m.map) + 32);
     },
     "aligned to 64"},
    {"packed elements", [](MapArguments& m) { m.type = static_cast<CUtensorMapDataType>(13); },
     "data type"},
    {"rank 0", [](MapArguments& m) { m.rank = 0; }, "rank of 0"},
    {"rank 6", [](MapArguments& m) { m.rank = 6; }, "rank of 6"},
    {"rank 5", [](MapArguments& m) { m.rank = 5; }, ""},
    {"rank 1", [](MapArguments& m) { m.rank = 1; }, ""},
    {"an interleaved matrix",
     [](MapArguments& m) {
       m.rank = 2;
       m.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
     },
     "rank of 2"},
    {"no address", [](MapArguments& m) { m.address = 0; }, "address"},
    {"an address of 8 bytes", [](MapArguments& m) { m.address = 4104; }, "aligned to 16"},
    {"an address of 16 bytes", [](MapArguments& m) { m.address = 4112; }, ""},
    {"an interleaved address",
     [](MapArguments& m) {
       m.address = 4112;
       m.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       m.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
     },
     "aligned to 32"},
    {"interleaved", [](MapArguments& m) { m.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }, ""},
    {"another swizzle", [](MapArguments& m) { m.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; },
     "swizzle"},
    {"no element", [](MapArguments& m) { m.dims[1] = 0; }, "dimension 1 is 0"},
    {"a large dimension", [](MapArguments& m) { m.dims[0] = uint64_t{1} << 32; }, ""},
    {"a larger dimension", [](MapArguments& m) { m.dims[0] = (uint64_t{1} << 32) + 1; },
     "dimension 0"},
    {"a stride of 8", [](MapArguments& m) { m.strides[1] = 488; }, "stride 1 is 488"},
    {"a long stride", [](MapArguments& m) { m.strides[1] = uint64_t{1} << 40; }, "less than 2^40"},
    {"an interleaved stride",
     [](MapArguments& m) {
       m.strides[0] = 80;
       m.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
       m.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
     },
     "multiple of 32"},
    {"a stride beyond the rank", [](MapArguments& m) { m.strides[2] = 7; }, ""},
    {"a stride within a dimension",
     [](MapArguments& m) {
       m.dims[1] = 500;
       m.strides[1] = 480;
     },
     "its dimension"},
    {"an empty box", [](MapArguments& m) { m.box[2] = 0; }, "box 2 is 0"},
    {"a large box", [](MapArguments& m) { m.box[1] = 256; }, ""},
    {"a larger box", [](MapArguments& m) { m.box[1] = 257; }, "box 1 is 257"},
    {"a box of 12 bytes", [](MapArguments& m) { m.box[0] = 6; }, "multiple of 16"},
    {"a box beyond its swizzle", [](MapArguments& m) { m.box[0] = 40; }, "swizzle spans"},
    {"the same without",
     [](MapArguments& m) { m.box[0] = 40, m.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; }, ""},
    {"a step of 0", [](MapArguments& m) { m.steps[1] = 0; }, "element stride 1"},
    {"a step of 9", [](MapArguments& m) { m.steps[2] = 9; }, "element stride 2"},
    {"a step that is ignored", [](MapArguments& m) { m.steps[0] = 0; }, ""},
    {"a newer swizzle", [](MapArguments& m) { m.swizzle = static_cast<CUtensorMapSwizzle>(4); },
     "swizzle"},
    {"NaN", [](MapArguments& m) { m.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; },
     ""},
    {"NaN as an integer",
     [](MapArguments& m) {
       m.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
       m.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
     },
     "NaN"},
};

TEST_F(TensorMaps, FollowTheRulesOfTheReference) {
  for (const MapRule& rule : kMapRules) {
    set("RESET_LOG", "1");
    MapArguments m;
    rule.change(m);
    const bool made = std::string(rule.said).empty();
    EXPECT_EQ(m.encode(api), made ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE) << rule.what << log();
    EXPECT_EQ(log().empty(), made) << rule.what;
    EXPECT_NE(log().find(rule.said), std::string::npos) << rule.what << ": " << log();
  }
}

}  // namespace
}  // namespace reprise::test
