// The numbers of SPV_KHR_cooperative_matrix and SPV_KHR_bfloat16, which the SPIR-V headers of
// Debian 12 do not have.
#pragma once

#include <spirv/unified1/spirv.hpp>

namespace reprise::emit::matrix {

inline constexpr auto kCapability = static_cast<spv::Capability>(6022);
inline constexpr auto kOpType = static_cast<spv::Op>(4456);
inline constexpr auto kOpLoad = static_cast<spv::Op>(4457);
inline constexpr auto kOpStore = static_cast<spv::Op>(4458);
inline constexpr auto kOpMulAdd = static_cast<spv::Op>(4459);
inline constexpr const char* kExtension = "SPV_KHR_cooperative_matrix";

inline constexpr auto kBfloat16 = static_cast<spv::Capability>(5116);
inline constexpr auto kMatricesOfBfloat16 = static_cast<spv::Capability>(5118);
inline constexpr uint32_t kBfloat16Encoding = 0;
inline constexpr const char* kBfloat16Extension = "SPV_KHR_bfloat16";

enum Layout : uint32_t { kRowMajor = 0, kColumnMajor = 1 };
enum Use : uint32_t { kUseA = 0, kUseB = 1, kUseAccumulator = 2 };

}  // namespace reprise::emit::matrix
