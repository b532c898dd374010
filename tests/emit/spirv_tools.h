// SPIRV-Tools as the tests use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codegen/emit/spirv/spirv.h"

namespace reprise::test {

/// Validates for the Vulkan version that goes with the module's SPIR-V version.
Status validate_spirv(std::span<const uint32_t> words);
/// Text with friendly names, without the header.
std::string disassemble(std::span<const uint32_t> words);
/// Emits, and validates the same kernel in every SPIR-V version.
Result<std::vector<uint32_t>> emit_valid(const kernel::Kernel& k,
                                         const emit::SpirvOptions& options = {});

}  // namespace reprise::test
