// The session on the host, which is the reference: it runs the imported graph, one host kernel
// after another.
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "runtime/check/check.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/run/session_io.h"
#include "runtime/run/state_memory.h"
#include "runtime/session/session_impl.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point t, double per_second) {
  return std::chrono::duration<double>(Clock::now() - t).count() * per_second;
}

class HostSession final : public Session {
 public:
  HostSession(std::shared_ptr<const package::Package> package, std::vector<std::string> notes,
              const SessionOptions& options)
      : package_(std::move(package)),
        plan_(package_->host_plan),
        binder_(package_->io),
        notes_(std::move(notes)),
        timeout_ns_(options.timeout_ns != 0 ? options.timeout_ns
                                            : default_timeout_ns(DeviceKind::Cpu)),
        host_memory_(options.host_memory),
        seed_(options.seed) {}

  Status load();
  const package::Package& package() const override { return *package_; }
  Result<std::vector<HostTensor>> read_states(std::span<const size_t> which) override;
  Status write_states(std::span<const size_t> which, std::span<const HostTensor> values) override;
  Result<std::vector<StateRows>> change_rows(std::span<const size_t> which, RowChange change,
                                             int64_t rows) override;
  Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::vector<HostTensor>& results, RunStats* stats) override {
    return run_until(nullptr, inputs, outputs, results, stats);
  }
  Result<std::unique_ptr<AsyncRun>> make_run() override;
  const plan::Interface& io() const override { return package_->io; }
  const std::string& variant() const override { return variant_; }
  const std::vector<std::string>& variant_notes() const override { return notes_; }
  const plan::Plan& plan() const override { return plan_; }
  SessionStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  Device* device() override { return nullptr; }

 private:
  class Run;
  static Result<HostTensor> deliver(HostTensor value, const Binding* binding);
  StateRows known_rows(size_t state) const;
  Status bind_lengths(BoundIo& bound);
  Result<std::vector<HostTensor>> compute(BoundIo& bound, const CancelFlag* cancelled);
  Status run_until(const CancelFlag* cancelled, std::span<const Binding> inputs,
                   std::span<const Binding> outputs, std::vector<HostTensor>& results,
                   RunStats* stats);

  std::shared_ptr<const package::Package> package_;
  const plan::Plan& plan_;
  IoBinder binder_;
  std::string variant_ = "host";
  std::vector<std::string> notes_;
  const uint64_t timeout_ns_;
  const HostMemoryPtr host_memory_;
  const uint64_t seed_;
  std::atomic<uint64_t> started_ = 0;
  std::optional<HostProgram> program_;
  HostBodies bodies_;
  mutable std::mutex mutex_;
  SessionStats stats_;
  std::mutex states_mutex_;         // held by a run that has states
  std::vector<HostTensor> states_;  // a failed run leaves them as they are
  std::vector<StateRows> rows_;     // parallel to them; their limits are those of states that grow
};

Status HostSession::load() {
  const auto start = Clock::now();
  RP_ASSIGN(program_, HostProgram::load(*package_, package_->host_plan, package_->io));
  RP_ASSIGN(bodies_, HostBodies::load(*package_));
  RP_TRY(binder_.load_defaults(*package_));
  const HostMemoryScope memory(host_memory_);
  for (const plan::StateSlot& slot : package_->io.states) {
    rows_.emplace_back();
    RP_ASSIGN(HostTensor value, initial_state(*package_, slot));
    states_.push_back(std::move(value));
  }
  stats_.load_ms = since(start, 1e3);
  return {};
}

Result<std::vector<HostTensor>> HostSession::read_states(std::span<const size_t> which) {
  const std::lock_guard lock(states_mutex_);
  std::vector<HostTensor> out;
  for (const size_t s : which) out.push_back(states_[s]);
  return out;
}

