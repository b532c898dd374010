// Executes emitted CUDA text without CUDA: the host compiler builds it under a shim that gives
// CUDA's names a meaning on the CPU. One kernel runs at a time, invocations one after another;
// those of a workgroup with barriers or shuffles are fibers. Uses the compiler
// that built the tests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace reprise::test {

/// One kernel of a module: what codegen/emit/cuda made of it.
struct CudaSource {
  std::string name;
  std::string text;
  std::array<uint32_t, 3> workgroup{1, 1, 1};
};

/// A loaded module. Not thread-safe; distinct modules may run on distinct threads.
class CudaOnCpu {
 public:
  /// Compiles the kernels, behind one prelude, in one translation unit.
  static Result<CudaOnCpu> load(std::span<const CudaSource> kernels);
  CudaOnCpu(CudaOnCpu&&) noexcept;
  CudaOnCpu& operator=(CudaOnCpu&&) noexcept;
  ~CudaOnCpu();

  /// Runs `grid` workgroups. `block` is the parameter block (kernel::BlockLayout) with host
  /// addresses. Fails on an unknown name and on a barrier or shuffle that only some invocations
  /// reach.
  Status run(const std::string& name, std::array<uint32_t, 3> grid, const void* block) const;

 private:
  struct Module;
  explicit CudaOnCpu(std::unique_ptr<Module> m);
  std::unique_ptr<Module> m_;
};

}  // namespace reprise::test
