// The session on a device: the state that runs share, and the pool of run contexts.
#include "runtime/session/session_device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <optional>

#include "runtime/base/timing.h"
#include "runtime/run/shared_arena.h"
#include "runtime/session/state_update.h"

namespace reprise {

DeviceSession::DeviceSession(std::shared_ptr<const package::Package> package,
                             std::shared_ptr<Device> device, size_t variant,
                             std::vector<std::string> notes, const SessionOptions& options)
    : variant_(package->variants[variant]),
      plan_(resources_, variant_, package->io),
      notes_(std::move(notes)),
      binder_(package->io) {
  resources_.package = std::move(package);
  resources_.device = std::move(device);
  resources_.options = options;
  resources_.make_body_calls = make_body_calls;
  resources_.options.max_in_flight = std::max(options.max_in_flight, 1U);
  resources_.options.max_recorded = std::max(options.max_recorded, 1U);
  if (!resources_.package->io.states.empty() || options.arena) resources_.options.max_in_flight = 1;
}

/// Creates the kernels of a plan and, if the options ask for a check, judges them.
Status DeviceSession::load_kernels(SharedPlan& plan, Verdict& verdict) {
  RP_ASSIGN(std::vector<plan::KernelCode> code,
            package::load_kernels(*resources_.package, plan.compiled));
  const bool in_pieces = resources_.options.slice_ns != 0 && resources_.device->cuts_launches();
  for (plan::KernelCode& k : code) k.in_pieces = in_pieces;
  auto kernels = resources_.device->create_kernels(code);
  if (!kernels.ok() && resources_.options.check_kernels) {
    verdict = {false, "the driver refuses it: " + kernels.status().message()};
    return {};
  }
  RP_ASSIGN(plan.kernels, std::move(kernels));
  if (!resources_.options.check_kernels) return {};
  RP_ASSIGN(verdict, judge(*resources_.device, plan.compiled, code, plan.kernels,
                           {resources_.options.cache_dir, resources_.options.log}));
  return {};
}

Status DeviceSession::index_plans() {
  for (const package::DeviceBody& body : variant_.bodies) {
    auto plan = std::make_unique<SharedPlan>(resources_, body, body.io);
    plan->body = &body;
    resources_.bodies.push_back(std::move(plan));
  }
  for (const package::SizedPlan& p : variant_.plans) {
    auto plan = std::make_unique<SharedPlan>(resources_, p, resources_.package->io);
    plan->sized = &p;
    sized_.push_back(std::move(plan));
    sized_.back()->number = static_cast<uint32_t>(sized_.size());
  }
  for (SharedPlan* plan : all_plans()) RP_TRY(plan->index());
  return {};
}

std::vector<SharedPlan*> DeviceSession::all_plans() {
  std::vector<SharedPlan*> out;
  for (const auto& plan : resources_.bodies) out.push_back(plan.get());
  out.push_back(&plan_);
  for (const auto& plan : sized_) out.push_back(plan.get());
  return out;
}

Status DeviceSession::load_plan(SharedPlan& plan, Verdict& verdict) {
  if (plan.loaded) return {};
  const std::lock_guard lock(load_mutex_);
  if (plan.loaded) return {};
  RP_TRY(load_kernels(plan, verdict));
  if (!verdict.right) return {};
  std::vector<KnownWeights> known;
  for (const SharedPlan* other : all_plans())
    if (other->loaded) known.push_back({*other->plan, other->weights});
  RP_TRY(plan.load_weights(known));
  plan.loaded = true;
  return {};
}

// Inputs have their dims before symbols have values: the lengths of states are known only when it
// is the run's turn.
SharedPlan& DeviceSession::plan_for(const BoundIo& bound) {
  const auto holds = [&](const package::SymbolValues& s) {
    const SymbolSource& source = plan_.io().sources[static_cast<size_t>(s.symbol)];
    const auto dims = bound.dims(static_cast<size_t>(source.index));
    const auto axis = static_cast<size_t>(source.axis);
    return axis < dims.size() && dims[axis] >= s.min && dims[axis] <= s.max;
  };
  for (const auto& plan : sized_)
    if (!plan->refused && std::ranges::all_of(plan->sized->sizes, holds) && !refuses(*plan))
      return *plan;
  return plan_;
}

/// Whether a plan for some sizes cannot be loaded, so that another has to serve them. A lack of
/// memory or a lost device is the run's error.
bool DeviceSession::refuses(SharedPlan& plan) {
  Verdict verdict;
  const Status loaded = load_plan(plan, verdict);
  if (loaded.ok() || loaded.code() == Code::OutOfMemory || loaded.code() == Code::DeviceLost)
    return false;
  if (!plan.refused.exchange(true))
    log_plan(Severity::Warning, plan, "does not use", loaded.message());
  return true;
}

void DeviceSession::log_plan(Severity severity, const SharedPlan& plan, const char* does,
                             const std::string& why) const {
  if (!resources_.options.log || sized_.empty()) return;
  std::string sizes = "all other sizes";
  if (plan.sized) sizes = package::describe_sizes(plan.sized->sizes, plan.io().symbols);
  resources_.options.log(severity, resources_.device->info().id + ": '" +
                                       resources_.package->model_name + "': " + does +
                                       " the plan for " + sizes + (why.empty() ? "" : ", " + why));
}

/// A context of a plan, which is loaded if no run has used it before.
Result<std::unique_ptr<RunContext>> DeviceSession::make_context(SharedPlan& plan) {
  Verdict verdict;
  RP_TRY(load_plan(plan, verdict));
  log_plan(Severity::Info, plan, "prepares", plan.sized ? plan.sized->why : "");
  return RunContext::create(plan);
}

Status DeviceSession::load(Verdict& verdict) {
  const auto start = Clock::now();
  const DeviceFacts& facts = resources_.device->info().facts;
  resources_.limits.max_buffer_bytes = facts.max_buffer_bytes;
  std::copy(std::begin(facts.max_grid), std::end(facts.max_grid),
            resources_.limits.max_grid.begin());
  resources_.limits.max_loop_iterations = facts.driver.max_loop_iterations;
  RP_TRY(index_plans());
  RP_ASSIGN(resources_.host_bodies, HostBodies::load(*resources_.package));
  RP_TRY(binder_.load_defaults(*resources_.package));
  const SessionOptions& options = resources_.options;
  for (SharedPlan* plan : all_plans()) {
    if (plan->sized && !options.warm_up && !options.check_kernels) continue;
    RP_TRY(load_plan(*plan, verdict));
    if (!verdict.right) return {};
  }
  RP_ASSIGN(resources_.own_states,
            StateMemory::create(*resources_.package, variant_, *resources_.device,
                                options.isolate_tensors));
  resources_.count_states();
  for (SharedPlan* plan : all_plans()) {
    if (plan->loaded && !plan->body && (!plan->sized || options.warm_up)) {
      RP_ASSIGN(auto context, make_context(*plan));
      free_.push_back(std::move(context));
    }
    if (options.warm_up) RP_TRY(plan->warm_up().with_context("warm-up"));
  }
  resources_.device->idle_memory().add(*this);
  load_ms_ = ms_since(start);
  return {};
}

/// A context in use. The destructor returns it to the session if complete() was called, and
/// destroys it otherwise: an exception may have left its recording in flight, for which the
/// context's destructor waits, and a context that ran out of memory must free what it holds.
class DeviceSession::Lease {
 public:
  /// The session must have counted the context as in use.
  Lease(DeviceSession& session, User user) : session_(session), user_(user) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    drop();
    session_.release(std::move(context), arena, user_);
  }
  void complete() { complete_ = true; }
  /// Waits for a device that may still run.
  void drop() {
    if (!complete_) context.reset();
  }
  /// Whether the device may still run.
  bool is_late() const {
    return context && context->executor().availability() == Availability::Late;
  }
  /// Gives up the shared arena. Returns false if the device may still use it.
  bool leaves_arena() const {
    if (!complete_ || !context || context->executor().availability() != Availability::Free)
      return false;
    context->memory().leave_arena();
    return true;
  }
  std::unique_ptr<RunContext> context;
  SharedArena* arena = nullptr;  // of the session

