// Kernels in PTX, written by hand.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "codegen/device_model/walk.h"

namespace reprise::test {

/// A kernel with %in and %out, the addresses of two buffers.
inline std::string ptx_kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n"
         ".extern .shared .align 16 .b8 rp_shared[];\n"
         ".visible .entry k_test(\n\t.param .align 8 .b8 k_test_param_0[32]\n)\n{\n"
         "\t.reg .pred %p<9>;\n\t.reg .b32 %r<99>;\n\t.reg .b64 %rd<99>;\n\t.reg .f32 %f<99>;\n"
         "\tld.param.u64 %in, [k_test_param_0+16];\n\tld.param.u64 %out, [k_test_param_0+24];\n" +
         body + "\n\tret;\n}\n";
}

inline std::vector<std::byte> block_of_two() {
  std::vector<std::byte> block(32);
  for (uint64_t n = 0; n < 2; ++n) {
    const uint64_t address = (n + 1) << 36;
    std::memcpy(&block[16 + 8 * n], &address, sizeof address);
  }
  return block;
}

inline Result<device_model::Work> walk_text(const std::string& ptx,
                                            std::array<uint32_t, 3> workgroup = {32, 1, 1},
                                            std::array<uint32_t, 3> grid = {8, 1, 1},
                                            uint64_t most_steps = 1'000'000) {
  RP_ASSIGN(const device_model::Program program, device_model::parse_ptx(ptx));
  const std::vector<std::byte> block = block_of_two();
  return device_model::walk(program, {grid, workgroup, block}, {}, most_steps);
}

}  // namespace reprise::test
