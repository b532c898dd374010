// The session on a device.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/pool.h"
#include "runtime/run/bodies/body_runner.h"
#include "runtime/session/session_impl.h"

namespace reprise {

/// States of sessions on a device.
class DeviceStates final : public States {
 public:
  DeviceStates(std::shared_ptr<const package::Package> of, std::shared_ptr<Device> on,
               StateMemory values)
      : States(std::move(of), std::move(on)), memory_(std::move(values)) {}
  Result<std::shared_ptr<States>> fork(int64_t length) override;
  Result<Info> info() override;
  /// For the one that has a States::Use.
  StateMemory& memory() { return memory_; }

 private:
  StateMemory memory_;
};

class DeviceSession final : public Session, private IdleMemory::Holder {
 public:
  DeviceSession(std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device,
                size_t variant, std::vector<std::string> notes, const SessionOptions& options);

  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;
  ~DeviceSession() override { resources_.device->idle_memory().remove(*this); }

  /// If the verdict is that a kernel is wrong, the session must not be used. Plans for some sizes
  /// are loaded when a run needs them for the first time, unless the options ask for more.
  Status load(Verdict& verdict);
  const package::Package& package() const override { return *resources_.package; }
  Result<std::vector<HostTensor>> read_states(std::span<const size_t> which) override;
  Status write_states(std::span<const size_t> which, std::span<const HostTensor> values) override;
  Result<std::vector<StateRows>> change_rows(std::span<const size_t> which, RowChange change,
                                             int64_t rows) override;
  Result<std::shared_ptr<States>> make_states() override;
  Status bind_states(const std::shared_ptr<States>& states) override;
  Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::vector<HostTensor>& results, RunStats* stats) override;
  Result<std::unique_ptr<AsyncRun>> make_run() override;
  const plan::Interface& io() const override { return resources_.package->io; }
  const std::string& variant() const override { return variant_.name; }
  const std::vector<std::string>& variant_notes() const override { return notes_; }
  const plan::Plan& plan() const override { return variant_.plan; }
  const package::Variant* compiled() const override { return &variant_; }
  SessionStats stats() const override;
  Device* device() override { return resources_.device.get(); }

 private:
  std::vector<SharedPlan*> all_plans();
  Status index_plans();
  Status load_plan(SharedPlan& plan, Verdict& verdict);
  Status load_kernels(SharedPlan& plan, Verdict& verdict);
  SharedPlan& plan_for(const BoundIo& bound);
  bool refuses(SharedPlan& plan);
  void log_plan(Severity severity, const SharedPlan& plan, const char* does,
                const std::string& why) const;
  Result<std::unique_ptr<RunContext>> make_context(SharedPlan& plan);
  SharedArena* take_arena();
  class Lease;
  class ArenaTurn;
  class Submission;
  class StatesTurn;
  Result<std::shared_ptr<DeviceStates>> own_kind(const std::shared_ptr<States>& states);
  class Run;
  struct Waiter;
  bool has_room() const;
  void poll_late();
  void wait_for_room(std::unique_lock<std::mutex>& lock);
  Result<std::unique_ptr<RunContext>> acquire(const SharedPlan* plan,
                                              const std::vector<int64_t>& symbols);
  Status full() const;
  Result<std::unique_ptr<RunContext>> try_acquire(const SharedPlan* plan,
                                                  const std::vector<int64_t>& symbols);
  std::unique_ptr<RunContext> take_free(const SharedPlan* plan, const std::vector<int64_t>& symbols,
                                        std::unique_ptr<RunContext>& replaced);
  enum class User : uint8_t { Call, RunObject, States };
  void release(std::unique_ptr<RunContext> context, SharedArena* arena, User user) noexcept;
  bool free_idle() override;

  SessionResources resources_;
  std::shared_ptr<DeviceStates> bound_states_;  // of the one whose turn it is; null: its own
  const package::Variant& variant_;
  SharedPlan plan_;                                 // of the variant's plan
  std::vector<std::unique_ptr<SharedPlan>> sized_;  // of its plans for some sizes
  std::mutex load_mutex_;                           // of SharedPlan::loaded
  std::vector<std::string> notes_;
  IoBinder binder_;
  Pool<BoundIo> bound_;
  mutable std::mutex mutex_;
  Waiter *first_waiter_ = nullptr, *last_waiter_ = nullptr;
  // If there are several plans, each run in flight takes one of these, which its context uses: the
  // contexts of all plans need no more memory than that of the largest.
  std::vector<std::unique_ptr<SharedArena>> arenas_;
  std::vector<SharedArena*> free_arenas_;
  // Late contexts count as in flight. The device may still use the memory of late and dead
  // contexts.
  std::vector<std::unique_ptr<RunContext>> free_, late_, dead_;
  unsigned in_use_ = 0;
  unsigned held_ = 0;  // of these, by run objects
  uint64_t runs_ = 0;
  double load_ms_ = 0;
};

}  // namespace reprise