Status HostSession::write_states(std::span<const size_t> which,
                                 std::span<const HostTensor> values) {
  const HostMemoryScope memory(host_memory_);
  const std::lock_guard lock(states_mutex_);
  for (size_t i = 0; i < which.size(); ++i) {
    const plan::StateSlot& slot = package_->io.states[which[i]];
    if (slot.grows())
      RP_TRY(check_reserve(slot.name, rows_[which[i]],
                           values[i].dims()[static_cast<size_t>(slot.axis)]));
  }
  for (size_t i = 0; i < which.size(); ++i) states_[which[i]] = values[i].detached();
  return {};
}

Result<std::vector<StateRows>> HostSession::change_rows(std::span<const size_t> which,
                                                        RowChange change, int64_t rows) {
  const std::lock_guard lock(states_mutex_);
  for (const size_t s : which) {
    const plan::StateSlot& slot = package_->io.states[s];
    if (!slot.grows()) return does_not_grow(slot.name);
    RP_TRY(check_change(slot.name, known_rows(s), change, rows));
  }
  std::vector<StateRows> out;
  out.reserve(which.size());
  for (const size_t s : which) {
    if (change == RowChange::Truncate)
      states_[s] = first_rows(states_[s], package_->io.states[s].axis, rows);
    if (change == RowChange::Limit) rows_[s].limit = rows;
    out.push_back(known_rows(s));
  }
  return out;
}

StateRows HostSession::known_rows(size_t state) const {
  const int32_t axis = package_->io.states[state].axis;
  StateRows out = rows_[state];
  out.dims = states_[state].dims();
  if (axis >= 0) out.length = out.capacity = out.dims[static_cast<size_t>(axis)];
  return out;
}

/// Computes the symbols that depend on the lengths of states, and checks the states against them.
Status HostSession::bind_lengths(BoundIo& bound) {
  std::vector<int64_t> lengths(states_.size());
  for (size_t s = 0; s < states_.size(); ++s) lengths[s] = known_rows(s).length;
  RP_TRY(binder_.bind_lengths(lengths, bound));
  for (size_t s = 0; s < states_.size(); ++s) {
    const plan::StateSlot& slot = package_->io.states[s];
    if (!slot.grows()) continue;
    StateRows rows = known_rows(s);
    RP_ASSIGN(const auto dims, plan::eval_dims(package_->io, slot.shape, bound.symbols, slot.name));
    RP_ASSIGN(const int64_t length, slot.length_after.eval(bound.symbols));
    RP_TRY(check_rows(slot, rows, dims, length));
    if (rows.length == 0) states_[s] = HostTensor(slot.dtype, dims);
  }
  return {};
}

// The outputs of a run, whose states become the session's.
Result<std::vector<HostTensor>> HostSession::compute(BoundIo& bound, const CancelFlag* cancelled) {
  std::unique_lock lock(states_mutex_, std::defer_lock);
  if (!states_.empty()) lock.lock();
  RP_TRY(bind_lengths(bound));
  std::vector<HostTensor> inputs;
  inputs.reserve(bound.inputs.size());
  for (size_t i = 0; i < bound.inputs.size(); ++i)
    inputs.push_back(dense_tensor(*bound.inputs[i], package_->io.inputs[i].shape.size()));
  std::vector<const HostTensor*> values;
  values.reserve(bound.inputs.size() + states_.size());
  for (const HostTensor& input : inputs) values.push_back(&input);
  for (const HostTensor& state : states_) values.push_back(&state);
  HostRun run = HostRun::create(deadline_in(timeout_ns_), seed_, started_++);
  run.cancelled = cancelled;
  RP_ASSIGN(std::vector<HostTensor> computed, program_->run(values, bound.symbols, bodies_, run));
  // Values may be views of inputs. The caller may free their memory after the run, or bind the same
  // memory to outputs.
  for (HostTensor& value : computed) value = value.detached();
  const size_t outputs = computed.size() - states_.size();
  for (size_t s = 0; s < states_.size(); ++s) states_[s] = std::move(computed[outputs + s]);
  computed.resize(outputs);
  return computed;
}

