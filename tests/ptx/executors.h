// What the host and every executor of kernels make of a graph: the interpreter, PTX, and CUDA text
// on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/ptx/graphs.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {

/// What the host makes of the graph.
Result<std::vector<HostTensor>> on_host(const graph::Graph& g,
                                        const std::vector<HostTensor>& inputs);

/// Kernels, whose names must differ, on every executor.
class Executors {
 public:
  struct Executor {
    std::string name;
    Execute run;
  };
  /// All kernels begin early, as those of packages do, on an architecture that has this. Kernels
  /// with roles have no CUDA text on the CPU.
  static Result<Executors> load(const std::vector<kernel::Kernel>& kernels, ptx::Completion copies,
                                CudaArch arch = {false, 80});
  const std::vector<Executor>& all() const { return all_; }

 private:
  std::vector<Executor> all_;
};

}  // namespace reprise::test