 private:
  DeviceSession& session_;
  const User user_;
  bool complete_ = false;
};

/// The use of a shared arena, which may be null, by one run.
class DeviceSession::ArenaTurn {
 public:
  ArenaTurn(SharedArena* arena, User user) : arena_(arena), user_(user) {}
  ArenaTurn(const ArenaTurn&) = delete;
  ArenaTurn& operator=(const ArenaTurn&) = delete;
  ~ArenaTurn() {
    if (taken_) arena_->release(keeps);
  }
  Status take() {
    if (!arena_) return {};
    RP_TRY(user_ == User::RunObject ? arena_->try_acquire() : arena_->acquire());
    taken_ = true;
    return {};
  }
  bool keeps = false;  // the device may still use the memory

 private:
  SharedArena* const arena_;
  const User user_;
  bool taken_ = false;
};

/// A caller that waits for a context. Callers are served in the order of their arrival.
struct DeviceSession::Waiter {
  std::condition_variable turn;
  Waiter* next = nullptr;
};

bool DeviceSession::has_room() const {
  return in_use_ + late_.size() < resources_.options.max_in_flight;
}

void DeviceSession::poll_late() {
  for (size_t i = 0; i < late_.size();) {
    const auto state = late_[i]->executor().poll();
    if (state == Availability::Late) {
      ++i;
      continue;
    }
    if (state == Availability::Free) {
      late_[i]->memory().leave_arena();
      free_.push_back(std::move(late_[i]));
    } else {
      late_[i]->memory().give_states_back();
      dead_.push_back(std::move(late_[i]));
    }
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Nothing signals the end of a late run, so the first waiter polls the device.
void DeviceSession::wait_for_room(std::unique_lock<std::mutex>& lock) {
  constexpr auto kPoll = std::chrono::milliseconds(1);
  Waiter me;
  (last_waiter_ ? last_waiter_->next : first_waiter_) = &me;
  last_waiter_ = &me;
  while (first_waiter_ != &me || !has_room()) {
    if (first_waiter_ == &me && !late_.empty()) {
      me.turn.wait_for(lock, kPoll);
      poll_late();
    } else {
      me.turn.wait(lock);
    }
  }
  first_waiter_ = me.next;
  if (!first_waiter_) last_waiter_ = nullptr;
}

// Returns a free context of the plan, preferably one that last ran with these sizes, or null if
// there is room for a new one. Without a plan, only takes the turn.
Result<std::unique_ptr<RunContext>> DeviceSession::acquire(const SharedPlan* plan,
                                                           const std::vector<int64_t>& symbols) {
  std::unique_ptr<RunContext> replaced;  // destroyed without the lock
  std::unique_lock lock(mutex_);
  if (!late_.empty()) poll_late();
  if (!has_room() && held_ >= resources_.options.max_in_flight) return full();
  if (first_waiter_ || !has_room()) wait_for_room(lock);
  if (first_waiter_) first_waiter_->turn.notify_one();  // there may be room for it as well
  return take_free(plan, symbols, replaced);
}

Status DeviceSession::full() const {
  if (!resources_.package->io.states.empty()) {
    return {Code::Busy,
            "a run of this session is in flight, and runs of a session with states take turns; "
            "wait for it"};
  }
  if (resources_.options.arena) {
    return {Code::Busy,
            "a run of this session is in flight, and runs of a session with an arena take turns; "
            "wait for it"};
  }
  const uint32_t most = resources_.options.max_in_flight;
  return {Code::Busy,
          (most == 1 ? "a run of this session is in flight"
                     : std::to_string(most) + " runs of this session are in flight") +
              std::string(", which is its limit; wait for one of them, or create the session with "
                          "a larger one")};
}

// For a run object: as acquire(), but fails instead of waiting.
Result<std::unique_ptr<RunContext>> DeviceSession::try_acquire(
    const SharedPlan* plan, const std::vector<int64_t>& symbols) {
  std::unique_ptr<RunContext> replaced;
  const std::lock_guard lock(mutex_);
  if (!late_.empty()) poll_late();
  if (first_waiter_ || !has_room()) return full();
  auto context = take_free(plan, symbols, replaced);
  ++held_;
  return context;
}

// The caller must hold the lock, and there must be room.
std::unique_ptr<RunContext> DeviceSession::take_free(const SharedPlan* plan,
                                                     const std::vector<int64_t>& symbols,
                                                     std::unique_ptr<RunContext>& replaced) {
  // Reserve memory now, so that returning the context cannot fail.
  const size_t all = free_.size() + late_.size() + in_use_ + 1;
  for (auto* list : {&free_, &late_}) list->reserve(all);
  dead_.reserve(dead_.size() + all);
  ++in_use_;
  if (!plan) return nullptr;
  auto it = free_.end();
  for (auto c = free_.begin(); c != free_.end(); ++c) {
    if (&(*c)->shared() != plan) continue;
    it = c;
    if ((*c)->memory().symbols() == symbols) break;
  }
  auto context = it == free_.end() ? nullptr : std::move(*it);
  const size_t most = size_t{resources_.options.max_in_flight} * resources_.options.max_recorded;
  if (!context && free_.size() >= most) it = free_.begin();
  if (it == free_.end()) return context;
  if (!context) replaced = std::move(*it);
  free_.erase(it);
  return context;
}

/// The arena that a run of a session with several plans takes; null if there is only one, or if the
/// application has given one.
SharedArena* DeviceSession::take_arena() {
  if (sized_.empty() || resources_.options.arena || resources_.options.isolate_tensors)
    return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_arenas_.empty()) {
      SharedArena* const arena = free_arenas_.back();
      free_arenas_.pop_back();
      return arena;
    }
  }
  auto made = std::make_unique<SharedArena>(resources_.device);  // locks what may call free_idle()
  const std::lock_guard lock(mutex_);
  free_arenas_.reserve(arenas_.size() + 1);
  arenas_.push_back(std::move(made));
  return arenas_.back().get();
}

