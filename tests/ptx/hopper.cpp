#include "tests/ptx/hopper.h"

#include <gtest/gtest.h>

#include <cstring>

namespace reprise::test {

uint32_t BoxedTensor::element_bytes() const {
  switch (type) {
    case cuda::CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return 2;
    case cuda::CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return 8;
    default:
      return 4;
  }
}

std::vector<uint64_t> BoxedTensor::strides() const {
  std::vector<uint64_t> out{element_bytes()};
  for (size_t n = 0; n + 1 < dims.size(); ++n)
    out.push_back(n == 0 ? (dims[0] * element_bytes() + 15) / 16 * 16 : out.back() * dims[n]);
  return out;
}

uint64_t BoxedTensor::bytes() const {
  return strides().back() * dims.back();
}

uint32_t BoxedTensor::box_bytes() const {
  uint32_t n = element_bytes();
  for (size_t d = 0; d < box.size(); ++d) n *= d == 0 ? box[d] : (box[d] + steps[d] - 1) / steps[d];
  return n;
}

TensorMap BoxedTensor::map(uint64_t address) const {
  struct alignas(128) {
    TensorMap map;
  } out{};
  const std::vector<uint64_t> all = strides();
  const std::string wrong = encode_tensor_map(
      &out.map, {type, static_cast<uint32_t>(dims.size()), address, dims.data(), all.data() + 1,
                 box.data(), steps.data(), cuda::CU_TENSOR_MAP_INTERLEAVE_NONE,
                 static_cast<cuda::CUtensorMapSwizzle>(swizzle),
                 cuda::CU_TENSOR_MAP_L2_PROMOTION_NONE, cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE});
  EXPECT_EQ(wrong, "");
  return out.map;
}

std::string hopper_text(const std::string& body) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n"
         ".extern .shared .align 1024 .b8 smem[];\n"
         ".visible .entry k(.param .u64 k_in, .param .u64 k_out, .param .align 128 .b8 "
         "k_maps[256])\n"
         ".maxntid 512, 1, 1\n{\n"
         ".reg .b32 %r<64>, %t;\n.reg .b64 %q<16>, %in, %out, %map0, %map1;\n.reg .f32 %f<128>;\n"
         ".reg .pred %p<8>;\n"
         "ld.param.u64 %in, [k_in];\nld.param.u64 %out, [k_out];\nmov.b64 %q0, k_maps;\n"
         "cvta.param.u64 %map0, %q0;\nadd.s64 %map1, %map0, 128;\nmov.u32 %t, %tid.x;\n" +
         body + "\nret;\n}\n";
}

Status run_hopper(const std::string& body, HopperMemory& m) {
  RP_ASSIGN(const ptx::Program program, ptx::parse(hopper_text(body)));
  const std::vector<ptx::Buffer> buffers{{HopperMemory::kIn, m.in}, {HopperMemory::kOut, m.out}};
  std::array<std::byte, 128 + 256> params{};
  std::memcpy(params.data(), &HopperMemory::kIn, 8);
  std::memcpy(params.data() + 8, &HopperMemory::kOut, 8);
  std::memcpy(params.data() + 128, m.maps.data(), 256);
  ptx::Launch launch{"k", m.grid, {m.threads, 1, 1}, m.shared, params, buffers};
  launch.cluster = m.cluster;
  return ptx::run(program, launch, m.options);
}

std::string wait_for(const std::string& address, const std::string& parity) {
  return "{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [" + address + "], " +
         parity + ";\n@p bra D;\nbra W;\nD: }\n";
}

}  // namespace reprise::test
