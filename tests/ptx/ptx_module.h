// Kernels as PTX on the CPU, with memory as launches of tests have it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/emit/launch.h"
#include "tests/ptx/machine/workgroup.h"
#include "tests/ptx/ptx_text.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {

/// sm_90a.
inline constexpr CudaArch kHopperPtx{true, 90, true};

class PtxModule {
 public:
  /// Compiles the kernels, whose names must differ. `edit` may change the PTX.
  static Result<PtxModule> load(std::span<const kernel::Kernel> kernels,
                                const std::function<void(std::string&)>& edit = {},
                                CudaArch arch = {true, 80});
  /// Compiles CUDA text, which begins with the prelude.
  static Result<PtxModule> of_text(const std::string& text, const std::string& name, CudaArch arch);

  /// Runs a kernel of the module. Fails on what ptx::run() forbids. The overload for `launch` sets
  /// its buffers and its error word.
  Status run(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
             std::span<const std::span<std::byte>> buffers, std::span<const uint32_t> scalars,
             uint32_t launch_id, uint32_t& error_word) const;
  Status run(const kernel::Kernel& k, Launch& launch) const;

  ptx::Options options;

 private:
  ptx::Program program_;
};

}  // namespace reprise::test
