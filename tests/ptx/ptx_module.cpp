#include "tests/ptx/ptx_module.h"

#include <cstring>

#include "runtime/base/cuda_entry.h"
#include "runtime/plan/block_layout.h"
#include "runtime/plan/bound_view.h"
#include "tests/cuda_shim/tensor_map.h"

namespace reprise::test {

using plan::BlockLayout;

Result<PtxModule> PtxModule::load(std::span<const kernel::Kernel> kernels,
                                  const std::function<void(std::string&)>& edit, CudaArch arch) {
  RP_ASSIGN(std::string text, ptx_of(kernels, arch));
  if (edit) edit(text);
  PtxModule m;
  RP_ASSIGN(m.program_, ptx::parse(text));
  return m;
}

Result<PtxModule> PtxModule::of_text(const std::string& text, const std::string& name,
                                     CudaArch arch) {
  RP_ASSIGN(const std::string ptx, ptx_of_text(text, name, arch));
  PtxModule m;
  RP_ASSIGN(m.program_, ptx::parse(ptx));
  return m;
}

namespace {

cuda::CUtensorMapDataType type_of(uint32_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return cuda::CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2:
      return cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4:
      return cuda::CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default:
      return cuda::CU_TENSOR_MAP_DATA_TYPE_UINT64;
  }
}

/// Writes the tensor maps of a kernel's views to its block.
Status write_maps(const kernel::Kernel& k, std::span<std::byte> block) {
  for (size_t n = 0; n < k.views.size(); ++n) {
    const plan::BoundView v = plan::bind_view(k.views[n].tensor, k.buffers.size(), block);
    if (v.is_empty()) continue;
    constexpr std::array<uint32_t, TensorView::kMostRank> kSingleSteps{1, 1, 1, 1, 1};
    cuda::CUtensorMap map{};
    const std::string wrong = encode_tensor_map(
        &map,
        {type_of(v.element_bytes), static_cast<uint32_t>(v.rank), v.address, v.dims.data(),
         v.strides.data() + 1, v.box.data(), kSingleSteps.data(),
         cuda::CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<cuda::CUtensorMapSwizzle>(v.swizzle),
         cuda::CU_TENSOR_MAP_L2_PROMOTION_NONE, cuda::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE});
    if (!wrong.empty()) return internal_error("view " + k.views[n].name + ": " + wrong);
    std::memcpy(&block[BlockLayout::view_offset(k.buffers.size(), k.scalars.size(), n)], &map,
                sizeof map);
  }
  return {};
}

}  // namespace

Status PtxModule::run(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                      std::span<const std::span<std::byte>> buffers,
                      std::span<const uint32_t> scalars, uint32_t launch_id,
                      uint32_t& error_word) const {
  // Far from each other, so that no index leads from one buffer into another.
  const auto address_of = [](size_t n) { return uint64_t{n + 1} << 36; };
  std::vector<std::byte> block(BlockLayout::size(buffers.size(), scalars.size(), k.views.size()));
  std::vector<ptx::Buffer> memory;
  const auto put = [&](size_t at, const auto& v) { std::memcpy(&block[at], &v, sizeof v); };
  for (size_t n = 0; n < buffers.size(); ++n) {
    memory.push_back({address_of(n), buffers[n]});
    put(BlockLayout::buffer_offset(n), memory.back().address);
  }
  error_word = 0;
  memory.push_back({address_of(buffers.size()), std::as_writable_bytes(std::span(&error_word, 1))});
  put(BlockLayout::kErrorAddress, memory.back().address);
  put(BlockLayout::kLaunchId, launch_id);
  for (size_t n = 0; n < scalars.size(); ++n)
    put(BlockLayout::scalar_offset(buffers.size(), n), scalars[n]);
  RP_TRY(write_maps(k, block));
  const uint32_t dynamic = dynamic_shared_bytes(kernel::requirements(k).shared_bytes);
  const bool early = kernel::requirements(k).early;
  return ptx::run(program_, {cuda_entry(k.name), grid, k.workgroup, dynamic, block, memory, early},
                  options);
}

Status PtxModule::run(const kernel::Kernel& k, Launch& launch) const {
  std::vector<std::span<std::byte>> buffers(launch.buffers.begin(), launch.buffers.end());
  return run(k, launch.grid, buffers, launch.scalars, launch.launch_id, launch.error_word);
}

}  // namespace reprise::test
