// Runs launches: all workgroups of a kernel, on one thread or several.
#pragma once

#include <array>
#include <memory>

#include "runtime/base/status.h"
#include "tests/cuda_shim/shim.h"

namespace reprise::test {

class FiberGroup;

struct GroupLaunch {
  KernelFn function = nullptr;
  bool waits = false;  // invocations meet at barriers or exchange values: each is a fiber
  bool whole = false;  // where they do not: a workgroup is a fiber, so that it can be abandoned
  std::array<uint32_t, 3> grid{1, 1, 1}, workgroup{1, 1, 1};
  const void* block = nullptr;
  size_t block_bytes = 0;
  // Of libraries whose accesses are checked; asked on the threads that run workgroups.
  void (*access)(Shim* shim, uint64_t address, uint64_t bytes, uint32_t kind) = nullptr;
  void* checker = nullptr;
  bool early = false;  // launches before it may still run: its invocations must await them
};

/// One launch at a time.
class GroupRunner {
 public:
  /// `threads` counts the calling one; the others wait between launches.
  explicit GroupRunner(unsigned threads);
  ~GroupRunner();
  GroupRunner(const GroupRunner&) = delete;
  GroupRunner& operator=(const GroupRunner&) = delete;

  /// Fails on a barrier or shuffle that only some invocations reach, and if an invocation of an
  /// early launch ends without awaiting the launches before it.
  Status run(const GroupLaunch& launch);

 private:
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

/// From inside a kernel on this thread: ends its workgroup with `problem`, and nothing on its stack
/// is destroyed. Only for launches whose workgroups are fibers; false where nothing runs.
bool abandon_workgroup(const Status& problem);

}  // namespace reprise::test