Result<HostTensor> HostSession::deliver(HostTensor value, const Binding* binding) {
  if (!binding) return value;
  const Rows rows = rows_of(value.dims(), value.dtype(), binding->row_pitch);
  RP_TRY(check_rows(*binding, rows, value.bytes().size()));
  if (!rows.dense()) {
    unpack_rows(rows, value.bytes().data(), binding->host_output.data());
  } else if (!value.bytes().empty()) {
    std::memcpy(binding->host_output.data(), value.bytes().data(), value.bytes().size());
  }
  HostTensor shape;
  shape.borrow_again(value.dtype(), value.dims(), {});
  return shape;
}

Status HostSession::run_until(const CancelFlag* cancelled, std::span<const Binding> inputs,
                              std::span<const Binding> outputs, std::vector<HostTensor>& results,
                              RunStats* stats) {
  const auto start = Clock::now();
  const HostMemoryScope memory(host_memory_);
  BoundIo bound;
  RP_TRY(binder_.bind(inputs, outputs, nullptr, bound));
  RP_ASSIGN(std::vector<HostTensor> computed, compute(bound, cancelled));
  results.resize(computed.size());
  for (size_t o = 0; o < computed.size(); ++o) {
    RP_ASSIGN(results[o], deliver(std::move(computed[o]), bound.outputs[o]));
  }
  if (stats) {
    *stats = {};
    stats->total_us = since(start, 1e6);
  }
  const std::lock_guard lock(mutex_);
  ++stats_.runs;
  return {};
}

/// The host computes when the run is submitted.
class HostSession::Run final : public AsyncRun {
 public:
  explicit Run(HostSession& session) : session_(session) {}

  Status bind(std::span<const Binding> inputs, std::span<const Binding> outputs) override {
    if (submitted_) return {Code::Usage, "the run is in flight; wait for it first"};
    inputs_ = inputs;
    outputs_ = outputs;
    is_bound_ = false;
    BoundIo bound;
    RP_TRY(session_.binder_.bind(inputs, outputs, nullptr, bound));
    is_bound_ = true;
    return {};
  }

  void unbind() override { is_bound_ = false; }
  bool is_bound() const override { return is_bound_; }

  Result<bool> submit(const SubmitOptions& options) override {
    if (submitted_) return Status(Code::Usage, "the run is in flight; wait for it first");
    if (!is_bound_) return Status(Code::Usage, kUnbound);
    if (!options.sync.empty()) return unsupported("the host has no semaphores");
    RP_TRY(session_.run_until(options.cancelled, inputs_, outputs_, results_, &stats_));
    submitted_ = true;
    return false;
  }

  Status record(void*) override { return unsupported("the host has no command buffers"); }

  bool in_flight() const override { return submitted_; }
  Result<bool> ended() override { return true; }

  Status wait(std::vector<HostTensor>& results, RunStats* stats) override {
    if (!submitted_) return {Code::Usage, "the run was not submitted, or has ended already"};
    submitted_ = false;
    results = std::move(results_);
    results_.clear();
    if (stats) *stats = stats_;
    return {};
  }

 private:
  HostSession& session_;
  std::span<const Binding> inputs_, outputs_;
  std::vector<HostTensor> results_;
  RunStats stats_;
  bool is_bound_ = false, submitted_ = false;
};

Result<std::unique_ptr<AsyncRun>> HostSession::make_run() {
  return Result<std::unique_ptr<AsyncRun>>(std::make_unique<Run>(*this));
}

}  // namespace

Result<std::unique_ptr<Session>> create_host_session(
    std::shared_ptr<const package::Package> package, std::vector<std::string> notes,
    const SessionOptions& options) {
  auto session = std::make_unique<HostSession>(std::move(package), std::move(notes), options);
  RP_TRY(session->load());
  return Result<std::unique_ptr<Session>>(std::move(session));
}

}  // namespace reprise
