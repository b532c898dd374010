#include "tests/ptx/assembly.h"

#include <cstring>

namespace reprise::test {

std::string assembly(const std::string& body, const std::string& declarations) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + declarations +
         "\n.visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{\n"
         ".reg .b32 %r<64>;\n.reg .b64 %q<16>;\n.reg .b16 %h<16>;\n.reg .f32 %f<32>;\n"
         ".reg .pred %p<8>;\n.reg .b64 %in, %out;\n"
         "ld.param.u64 %in, [k_in];\nld.param.u64 %out, [k_out];\n" +
         body + "\nret;\n}\n";
}

Status run_assembly(const std::string& text, uint32_t threads, const std::vector<uint32_t>& in,
                    std::vector<uint32_t>& out, const ptx::Options& options) {
  RP_ASSIGN(const ptx::Program program, ptx::parse(text));
  std::vector<uint32_t> source = in;
  const std::vector<ptx::Buffer> buffers{
      {uint64_t{1} << 36, std::as_writable_bytes(std::span(source))},
      {uint64_t{2} << 36, std::as_writable_bytes(std::span(out))}};
  const uint64_t params[] = {buffers[0].address, buffers[1].address};
  return ptx::run(program,
                  {"k", {1, 1, 1}, {threads, 1, 1}, 0, std::as_bytes(std::span(params)), buffers},
                  options);
}

}  // namespace reprise::test
