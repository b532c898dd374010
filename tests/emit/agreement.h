// Runs kernels on everything that can run them, and compares memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "tests/cuda_shim/cuda_on_cpu.h"
#include "tests/emit/launch.h"
#include "tests/emit/vulkan_runner.h"

namespace reprise::test {

/// Error that float results may have, in units in the last place of the expected value, plus an
/// absolute part. 0.5 and less mean the same bits (any NaN stands for any other, and a result below
/// the smallest normal number may be flushed to zero).
struct Tolerance {
  double ulp = 0;
  double abs = 0;
};

/// Whether `got` is an acceptable result where `expected` is exact; both as bits of type t.
bool agrees(kernel::Ty t, uint64_t expected, uint64_t got, const Tolerance& tolerance);

/// Element `index` of memory that holds type t, as bits.
uint64_t element(const std::vector<std::byte>& memory, kernel::Ty t, size_t index);
void set_element(std::vector<std::byte>& memory, kernel::Ty t, size_t index, uint64_t bits);

/// The first place where memory or the error word differs; empty when nothing does.
std::string difference(const kernel::Kernel& k, const Launch& expected, const Launch& got,
                       const Tolerance& tolerance);

/// The launch's result on the interpreter, which fails on any access that semantics.md forbids.
Result<Launch> interpret(const kernel::Kernel& k, Launch launch, uint32_t subgroup_size);

/// Kernels that are compiled as one module of CUDA text.
class CudaBatch {
 public:
  /// Emits the kernel, under a name of its own; returns the index to run it by. `edit` may change
  /// the text.
  Result<size_t> add(kernel::Kernel k, const std::function<void(std::string&)>& edit = {});
  Status build();
  Status run(size_t index, Launch& launch) const;

 private:
  std::vector<CudaSource> sources_;
  std::optional<CudaOnCpu> module_;
};

/// A kernel, a launch of it, and how closely all executors must agree with the interpreter.
struct Case {
  kernel::Kernel kernel;
  Launch launch;
  Tolerance tolerance;
  bool cuda = true;  // false: the kernel asks for a subgroup size that CUDA has not
};

/// Runs every case on the interpreter, every Vulkan device that supports it (with and without wide
/// loads) and as CUDA text. Returns what went wrong, a line per problem.
std::vector<std::string> disagreements(const std::vector<Case>& cases);

}  // namespace reprise::test
