#include "tests/ptx/ptx_module.h"

#include <cstring>

#include "runtime/base/cuda_entry.h"
#include "runtime/plan/block_layout.h"

namespace reprise::test {

using plan::BlockLayout;

Result<PtxModule> PtxModule::load(std::span<const kernel::Kernel> kernels,
                                  const std::function<void(std::string&)>& edit) {
  RP_ASSIGN(std::string text, ptx_of(kernels));
  if (edit) edit(text);
  PtxModule m;
  RP_ASSIGN(m.program_, ptx::parse(text));
  return m;
}

Status PtxModule::run(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                      std::span<const std::span<std::byte>> buffers,
                      std::span<const uint32_t> scalars, uint32_t launch_id,
                      uint32_t& error_word) const {
  // Far from each other, so that no index leads from one buffer into another.
  const auto address_of = [](size_t n) { return uint64_t{n + 1} << 36; };
  std::vector<std::byte> block(BlockLayout::size(buffers.size(), scalars.size()));
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
  const uint32_t dynamic = dynamic_shared_bytes(kernel::requirements(k).shared_bytes);
  return ptx::run(program_, {cuda_entry(k.name), grid, k.workgroup, dynamic, block, memory},
                  options);
}

Status PtxModule::run(const kernel::Kernel& k, Launch& launch) const {
  std::vector<std::span<std::byte>> buffers(launch.buffers.begin(), launch.buffers.end());
  return run(k, launch.grid, buffers, launch.scalars, launch.launch_id, launch.error_word);
}

}  // namespace reprise::test
