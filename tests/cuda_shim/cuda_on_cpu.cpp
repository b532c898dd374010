#include "tests/cuda_shim/cuda_on_cpu.h"

#include "runtime/base/cuda_entry.h"

#include <cstdlib>
#include <map>

#include "tests/cuda_shim/compile.h"
#include "tests/cuda_shim/group_runner.h"

namespace reprise::test {

struct CudaOnCpu::Module {
  struct Kernel {
    KernelFn function = nullptr;
    std::array<uint32_t, 3> workgroup{};
    bool waits = false;
  };
  std::unique_ptr<ShimLibrary> library;
  std::map<std::string, Kernel> kernels;
  GroupRunner runner{1};
};

CudaOnCpu::CudaOnCpu(std::unique_ptr<Module> m) : m_(std::move(m)) {}
CudaOnCpu::CudaOnCpu(CudaOnCpu&&) noexcept = default;
CudaOnCpu& CudaOnCpu::operator=(CudaOnCpu&&) noexcept = default;
CudaOnCpu::~CudaOnCpu() = default;

Result<CudaOnCpu> CudaOnCpu::load(std::span<const CudaSource> kernels) {
  std::string text;
  for (const CudaSource& k : kernels) text += k.text;
  auto m = std::make_unique<Module>();
  const char* const cache = std::getenv("REPRISE_STANDIN_CACHE");
  RP_ASSIGN(m->library, ShimLibrary::build(text, {.cache = cache == nullptr ? "" : cache}));
  for (const KernelText& k : m->library->kernels()) {
    m->kernels[k.name] = {m->library->function(k.name), {}, k.waits};
  }
  for (const CudaSource& k : kernels) {
    const auto it = m->kernels.find(cuda_entry(k.name));
    if (it == m->kernels.end() || it->second.function == nullptr) {
      return internal_error("the compiled module has no kernel " + k.name);
    }
    it->second.workgroup = k.workgroup;
  }
  return CudaOnCpu(std::move(m));
}

Status CudaOnCpu::run(const std::string& name, std::array<uint32_t, 3> grid,
                      const void* block) const {
  const auto it = m_->kernels.find(cuda_entry(name));
  if (it == m_->kernels.end()) return internal_error("no kernel " + name + " in the module");
  const Module::Kernel& k = it->second;
  return m_->runner.run({k.function, k.waits, false, grid, k.workgroup, block})
      .with_context("kernel " + name);
}

}  // namespace reprise::test
