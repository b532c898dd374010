// Runs the invocations of a workgroup.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "tests/cuda_shim/shim.h"

namespace reprise::test {

/// One workgroup at a time on the calling thread, each invocation a fiber: it runs until it ends,
/// or meets a barrier or shuffle and waits there for the others. Stacks are kept for the next one.
class FiberGroup {
 public:
  explicit FiberGroup(Shim& shim);
  ~FiberGroup();
  FiberGroup(const FiberGroup&) = delete;
  FiberGroup& operator=(const FiberGroup&) = delete;

  /// Runs shim.group_size invocations of `kernel`. Fails where invocations wait for others that
  /// will not come.
  Status run(KernelFn kernel, const void* block);
  /// Runs `kernel`, which knows how to do a whole workgroup, on one fiber.
  Status run_whole(KernelFn kernel, const void* block);
  /// From a running invocation: the workgroup ends here, and run() returns `problem`.
  [[noreturn]] void abandon(const Status& problem);

 private:
  struct Invocation;
  static void entry(void* invocation);
  static void on_barrier(Shim* shim);
  static uint64_t on_shuffle(Shim* shim, uint32_t active, uint64_t in, uint32_t lane, bool is_xor);
  static uint32_t on_ballot(Shim* shim, uint32_t active, bool in);
  static void** on_meet(Shim* shim, void* in);
  void prepare(size_t invocations, KernelFn kernel, const void* block);
  void resume(Invocation& f);
  bool release_barrier();
  bool release_lanes(const Invocation& first);
  bool release_meeting(const Invocation& first);

  Shim& shim_;
  std::vector<std::unique_ptr<Invocation>> fibers_;  // at least count_
  size_t count_ = 0, done_ = 0, at_barrier_ = 0;
  std::vector<std::array<void*, 32>> meetings_;  // by warp
  Invocation* running_ = nullptr;
  KernelFn kernel_ = nullptr;
  const void* block_ = nullptr;
  Status problem_;
};

}  // namespace reprise::test