void DeviceSession::release(std::unique_ptr<RunContext> context, SharedArena* arena,
                            User user) noexcept {
  const std::lock_guard lock(mutex_);
  --in_use_;
  if (arena) free_arenas_.push_back(arena);
  if (user == User::RunObject) --held_;
  if (user != User::States) ++runs_;
  if (context) {
    const auto state = context->executor().availability();
    auto& list = state == Availability::Late ? late_ : state == Availability::Dead ? dead_ : free_;
    list.push_back(std::move(context));
  }
  // Notify with the lock held, because the waiter may be destroyed as soon as it can proceed.
  if (first_waiter_) first_waiter_->turn.notify_one();
}

// Destroys contexts without holding the lock, because that calls the driver. The list keeps its
// capacity (see acquire).
bool DeviceSession::free_idle() {
  for (bool any = false;; any = true) {
    std::unique_ptr<RunContext> idle;
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return any;
    idle = std::move(free_.back());
    free_.pop_back();
  }
}

/// The use of states by one run or call whose turn it is.
class DeviceSession::StatesTurn {
 public:
  explicit StatesTurn(DeviceSession& session) : session_(session) {}
  StatesTurn(const StatesTurn&) = delete;
  StatesTurn& operator=(const StatesTurn&) = delete;
  ~StatesTurn() {
    if (states_) session_.resources_.states = &session_.resources_.own_states;
  }
  /// `given`: null for those that are bound to the session.
  Status take(std::shared_ptr<DeviceStates> given = nullptr) {
    states_ = given ? std::move(given) : session_.bound_states_;
    if (!states_) return {};
    RP_TRY(use_.take(*states_));
    session_.resources_.states = &states_->memory();
    return {};
  }
  const std::shared_ptr<DeviceStates>& states() const { return states_; }
  InUse hand_over() { return use_.hand_over(); }

