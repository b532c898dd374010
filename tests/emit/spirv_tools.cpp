#include "tests/emit/spirv_tools.h"

#include <spirv-tools/libspirv.hpp>

namespace reprise::test {
namespace {

spv_target_env environment(uint32_t version) {
  if (version >= 0x00010600) return SPV_ENV_VULKAN_1_3;
  if (version >= 0x00010500) return SPV_ENV_VULKAN_1_2;
  return version >= 0x00010400 ? SPV_ENV_VULKAN_1_1_SPIRV_1_4 : SPV_ENV_VULKAN_1_1;
}

}  // namespace

Status validate_spirv(std::span<const uint32_t> words) {
  spvtools::SpirvTools tools(environment(words[1]));
  std::string problems;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { problems += std::string(message) + "\n"; });
  if (tools.Validate(words.data(), words.size())) return {};
  return internal_error("invalid SPIR-V: " + problems + disassemble(words));
}

std::string disassemble(std::span<const uint32_t> words) {
  const spvtools::SpirvTools tools(environment(words[1]));
  std::string text;
  tools.Disassemble({words.begin(), words.end()}, &text,
                    SPV_BINARY_TO_TEXT_OPTION_NO_HEADER | SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES);
  return text;
}

Result<std::vector<uint32_t>> emit_valid(const kernel::Kernel& k,
                                         const emit::SpirvOptions& options) {
  for (const uint32_t version : {0x00010300U, 0x00010400U, 0x00010500U, 0x00010600U}) {
    emit::SpirvOptions at = options;
    at.version = version;
    RP_ASSIGN(const auto words, emit::spirv(k, at));
    RP_TRY(validate_spirv(words).with_context("kernel " + k.name));
  }
  return emit::spirv(k, options);
}

}  // namespace reprise::test
