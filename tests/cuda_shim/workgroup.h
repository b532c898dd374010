// Runs the invocations of a workgroup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "tests/cuda_shim/shim.h"

namespace reprise::test {

/// One workgroup at a time on the calling thread, each invocation a fiber: it runs until it ends,
/// or meets a barrier or shuffle and waits there for the others.
class FiberGroup {
 public:
  FiberGroup(Shim& shim, uint32_t threads);
  ~FiberGroup();
  FiberGroup(const FiberGroup&) = delete;
  FiberGroup& operator=(const FiberGroup&) = delete;

  /// Fails where invocations wait for others that will not come.
  Status run(KernelFn kernel, const void* block);

 private:
  struct Fiber;
  static void entry();
  static void on_barrier();
  static uint64_t on_shuffle(uint32_t active, uint64_t in, uint32_t lane, bool is_xor);
  static uint32_t on_ballot(uint32_t active, bool in);
  void start(Fiber& f);
  void resume(Fiber& f);
  void suspend(Fiber& f);
  bool release_barrier();
  bool release_lanes(const Fiber& first);

  Shim& shim_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  struct Caller;
  std::unique_ptr<Caller> caller_;
  Fiber* running_ = nullptr;
  KernelFn kernel_ = nullptr;
  const void* block_ = nullptr;
  bool inactive_read_ = false;
};

/// Sets the thread's index from its position in the workgroup.
void set_thread(Shim& shim, uint32_t index);

}  // namespace reprise::test
