// An open CUDA context: its function table, queue and state. Everything that is made from a device
// holds its Driver, so objects may be destroyed in any order.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/counters.h"
#include "backends/common/owned.h"
#include "backends/common/run_queue.h"
#include "backends/cuda/library.h"

namespace reprise::cuda {

struct Driver {
  std::shared_ptr<const Library> library;
  DeviceInfo info;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool owned = false;  // false: the application's context, which is never released here
  CUstream borrowed_stream = nullptr;
  CUstream transfers = nullptr;  // for uploads and downloads; the borrowed stream if there is one
  AtomicCounters counters;
  RunQueue runs;
  MemoryCallbacks lender;  // of the application; may be empty

  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  const Table& fn() const { return library->fn(); }
  /// Code::Device, naming the call, unless `r` is a success. An error after which every call on the
  /// context fails poisons it.
  Status check(CUresult r, const char* call);
  /// An error if the context is poisoned; it names the cause.
  Status alive() const;

  /// Waits for the event and returns its status, which is NOT_READY after `limit_ns`. If `expected`
  /// is not null, it is how long the last wait took, and is updated for the next one.
  CUresult wait_for(CUevent event, uint64_t limit_ns,
                    std::chrono::steady_clock::duration* expected = nullptr) const;
  /// Calls `destroy` with the context current. While a run is late the call is postponed, because
  /// drivers wait for all work before they free. After a run was given up the call is dropped.
  void release(std::function<void(const Table&)> destroy);
  /// Releases a handle of an Owned. On a poisoned context every call fails, and the end of the
  /// context frees its objects.
  template <auto Destroy, typename T>
  void destroy(T handle) {
    release([handle](const Table& fn) { (fn.*Destroy)(handle); });
  }
  /// Gives memory back to the application, likewise.
  void release(const LentMemory& memory);
  /// Makes the calls that release() postponed, unless a run is late. The context must be current.
  void release_kept();
  /// For a run that did not end within `waited_ns` after its timeout: poisons the context, and from
  /// then on nothing that belongs to it is freed.
  void give_up(uint64_t waited_ns);
  /// An error if an earlier device gave up a run on this context: the process still has the run.
  Status check_context() const;

 private:
  void poison(const std::string& cause);
  bool keep_if_late(std::function<void(const Table&)>& destroy);
  /// What to do about a poisoned context.
  std::string remedy() const;
  std::atomic<bool> poisoned_ = false;
  mutable std::mutex mutex_;
  std::string cause_;  // of the poisoning
  std::vector<std::function<void(const Table&)>> kept_;
};

/// Whether every call on the context fails after this error.
bool is_sticky(CUresult r);

/// Makes the context current on this thread for its lifetime, and then restores the previous one.
class Scope {
 public:
  explicit Scope(const Driver& driver)
      : driver_(driver), entered_(driver.fn().cuCtxPushCurrent_v2(driver.context)) {}
  ~Scope() {
    CUcontext ours = nullptr;
    if (entered_ == CUDA_SUCCESS) driver_.fn().cuCtxPopCurrent_v2(&ours);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  CUresult entered() const { return entered_; }

 private:
  const Driver& driver_;
  CUresult entered_;
};

// Makes the context current until the end of the block, or returns the error.
#define RP_CUDA_SCOPE(driver)      \
  const Scope rp_scope_((driver)); \
  RP_TRY((driver).check(rp_scope_.entered(), "cuCtxPushCurrent"))

/// A scope for releasing objects, which needs the context. A failure could not be reported to
/// anyone, and it may be temporary, so entering is tried twice.
class ReleaseScope {
 public:
  explicit ReleaseScope(const Driver& driver) {
    scope_.emplace(driver);
    if (scope_->entered() != CUDA_SUCCESS) scope_.emplace(driver);
  }
  bool entered() const { return scope_->entered() == CUDA_SUCCESS; }

 private:
  std::optional<Scope> scope_;
};

template <typename T, auto Destroy>
using Owned = reprise::Owned<Driver, T, Destroy>;
using OwnedMemory = Owned<CUdeviceptr, &Table::cuMemFree_v2>;
using OwnedHostMemory = Owned<void*, &Table::cuMemFreeHost>;
using OwnedExternalMemory = Owned<CUexternalMemory, &Table::cuDestroyExternalMemory>;
using OwnedModule = Owned<CUmodule, &Table::cuModuleUnload>;
using OwnedStream = Owned<CUstream, &Table::cuStreamDestroy_v2>;
using OwnedEvent = Owned<CUevent, &Table::cuEventDestroy_v2>;
using OwnedGraph = Owned<CUgraph, &Table::cuGraphDestroy>;
using OwnedGraphExec = Owned<CUgraphExec, &Table::cuGraphExecDestroy>;

}  // namespace reprise::cuda
