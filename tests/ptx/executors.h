// What the host and every executor of kernels make of a graph: the interpreter, PTX, and CUDA text
// on the CPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/ptx/graphs.h"
#include "tests/support/kernel_runner.h"

namespace reprise::test {

/// What the host makes of the graph.
Result<std::vector<HostTensor>> on_host(const graph::Graph& g,
                                        const std::vector<HostTensor>& inputs);

/// A graph by its text, with the values of its inputs.
struct GraphText {
  using Values = std::function<HostTensor(const std::string& name, DType type,
                                          const std::vector<int64_t>& dims)>;
  std::string text;
  std::vector<int64_t> symbols;
  Values values;
};

/// A graph after all passes, and what the host makes of it.
struct GraphOnHost {
  PtxGraph graph;
  std::vector<HostTensor> expected;

  static Result<GraphOnHost> make(const GraphText& text);
};

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
  /// Runs the launches on each and compares the first result. `differs` says what is wrong with the
  /// memory of a tensor, or nothing. Returns which executor it is and what is wrong with it.
  using Differs =
      std::function<std::string(const HostTensor& wanted, const std::vector<std::byte>& memory)>;
  std::string disagreement(const GraphOnHost& host, const Lowering& lowered,
                           const Differs& differs) const;

 private:
  std::vector<Executor> all_;
};

}  // namespace reprise::test
