// Lowered kernels, executed one after another without a device: on the interpreter, or as CUDA
// text on the CPU.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/lower/lower.h"
#include "tests/cuda_shim/cuda_on_cpu.h"

namespace reprise::test {

/// Runs one kernel; buffers are in parameter order.
using Execute = std::function<Status(const kernel::Kernel&, std::array<uint32_t, 3>,
                                     std::vector<std::span<std::byte>>, std::vector<uint32_t>)>;
/// Fails on any access that kernel/semantics.md forbids, and when the kernel sets its error word.
Status interpret(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                 std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars);
/// Remembers what each kernel made of its buffers: an equal launch gets the same bytes without
/// running. Variants of a device differ in few kernels, so most launches of a graph are equal.
class RememberedRuns {
 public:
  explicit RememberedRuns(Execute execute) : execute_(std::move(execute)) {}
  Status run(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
             std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars);

 private:
  Execute execute_;
  std::unordered_map<std::string, std::string> results_;  // by text, grid, scalars and contents
};
/// One kernel of the module, by its name.
Execute cuda_on_cpu(const CudaOnCpu& module);

/// The kernels in the form that is emitted for the target.
Status legalize_for(lower::Lowered& l, const lower::Target& target);
/// The kernels as text.
std::string print(const lower::Lowered& l);

std::vector<int64_t> dims_of(const Shape& shape, const std::vector<int64_t>& symbols);

/// The memory of a graph's values, and kernels on it.
class KernelRunner {
 public:
  KernelRunner(const graph::Graph& g, const std::vector<int64_t>& symbols,
               const std::vector<HostTensor>& inputs);

  /// Runs the launches in order.
  Status run(const lower::Lowered& l, const Execute& execute);
  const std::vector<std::byte>& memory_of(graph::ValueId v) { return memory(v); }

 private:
  using Memory = std::vector<std::byte>;
  Status run(const lower::LoweredLaunch& l, std::vector<Memory>& scratch, const Execute& execute);
  /// As the session allocates: whole words.
  size_t bytes_of(const Shape& shape, DType as) const;
  size_t bytes_of(graph::ValueId v, DType as) const { return bytes_of(g_.value(v).shape, as); }
  void store(graph::ValueId v, const HostTensor& t);
  std::vector<std::byte>& memory(graph::ValueId v);

  const graph::Graph& g_;
  std::vector<int64_t> symbols_;
  std::map<graph::ValueId, std::vector<std::byte>> memory_;
};

}  // namespace reprise::test
