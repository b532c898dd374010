// The session on the host, which is the reference: it runs the imported graph, one host kernel
// after another.
#include <algorithm>
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

/// States of sessions on the host.
class HostStates final : public States {
 public:
  explicit HostStates(std::shared_ptr<const package::Package> of)
      : States(std::move(of), nullptr) {}
  static Result<std::shared_ptr<HostStates>> create(std::shared_ptr<const package::Package> of);
  StateRows known_rows(size_t state) const;
  /// Checks the states against the symbols of a run of a package.
  Status begin(const plan::Interface& io, std::span<const int64_t> symbols);
  Result<std::shared_ptr<States>> fork(int64_t length) override;
  Result<Info> info() override;
  /// As Session::change_rows().
  Result<std::vector<StateRows>> change(std::span<const size_t> which, RowChange change,
                                        int64_t wanted);

  std::vector<HostTensor> values;  // a failed run leaves them as they are
  std::vector<StateRows> rows;     // parallel to them; their limits are those of states that grow

 private:
  int64_t length() const;
};

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
  Result<std::shared_ptr<States>> make_states() override;
  Status bind_states(const std::shared_ptr<States>& states) override;
  Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::vector<HostTensor>& results, RunStats* stats) override {
    return run_until(nullptr, nullptr, inputs, outputs, results, stats);
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
  /// A call's turn, and the states that it uses.
  struct Turn {
    std::unique_lock<std::mutex> lock;
    std::shared_ptr<HostStates> states;
    States::Use use;
  };
  Status begin(Turn& turn, std::shared_ptr<HostStates> given = nullptr);
  Result<std::shared_ptr<HostStates>> own_kind(const std::shared_ptr<States>& states);
  Status bind_lengths(HostStates& states, BoundIo& bound);
  Result<std::vector<HostTensor>> compute(std::shared_ptr<HostStates> states, BoundIo& bound,
                                          const CancelFlag* cancelled);
  Status run_until(std::shared_ptr<HostStates> states, const CancelFlag* cancelled,
                   std::span<const Binding> inputs, std::span<const Binding> outputs,
                   std::vector<HostTensor>& results, RunStats* stats);

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
  std::mutex states_mutex_;             // held by a run that has states
  std::shared_ptr<HostStates> states_;  // its own, or those that are bound
  std::shared_ptr<HostStates> own_states_;
};

Status HostSession::load() {
  const auto start = Clock::now();
  RP_ASSIGN(program_, HostProgram::load(*package_, package_->host_plan, package_->io));
  RP_ASSIGN(bodies_, HostBodies::load(*package_));
  RP_TRY(binder_.load_defaults(*package_));
  const HostMemoryScope memory(host_memory_);
  RP_ASSIGN(own_states_, HostStates::create(package_));
  states_ = own_states_;
  stats_.load_ms = since(start, 1e3);
  return {};
}

Result<std::vector<HostTensor>> HostSession::read_states(std::span<const size_t> which) {
  Turn turn;
  RP_TRY(begin(turn));
  std::vector<HostTensor> out;
  for (const size_t s : which) out.push_back(turn.states->values[s]);
  return out;
}

Status HostSession::write_states(std::span<const size_t> which,
                                 std::span<const HostTensor> values) {
  const HostMemoryScope memory(host_memory_);
  Turn turn;
  RP_TRY(begin(turn));
  for (size_t i = 0; i < which.size(); ++i) {
    const plan::StateSlot& slot = package_->io.states[which[i]];
    if (slot.grows())
      RP_TRY(check_reserve(slot.name, turn.states->rows[which[i]],
                           values[i].dims()[static_cast<size_t>(slot.axis)]));
  }
  for (size_t i = 0; i < which.size(); ++i) turn.states->values[which[i]] = values[i].detached();
  return {};
}

Result<std::vector<StateRows>> HostSession::change_rows(std::span<const size_t> which,
                                                        RowChange change, int64_t rows) {
  Turn turn;
  RP_TRY(begin(turn));
  return turn.states->change(which, change, rows);
}

Result<std::vector<StateRows>> HostStates::change(std::span<const size_t> which, RowChange change,
                                                  int64_t wanted) {
  const std::vector<plan::StateSlot>& slots = package().io.states;
  for (const size_t s : which) {
    if (!slots[s].grows()) return does_not_grow(slots[s].name);
    RP_TRY(check_change(slots[s].name, known_rows(s), change, wanted));
  }
  std::vector<StateRows> out;
  out.reserve(which.size());
  for (const size_t s : which) {
    if (change == RowChange::Truncate) values[s] = first_rows(values[s], slots[s].axis, wanted);
    if (change == RowChange::Limit) rows[s].limit = wanted;
    out.push_back(known_rows(s));
  }
  return out;
}

Status HostSession::begin(Turn& turn, std::shared_ptr<HostStates> given) {
  turn.lock = std::unique_lock(states_mutex_);
  turn.states = given ? std::move(given) : states_;
  return turn.use.take(*turn.states);
}

Result<std::shared_ptr<HostStates>> HostSession::own_kind(const std::shared_ptr<States>& states) {
  if (!states) return std::shared_ptr<HostStates>();
  RP_TRY(check_states(*states));
  return std::static_pointer_cast<HostStates>(states);
}

Result<std::shared_ptr<States>> HostSession::make_states() {
  const HostMemoryScope memory(host_memory_);
  RP_ASSIGN(auto made, HostStates::create(package_));
  return std::shared_ptr<States>(std::move(made));
}

Status HostSession::bind_states(const std::shared_ptr<States>& states) {
  RP_ASSIGN(std::shared_ptr<HostStates> own, own_kind(states));
  const std::lock_guard lock(states_mutex_);
  states_ = own ? std::move(own) : own_states_;
  return {};
}

