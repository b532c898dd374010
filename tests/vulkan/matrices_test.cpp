#include <gtest/gtest.h>

#include "backends/vulkan/cooperative_matrix.h"

namespace reprise::vulkan {
namespace {

VkCooperativeMatrixPropertiesKHR matrix_row(VkComponentTypeKHR a, VkComponentTypeKHR b,
                                            VkComponentTypeKHR sum,
                                            VkScopeKHR scope = VK_SCOPE_SUBGROUP_KHR) {
  VkCooperativeMatrixPropertiesKHR p{};
  p.MSize = 16;
  p.NSize = 8;
  p.KSize = 32;
  p.AType = a;
  p.BType = b;
  p.CType = p.ResultType = sum;
  p.scope = scope;
  return p;
}

TEST(Matrices, OfEveryTypeThatWeKnow) {
  const auto text = [](const VkCooperativeMatrixPropertiesKHR& p) {
    const auto m = matrix_of(p);
    return m ? m->str() : "";
  };
  const auto half = VK_COMPONENT_TYPE_FLOAT16_KHR, single = VK_COMPONENT_TYPE_FLOAT32_KHR;
  const auto integer = VK_COMPONENT_TYPE_SINT32_KHR;
  EXPECT_EQ(text(matrix_row(half, half, single)), "16x8x32 in fp16 with fp32 sums");
  EXPECT_EQ(text(matrix_row(half, half, half)), "16x8x32 in fp16 with fp16 sums");
  EXPECT_EQ(text(matrix_row(kBfloat16Component, kBfloat16Component, single)),
            "16x8x32 in bf16 with fp32 sums");
  EXPECT_EQ(text(matrix_row(VK_COMPONENT_TYPE_SINT8_KHR, VK_COMPONENT_TYPE_UINT8_KHR, integer)),
            "16x8x32 in int8 and uint8 with int32 sums");
  EXPECT_EQ(text(matrix_row(kE4M3Component, kE5M2Component, single)),
            "16x8x32 in fp8 e4m3 and fp8 e5m2 with fp32 sums");
  EXPECT_EQ(text(matrix_row(single, single, single, VK_SCOPE_WORKGROUP_KHR)),
            "16x8x32 in fp32 with fp32 sums of a workgroup");
}

TEST(Matrices, OfFlexibleSizesAndWorkgroups) {
  VkCooperativeMatrixFlexibleDimensionsPropertiesNV p{};
  p.MGranularity = 32;
  p.NGranularity = 64;
  p.KGranularity = 16;
  p.AType = p.BType = VK_COMPONENT_TYPE_FLOAT16_KHR;
  p.CType = p.ResultType = VK_COMPONENT_TYPE_FLOAT32_KHR;
  p.scope = VK_SCOPE_WORKGROUP_KHR;
  p.workgroupInvocations = 256;
  EXPECT_EQ(matrix_of(p), (MmaConfig{32, 64, 16, kHalfMma, MmaScope::Workgroup, 256}));
  p.scope = VK_SCOPE_SUBGROUP_KHR;
  EXPECT_EQ(matrix_of(p), (MmaConfig{32, 64, 16, kHalfMma}));
  p.KGranularity = 0;
  EXPECT_FALSE(matrix_of(p));
}

TEST(Matrices, OthersAreLeftOut) {
  const auto half = VK_COMPONENT_TYPE_FLOAT16_KHR, single = VK_COMPONENT_TYPE_FLOAT32_KHR;
  const auto scalar64 = static_cast<VkComponentTypeKHR>(2);
  EXPECT_FALSE(matrix_of(matrix_row(scalar64, scalar64, scalar64)));
  EXPECT_FALSE(matrix_of(matrix_row(half, half, single, static_cast<VkScopeKHR>(5))));
  auto other_result = matrix_row(half, half, single);
  other_result.ResultType = half;
  EXPECT_FALSE(matrix_of(other_result));
  auto saturating = matrix_row(VK_COMPONENT_TYPE_SINT8_KHR, VK_COMPONENT_TYPE_SINT8_KHR,
                               VK_COMPONENT_TYPE_SINT32_KHR);
  saturating.saturatingAccumulation = VK_TRUE;
  EXPECT_FALSE(matrix_of(saturating));
  auto empty = matrix_row(half, half, single);
  empty.KSize = 0;
  EXPECT_FALSE(matrix_of(empty));
}

}  // namespace
}  // namespace reprise::vulkan