 private:
  DeviceSession& session_;
  std::shared_ptr<DeviceStates> states_;
  States::Use use_;  // ends before the states may
};

/// A run from its first submission to its end, however it ends. The session must have counted a
/// context as in use.
class DeviceSession::Submission {
 public:
  Submission(DeviceSession& session, SharedPlan& plan, User user)
      : session_(session),
        plan_(plan),
        turn_(session.resources_.options.arena.get(), user),
        lease_(session, user),
        used_(session) {}
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;
  ~Submission() {
    session_.resources_.device->end_watcher().finish(watch_);
    turn_.keeps = !lease_.leaves_arena();
    if (lease_.arena) lease_.arena->release(turn_.keeps);
    states_.reset();
    lease_.drop();  // the device still uses the states
    if (lease_.is_late()) lease_.context->memory().keep_states(used_.hand_over());
  }

  /// Instead of the session's.
  void use_states(std::shared_ptr<DeviceStates> states) { given_ = std::move(states); }
  Status begin(std::unique_ptr<RunContext> context, BoundIo& bound, Clock::time_point start,
               const SubmitOptions& options) {
    RP_TRY(take(std::move(context), bound));
    return ended_with(lease_.context->begin(bound, start, options));
  }
  /// Calls `at_end` when the device has ended what begin() submitted.
  void watch(const EndCall& at_end) {
    Device& device = *session_.resources_.device;
    if (Recording* const submitted = lease_.context->first_submission())
      device.end_watcher().add(watch_, *submitted, at_end, device.ends_in_order());
  }
  /// Whether begin() failed for lack of memory before it submitted anything.
  bool lacks_memory(const Status& begun) const {
    return begun.code() == Code::OutOfMemory &&
           (!lease_.context ||
            (lease_.context->memory().starved() && !lease_.context->executor().submitted()));
  }
  Status begin_in(void* command_buffer, std::unique_ptr<RunContext> context, BoundIo& bound) {
    RP_TRY(take(std::move(context), bound));
    return ended_with(lease_.context->begin_in(command_buffer, bound, Clock::now()));
  }
  Result<bool> poll() {
    Result<bool> ended = lease_.context->poll_first();
    if (!ended.ok()) return ended_with(ended.status());
    return ended;
  }
  Status end(std::vector<HostTensor>& results, RunStats* stats) {
    // What follows may replace the recording that is watched.
    session_.resources_.device->end_watcher().finish(watch_);
    const Status done = lease_.context->end(results, stats);
    states_->done = done.ok();
    if (done.ok()) lease_.complete();
    return ended_with(done);
  }

