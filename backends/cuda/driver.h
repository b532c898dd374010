// One CUDA context in use: its function table and what went wrong on it. Everything made from a
// device holds it, so objects may be destroyed in any order.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/library.h"

namespace reprise::cuda {

struct AtomicCounters {
  std::atomic<uint64_t> submits = 0, dispatches = 0, copies = 0;
  std::atomic<uint64_t> recordings = 0, kernels = 0, allocations = 0;
};

struct Driver {
  std::shared_ptr<const Library> library;
  DeviceInfo info;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool owned = false;  // false: the application's context, never released here
  CUstream borrowed_stream = nullptr;
  CUstream transfers = nullptr;  // uploads and downloads; a borrowed stream takes them too
  AtomicCounters counters;

  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  const Table& fn() const { return library->fn(); }
  /// Ok, or Code::Device naming the call. An error after which nothing works on a context poisons
  /// it.
  Status check(CUresult r, const char* call);
  /// An error once the context was poisoned, naming what did it.
  Status alive() const;

 private:
  void poison(const std::string& cause);
  std::atomic<bool> poisoned_ = false;
  mutable std::mutex mutex_;
  std::string cause_;  // of the poisoning
};

/// Makes the context current on this thread while it lives; leaves what was current before.
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

// Makes the context current to the end of the block, or returns why that failed.
#define RP_CUDA_SCOPE(driver)      \
  const Scope rp_scope_((driver)); \
  RP_TRY((driver).check(rp_scope_.entered(), "cuCtxPushCurrent"))

/// A scope in which something is released. There is no one to report a failure to, so what failed
/// for the moment is tried once more: without the context nothing can be released.
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

/// An object that the table's function `Destroy` destroys. Errors of that are of no use to anyone:
/// on a poisoned context every call fails, and the context's end frees what it held.
template <typename T, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<Driver> driver, T handle) : driver_(std::move(driver)), handle_(handle) {}
  Owned(Owned&& o) noexcept
      : driver_(std::move(o.driver_)), handle_(std::exchange(o.handle_, T{})) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(driver_, o.driver_);
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Owned() {
    if (!handle_) return;
    const ReleaseScope scope(*driver_);
    if (scope.entered()) (driver_->fn().*Destroy)(handle_);
  }
  T get() const { return handle_; }

 private:
  std::shared_ptr<Driver> driver_;
  T handle_{};
};

using OwnedMemory = Owned<CUdeviceptr, &Table::cuMemFree_v2>;
using OwnedHostMemory = Owned<void*, &Table::cuMemFreeHost>;
using OwnedModule = Owned<CUmodule, &Table::cuModuleUnload>;
using OwnedStream = Owned<CUstream, &Table::cuStreamDestroy_v2>;
using OwnedEvent = Owned<CUevent, &Table::cuEventDestroy_v2>;
using OwnedGraph = Owned<CUgraph, &Table::cuGraphDestroy>;
using OwnedGraphExec = Owned<CUgraphExec, &Table::cuGraphExecDestroy>;

}  // namespace reprise::cuda