Result<std::shared_ptr<HostStates>> HostStates::create(std::shared_ptr<const package::Package> of) {
  auto out = std::make_shared<HostStates>(std::move(of));
  for (const plan::StateSlot& slot : out->package().io.states) {
    out->rows.emplace_back();
    RP_ASSIGN(HostTensor value, initial_state(out->package(), slot));
    out->values.push_back(std::move(value));
  }
  return out;
}

StateRows HostStates::known_rows(size_t state) const {
  const int32_t axis = package().io.states[state].axis;
  StateRows out = rows[state];
  out.dims = values[state].dims();
  if (axis >= 0) out.length = out.capacity = out.dims[static_cast<size_t>(axis)];
  return out;
}

int64_t HostStates::length() const {
  int64_t length = 0;
  for (size_t s = 0; s < values.size(); ++s) length = std::max(length, known_rows(s).length);
  return length;
}

Status HostStates::begin(const plan::Interface& io, std::span<const int64_t> symbols) {
  for (size_t s = 0; s < values.size(); ++s) {
    const plan::StateSlot& slot = io.states[s];
    if (!slot.grows()) continue;
    const StateRows known = known_rows(s);
    RP_ASSIGN(const auto dims, plan::eval_dims(io, slot.shape, symbols, slot.name));
    RP_ASSIGN(const int64_t after, slot.length_after.eval(symbols));
    RP_TRY(check_rows(slot, known, dims, after));
    if (known.length == 0) values[s] = HostTensor(slot.dtype, dims);
  }
  return {};
}

/// Copies of tensors share their bytes, and runs make new ones.
Result<std::shared_ptr<States>> HostStates::fork(int64_t length) {
  Use use;
  RP_TRY(use.take(*this));
  RP_TRY(check_fork(package().io, length, this->length()));
  auto out = std::make_shared<HostStates>(package_);
  out->values = values;
  out->rows = rows;
  for (size_t s = 0; s < values.size() && length >= 0; ++s)
    if (package().io.states[s].grows())
      RP_TRY(out->change(std::span(&s, 1), RowChange::Truncate, length).status());
  return std::shared_ptr<States>(std::move(out));
}

Result<States::Info> HostStates::info() {
  Use use;
  RP_TRY(use.take(*this));
  Info out;
  for (const HostTensor& value : values) out.bytes += value.bytes().size();
  out.length = length();
  return out;
}

/// Computes the symbols that depend on the lengths of states, and checks the states against them.
Status HostSession::bind_lengths(HostStates& states, BoundIo& bound) {
  std::vector<int64_t> lengths(states.values.size());
  for (size_t s = 0; s < lengths.size(); ++s) lengths[s] = states.known_rows(s).length;
  RP_TRY(binder_.bind_lengths(lengths, bound));
  return states.begin(package_->io, bound.symbols);
}

// The outputs of a run, whose states become those that it used.
Result<std::vector<HostTensor>> HostSession::compute(std::shared_ptr<HostStates> given,
                                                     BoundIo& bound, const CancelFlag* cancelled) {
  Turn turn;
  if (!package_->io.states.empty()) RP_TRY(begin(turn, std::move(given)));
  HostStates& states = turn.states ? *turn.states : *own_states_;
  RP_TRY(bind_lengths(states, bound));
  std::vector<HostTensor> inputs;
  inputs.reserve(bound.inputs.size());
  for (size_t i = 0; i < bound.inputs.size(); ++i)
    inputs.push_back(dense_tensor(*bound.inputs[i], package_->io.inputs[i].shape.size()));
  std::vector<const HostTensor*> values;
  values.reserve(bound.inputs.size() + states.values.size());
  for (const HostTensor& input : inputs) values.push_back(&input);
  for (const HostTensor& state : states.values) values.push_back(&state);
  HostRun run = HostRun::create(deadline_in(timeout_ns_), seed_, started_++);
  run.cancelled = cancelled;
  RP_ASSIGN(std::vector<HostTensor> computed, program_->run(values, bound.symbols, bodies_, run));
  // Values may be views of inputs. The caller may free their memory after the run, or bind the same
  // memory to outputs.
  for (HostTensor& value : computed) value = value.detached();
  const size_t outputs = computed.size() - states.values.size();
  for (size_t s = 0; s < states.values.size(); ++s)
    states.values[s] = std::move(computed[outputs + s]);
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

Status HostSession::run_until(std::shared_ptr<HostStates> states, const CancelFlag* cancelled,
                              std::span<const Binding> inputs, std::span<const Binding> outputs,
                              std::vector<HostTensor>& results, RunStats* stats) {
  const auto start = Clock::now();
  const HostMemoryScope memory(host_memory_);
  BoundIo bound;
  RP_TRY(binder_.bind(inputs, outputs, nullptr, bound));
  RP_ASSIGN(std::vector<HostTensor> computed, compute(std::move(states), bound, cancelled));
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

  Status bind_states(const std::shared_ptr<States>& states) override {
    if (submitted_) return {Code::Usage, "the run is in flight; wait for it first"};
    RP_ASSIGN(states_, session_.own_kind(states));
    return {};
  }

  void unbind() override { is_bound_ = false; }
  bool is_bound() const override { return is_bound_; }

  Result<bool> submit(const SubmitOptions& options) override {
    if (submitted_) return Status(Code::Usage, "the run is in flight; wait for it first");
    if (!is_bound_) return Status(Code::Usage, kUnbound);
    if (!options.sync.empty()) return unsupported("the host has no semaphores");
    RP_TRY(session_.run_until(states_, options.cancelled, inputs_, outputs_, results_, &stats_));
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
  std::shared_ptr<HostStates> states_;  // null: those of the session
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