 private:
  Status take(std::unique_ptr<RunContext> context, BoundIo& bound) {
    lease_.context = std::move(context);
    if (Status waited = turn_.take(); !waited.ok()) {
      if (lease_.context) lease_.complete();
      return waited;
    }
    lease_.arena = session_.take_arena();
    if (lease_.arena) RP_TRY(lease_.arena->try_acquire());  // no other run has it
    if (!lease_.context) {
      RP_ASSIGN(lease_.context, session_.make_context(plan_));
    }
    const SessionOptions& options = session_.resources_.options;
    if (!options.isolate_tensors)
      lease_.context->memory().use_arena(lease_.arena ? lease_.arena : options.arena.get());
    Status ready = used_.take(std::move(given_));
    StateMemory& states = *session_.resources_.states;
    lease_.context->memory().use_states(used_.states());
    if (ready.ok()) ready = states.check();
    if (ready.ok()) ready = session_.binder_.bind_lengths(states.lengths(), bound);
    if (!ready.ok()) {
      lease_.complete();
      return ready;
    }
    states_.emplace(plan_, lease_.context->executor());
    return {};
  }
  Status ended_with(const Status& failure) {
    if (!failure.ok() && !lease_.context->memory().starved()) lease_.complete();
    return failure;
  }
  DeviceSession& session_;
  SharedPlan& plan_;
  ArenaTurn turn_;  // ends after the lease, which may wait for the device
  Lease lease_;
  std::shared_ptr<DeviceStates> given_;
  StatesTurn used_;
  std::optional<StateUpdate> states_;
  EndWatcher::Watch watch_;
};

Status DeviceSession::run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                               std::vector<HostTensor>& results, RunStats* stats) {
  const auto start = Clock::now();
  const HostMemoryScope on_host(resources_.options.host_memory);
  const auto bound = bound_.take();
  RP_TRY(binder_.bind(inputs, outputs, resources_.device.get(), *bound));
  SharedPlan& plan = plan_for(*bound);
  MemoryQueue::Use memory(resources_.device->memory_queue());
  while (true) {
    memory.begin();  // before it takes a context, for which those in line may wait
    RP_ASSIGN(auto free_context, acquire(&plan, bound->symbols));
    std::optional<Submission> submission(std::in_place, *this, plan, User::Call);
    Status begun = submission->begin(std::move(free_context), *bound, start, {});
    if (begun.ok()) {
      memory.has_enough();
      return submission->end(results, stats);
    }
    const bool lacks_memory = submission->lacks_memory(begun);
    submission.reset();  // frees what it has
    memory.end();
    if (!lacks_memory || !memory.wait()) return begun;
  }
}

