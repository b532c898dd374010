#include "backends/vulkan/cooperative_matrix.h"

namespace reprise::vulkan {
namespace {

std::optional<MmaType> type_of(VkComponentTypeKHR component) {
  constexpr struct {
    VkComponentTypeKHR component;
    MmaType type;
  } kComponents[] = {
      {VK_COMPONENT_TYPE_FLOAT16_KHR, MmaType::F16},
      {kBfloat16Component, MmaType::BF16},
      {VK_COMPONENT_TYPE_FLOAT32_KHR, MmaType::F32},
      {kE4M3Component, MmaType::E4M3},
      {kE5M2Component, MmaType::E5M2},
      {VK_COMPONENT_TYPE_SINT8_KHR, MmaType::I8},
      {VK_COMPONENT_TYPE_UINT8_KHR, MmaType::U8},
      {VK_COMPONENT_TYPE_SINT32_KHR, MmaType::I32},
  };
  for (const auto& c : kComponents)
    if (c.component == component) return c.type;
  return std::nullopt;
}

}  // namespace

std::optional<MmaConfig> matrix_of(const VkCooperativeMatrixPropertiesKHR& row) {
  const auto a = type_of(row.AType), b = type_of(row.BType), sum = type_of(row.CType);
  const bool known = row.scope == VK_SCOPE_SUBGROUP_KHR || row.scope == VK_SCOPE_WORKGROUP_KHR;
  // A sum that is read as one type and written as another, or saturates, is another operation.
  if (!a || !b || !sum || row.ResultType != row.CType || row.saturatingAccumulation != VK_FALSE ||
      !known || row.MSize == 0 || row.NSize == 0 || row.KSize == 0)
    return std::nullopt;
  const bool subgroup = row.scope == VK_SCOPE_SUBGROUP_KHR;
  return MmaConfig{row.MSize,
                   row.NSize,
                   row.KSize,
                   {*a, *b, *sum},
                   subgroup ? MmaScope::Subgroup : MmaScope::Workgroup};
}

std::optional<MmaConfig> matrix_of(const VkCooperativeMatrixFlexibleDimensionsPropertiesNV& row) {
  VkCooperativeMatrixPropertiesKHR sized{};
  sized.MSize = row.MGranularity;
  sized.NSize = row.NGranularity;
  sized.KSize = row.KGranularity;
  sized.AType = row.AType;
  sized.BType = row.BType;
  sized.CType = row.CType;
  sized.ResultType = row.ResultType;
  sized.saturatingAccumulation = row.saturatingAccumulation;
  sized.scope = row.scope;
  std::optional<MmaConfig> matrix = matrix_of(sized);
  if (matrix && matrix->scope == MmaScope::Workgroup)
    matrix->invocations = row.workgroupInvocations;
  return matrix;
}

}  // namespace reprise::vulkan