/// A run that the caller submits and waits for.
class DeviceSession::Run final : public AsyncRun {
 public:
  explicit Run(DeviceSession& session) : session_(session) {}

  Status bind(std::span<const Binding> inputs, std::span<const Binding> outputs) override {
    if (submission_) return {Code::Usage, "the run is in flight; wait for it first"};
    is_bound_ = false;
    RP_TRY(session_.binder_.bind(inputs, outputs, session_.resources_.device.get(), bound_));
    plan_ = &session_.plan_for(bound_);
    is_bound_ = true;
    return {};
  }

  Status bind_states(const std::shared_ptr<States>& states) override {
    if (submission_) return {Code::Usage, "the run is in flight; wait for it first"};
    RP_ASSIGN(states_, session_.own_kind(states));
    return {};
  }

  void unbind() override { is_bound_ = false; }
  bool is_bound() const override { return is_bound_; }

  Result<bool> submit(const SubmitOptions& options) override {
    const auto start = Clock::now();
    const HostMemoryScope on_host(session_.resources_.options.host_memory);
    RP_TRY(check(!options.sync.signals.empty(), "signals"));
    const bool sliced = session_.resources_.options.slice_ns != 0;
    if (sliced && (options.at_end || !options.sync.signals.empty()))
      return unsupported("a run in slices cannot signal or call at its end; poll it");
    if (options.at_end) RP_TRY(session_.resources_.device->end_watcher().start());
    if (!options.sync.waits.empty() && !plan_->begins_with_a_submission())
      return unsupported(
          "a run that waits must begin with a launch; this one has a host kernel first");
    RP_ASSIGN(auto context, session_.try_acquire(plan_, bound_.symbols));
    Ending unless_begun(*this);
    submission_.emplace(session_, *plan_, User::RunObject);
    submission_->use_states(states_);
    RP_TRY(submission_->begin(std::move(context), bound_, start, options));
    unless_begun.cancel();
    if (options.at_end) submission_->watch(options.at_end);  // last, as the call may end the run
    return plan_->begins_with_a_submission();
  }

  Status record(void* command_buffer) override {
    if (!command_buffer) return {Code::Usage, "the command buffer is null"};
    RP_TRY(check(true, "is recorded"));
    RP_ASSIGN(auto context, session_.try_acquire(plan_, bound_.symbols));
    Ending unless_begun(*this);
    submission_.emplace(session_, *plan_, User::RunObject);
    submission_->use_states(states_);
    RP_TRY(submission_->begin_in(command_buffer, std::move(context), bound_));
    unless_begun.cancel();
    return {};
  }

  bool in_flight() const override { return submission_.has_value(); }

  Result<bool> ended() override {
    if (!submission_) return true;
    Result<bool> ended = submission_->poll();
    if (!ended.ok()) submission_.reset();
    return ended;
  }

  Status wait(std::vector<HostTensor>& results, RunStats* stats) override {
    if (!submission_) return {Code::Usage, "the run was not submitted, or has ended already"};
    const HostMemoryScope on_host(session_.resources_.options.host_memory);
    const Ending ending(*this);
    return submission_->end(results, stats);
  }

 private:
  /// Ends the submission, also if an exception does.
  class Ending {
   public:
    explicit Ending(Run& run) : run_(run) {}
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    ~Ending() {
      if (!cancelled_) run_.submission_.reset();
    }
    void cancel() { cancelled_ = true; }

   private:
    Run& run_;
    bool cancelled_ = false;
  };
  /// Whether the run can begin. `alone`: it must be one submission, because it `does` something.
  Status check(bool alone, const char* does) const {
    if (submission_) return {Code::Usage, "the run is in flight; wait for it first"};
    if (!is_bound_) return {Code::Usage, kUnbound};
    if (!alone || plan_->is_one_submission()) return {};
    return unsupported(std::string("a run that ") + does +
                       " must be one submission, without host kernels, and without values or next "
                       "states that pass "
                       "through the host");
  }

  DeviceSession& session_;
  BoundIo bound_;
  SharedPlan* plan_ = nullptr;  // for the sizes that are bound
  bool is_bound_ = false;
  std::shared_ptr<DeviceStates> states_;  // null: those of the session
  std::optional<Submission> submission_;
};

Result<std::unique_ptr<AsyncRun>> DeviceSession::make_run() {
  return Result<std::unique_ptr<AsyncRun>>(std::make_unique<Run>(*this));
}

// A session with states has one context at most, so that nothing else uses the states while this
// call has it.
Result<std::vector<HostTensor>> DeviceSession::read_states(std::span<const size_t> which) {
  RP_TRY(acquire(nullptr, {}).status());
  Lease lease(*this, User::States);
  lease.complete();
  StatesTurn states(*this);
  RP_TRY(states.take());
  const HostMemoryScope on_host(resources_.options.host_memory);
  return resources_.states->read(which);
}

Status DeviceSession::write_states(std::span<const size_t> which,
                                   std::span<const HostTensor> values) {
  RP_TRY(acquire(nullptr, {}).status());
  Lease lease(*this, User::States);
  lease.complete();
  StatesTurn states(*this);
  RP_TRY(states.take());
  Status written = resources_.states->write(which, values);
  resources_.count_states();
  return written;
}

Result<std::vector<StateRows>> DeviceSession::change_rows(std::span<const size_t> which,
                                                          RowChange change, int64_t rows) {
  RP_TRY(acquire(nullptr, {}).status());
  Lease lease(*this, User::States);
  lease.complete();
  StatesTurn states(*this);
  RP_TRY(states.take());
  auto changed = resources_.states->change(which, change, rows);
  resources_.count_states();
  return changed;
}

Result<std::shared_ptr<States>> DeviceStates::fork(int64_t length) {
  Use use;
  RP_TRY(use.take(*this));
  RP_ASSIGN(StateMemory forked, memory_.fork(length));
  return std::shared_ptr<States>(
      std::make_shared<DeviceStates>(package_, device_, std::move(forked)));
}

Result<States::Info> DeviceStates::info() {
  Use use;
  RP_TRY(use.take(*this));
  return Info{memory_.bytes(), memory_.shared_bytes(), memory_.length()};
}

Result<std::shared_ptr<States>> DeviceSession::make_states() {
  RP_ASSIGN(StateMemory made, StateMemory::create(*resources_.package, variant_, *resources_.device,
                                                  resources_.options.isolate_tensors));
  return std::shared_ptr<States>(
      std::make_shared<DeviceStates>(resources_.package, resources_.device, std::move(made)));
}

Result<std::shared_ptr<DeviceStates>> DeviceSession::own_kind(
    const std::shared_ptr<States>& states) {
  if (!states) return std::shared_ptr<DeviceStates>();
  RP_TRY(check_states(*states));
  auto own = std::static_pointer_cast<DeviceStates>(states);
  States::Use use;
  RP_TRY(use.take(*own));
  RP_TRY(own->memory().accept_uses_of(resources_.own_states));
  return own;
}

Status DeviceSession::bind_states(const std::shared_ptr<States>& states) {
  if (!states && io().states.empty()) return {};
  RP_ASSIGN(std::shared_ptr<DeviceStates> own, own_kind(states));
  RP_TRY(acquire(nullptr, {}).status());
  Lease lease(*this, User::States);
  lease.complete();
  bound_states_ = std::move(own);
  return {};
}

SessionStats DeviceSession::stats() const {
  const std::lock_guard lock(mutex_);
  SessionStats s;
  s.runs = runs_;
  s.recordings = resources_.totals.recordings;
  s.submits = resources_.totals.submits;
  s.dispatches = resources_.totals.dispatches;
  s.barriers = resources_.totals.barriers;
  s.copies = resources_.totals.copies;
  s.device_bytes = resources_.totals.device_bytes;
  for (const auto& arena : arenas_) s.device_bytes += arena->bytes();
  s.load_ms = load_ms_;
  return s;
}

Result<std::unique_ptr<Session>> create_device_session(
    std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device, size_t variant,
    std::vector<std::string> notes, const SessionOptions& options, Verdict& verdict) {
  auto session = std::make_unique<DeviceSession>(std::move(package), std::move(device), variant,
                                                 std::move(notes), options);
  RP_TRY(session->load(verdict));
  if (!verdict.right) return std::unique_ptr<Session>();
  return Result<std::unique_ptr<Session>>(std::move(session));
}

}  // namespace reprise
