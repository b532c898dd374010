// The session on a device: the state that runs share, and the pool of run contexts.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "runtime/base/pool.h"
#include "runtime/base/timing.h"
#include "runtime/run_context.h"
#include "runtime/session_impl.h"

namespace reprise {
namespace {

class DeviceSession final : public Session, private IdleMemory::Holder {
 public:
  DeviceSession(std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device,
                size_t variant, std::vector<std::string> notes, const SessionOptions& options);

  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;
  ~DeviceSession() override { shared_.device->idle_memory().remove(*this); }

  /// If the verdict is that a kernel is wrong, the session must not be used.
  Status load(Verdict& verdict);
  Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::vector<HostTensor>& results, RunStats* stats) override;
  const plan::Interface& io() const override { return shared_.package->io; }
  const std::string& variant() const override { return variant_.name; }
  const std::vector<std::string>& variant_notes() const override { return notes_; }
  const plan::Plan& plan() const override { return variant_.plan; }
  SessionStats stats() const override;
  Device* device() override { return shared_.device.get(); }

 private:
  Status index_buffers();
  Status check_buffers() const;
  Status fix_grids();
  Status warm_up();
  class Lease;
  struct Waiter;
  bool has_room() const;
  void poll_late();
  void wait_for_room(std::unique_lock<std::mutex>& lock);
  std::unique_ptr<RunContext> acquire(const std::vector<int64_t>& symbols);
  void release(std::unique_ptr<RunContext> context) noexcept;
  bool free_idle() override;

  SessionShared shared_;  // outlives the contexts below
  const package::Variant& variant_;
  std::vector<std::string> notes_;
  IoBinder binder_;
  Pool<BoundIo> bound_;
  mutable std::mutex mutex_;
  Waiter *first_waiter_ = nullptr, *last_waiter_ = nullptr;
  // Late contexts count as in flight. The device may still use the memory of late and dead
  // contexts.
  std::vector<std::unique_ptr<RunContext>> free_, late_, dead_;
  unsigned in_use_ = 0;
  uint64_t runs_ = 0;
  double load_ms_ = 0;
};

DeviceSession::DeviceSession(std::shared_ptr<const package::Package> package,
                             std::shared_ptr<Device> device, size_t variant,
                             std::vector<std::string> notes, const SessionOptions& options)
    : variant_(package->variants[variant]), notes_(std::move(notes)), binder_(package->io) {
  shared_.package = std::move(package);
  shared_.device = std::move(device);
  shared_.plan = &variant_.plan;
  shared_.options = options;
  shared_.options.max_in_flight = std::max(options.max_in_flight, 1U);
}

Status DeviceSession::index_buffers() {
  const plan::Plan& plan = variant_.plan;
  shared_.uses.assign(plan.buffers.size(), {});
  for (size_t s = 0; s < shared_.segments.size(); ++s) {
    const plan::Segment& segment = shared_.segments[s];
    shared_.keeps_host_values = shared_.keeps_host_values || !segment.host_calls.empty();
    for (const auto& level : segment.levels) {
      for (const uint32_t step : level) {
        const auto& launch = std::get<plan::Launch>(plan.steps[step].what);
        for (size_t i = 0; i < launch.buffers.size(); ++i) {
          SessionShared::BufferUse& use = shared_.uses[launch.buffers[i]];
          use.on_device = true;
          if (launch.writes[i]) use.last_segment = static_cast<int32_t>(s);
        }
      }
    }
  }
  const std::vector<bool> known = known_from_inputs(io().sources);
  std::vector<int64_t> from_inputs(known.size(), plan::kUnbound);
  for (size_t s = 0; s < known.size(); ++s)
    if (known[s]) from_inputs[s] = 1;
  shared_.of_input.resize(io().inputs.size());
  shared_.of_output.resize(io().outputs.size());
  for (const plan::BufferId id : plan.buffers.ids()) {
    const plan::Buffer& buffer = plan.buffers[id];
    shared_.uses[id].late = !plan::is_bound(buffer.shape, from_inputs);
    if (buffer.kind == plan::BufferKind::Arena && shared_.uses[id].on_device)
      shared_.fixed_placement = shared_.fixed_placement && is_static(buffer.shape);
    if (buffer.kind == plan::BufferKind::Input)
      shared_.of_input[static_cast<size_t>(buffer.index)].push_back(id);
    if (buffer.kind == plan::BufferKind::Output)
      shared_.of_output[static_cast<size_t>(buffer.index)].buffer = id;
  }
  for (const auto& alias : plan.aliases) {
    const plan::Buffer& to = plan.buffers[alias.output];
    shared_.of_output[static_cast<size_t>(to.index)].alias_of = alias.from;
    shared_.keeps_host_values = true;
  }
  return check_buffers();
}

Status DeviceSession::check_buffers() const {
  const plan::Plan& plan = variant_.plan;
  for (size_t o = 0; o < shared_.of_output.size(); ++o) {
    if (shared_.of_output[o].buffer.is_none())
      return invalid_model("no buffer of the plan is output '" + io().outputs[o].name + "'");
  }
  for (const plan::BufferId b : plan.buffers.ids()) {
    if (!shared_.uses[b].on_device) continue;
    if (plan.buffers[b].dtype == DType::String)
      return invalid_model("tensor '" + plan.buffers[b].name + "': kernels cannot use strings");
    // Kernels rely on weights having the sizes that the plan states.
    if (plan.buffers[b].kind == plan::BufferKind::Weight)
      RP_TRY(raw_weight(*shared_.package, plan, plan.buffers[b]).status());
  }
  return {};
}

Status DeviceSession::fix_grids() {
  shared_.fixed_grids.resize(variant_.plan.steps.size());
  for (size_t s = 0; s < variant_.plan.steps.size(); ++s) {
    const auto* launch = std::get_if<plan::Launch>(&variant_.plan.steps[s].what);
    if (!launch || shared_.table.indirect[s] != plan::kNone) continue;
    RP_ASSIGN(shared_.fixed_grids[s],
              plan::eval_grid(*launch, plan::describe_launch(variant_.plan, *launch), {},
                              shared_.limits));
  }
  return {};
}

/// Launches every kernel with an empty grid, in the order of first use.
Status DeviceSession::warm_up() {
  if (shared_.kernels.empty()) return {};
  uint64_t block_bytes = 16;  // no invocation reads the block
  for (const plan::KernelCode& k : variant_.plan.kernels)
    block_bytes =
        std::max<uint64_t>(block_bytes, plan::BlockLayout::size(k.n_buffers, k.n_scalars));
  RP_ASSIGN(const auto block, shared_.device->allocate(block_bytes, MemoryUse::Upload));
  RecordingDesc desc;
  desc.blocks = block.get();
  desc.once = true;
  for (const auto& kernel : shared_.kernels) {
    Command c;
    c.kernel = kernel.get();
    desc.commands.push_back(c);
  }
  RP_ASSIGN(const auto recording, shared_.device->record(std::move(desc)));
  RP_TRY(recording->submit());
  return recording->wait(shared_.timeout_ns());
}

Status DeviceSession::load(Verdict& verdict) {
  const auto start = Clock::now();
  const DeviceFacts& facts = shared_.device->info().facts;
  shared_.limits.max_buffer_bytes = facts.max_buffer_bytes;
  std::copy(std::begin(facts.max_grid), std::end(facts.max_grid), shared_.limits.max_grid.begin());
  shared_.limits.max_loop_iterations = facts.driver.max_loop_iterations;
  shared_.table = plan::layout_blocks(variant_.plan);
  shared_.segments = plan::cut_segments(variant_.plan);
  while (shared_.first_recorded < shared_.segments.size() &&
         shared_.segments[shared_.first_recorded].levels.empty())
    ++shared_.first_recorded;
  RP_TRY(index_buffers());
  RP_TRY(fix_grids());
  RP_ASSIGN(const std::vector<plan::KernelCode> code,
            package::load_kernels(*shared_.package, variant_));
  auto kernels = shared_.device->create_kernels(code);
  if (!kernels.ok() && shared_.options.check_kernels) {
    verdict = {false, "the driver refuses it: " + kernels.status().message()};
    return {};
  }
  RP_ASSIGN(shared_.kernels, std::move(kernels));
  if (shared_.options.check_kernels) {
    RP_ASSIGN(verdict, judge(*shared_.device, variant_, code, shared_.kernels,
                             {shared_.options.cache_dir, shared_.options.log}));
    if (!verdict.right) return {};
  }
  RP_ASSIGN(shared_.bodies, HostBodies::load(*shared_.package));
  shared_.prepared = PreparedCalls::create(variant_.plan, [this](plan::BufferId b) {
    return raw_weight(*shared_.package, variant_.plan, variant_.plan.buffers[b]);
  });
  RP_ASSIGN(shared_.weights, upload_weights(*shared_.package, variant_.plan, *shared_.device));
  shared_.device_bytes += shared_.weights.bytes;
  RP_ASSIGN(auto first, RunContext::create(shared_));
  free_.push_back(std::move(first));
  if (shared_.options.warm_up) RP_TRY(warm_up().with_context("warm-up"));
  shared_.device->idle_memory().add(*this);
  load_ms_ = ms_since(start);
  return {};
}

/// A context in use. The destructor returns it to the session if complete() was called, and
/// destroys it otherwise: an exception may have left its recording in flight, for which the
/// context's destructor waits, and a context that ran out of memory must free what it holds.
class DeviceSession::Lease {
 public:
  /// The session must have counted the context as in use.
  explicit Lease(DeviceSession& session) : session_(session) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (!complete_) context.reset();
    session_.release(std::move(context));
  }
  void complete() { complete_ = true; }
  std::unique_ptr<RunContext> context;

 private:
  DeviceSession& session_;
  bool complete_ = false;
};

/// A caller that waits for a context. Callers are served in the order of their arrival.
struct DeviceSession::Waiter {
  std::condition_variable turn;
  Waiter* next = nullptr;
};

bool DeviceSession::has_room() const {
  return !free_.empty() || in_use_ + late_.size() < shared_.options.max_in_flight;
}

void DeviceSession::poll_late() {
  for (size_t i = 0; i < late_.size();) {
    const auto state = late_[i]->poll();
    if (state == RunContext::State::Late) {
      ++i;
      continue;
    }
    (state == RunContext::State::Free ? free_ : dead_).push_back(std::move(late_[i]));
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

// Returns a free context, preferably one that last ran with these sizes, or null if there is room
// for a new one.
std::unique_ptr<RunContext> DeviceSession::acquire(const std::vector<int64_t>& symbols) {
  std::unique_lock lock(mutex_);
  if (!late_.empty()) poll_late();
  if (first_waiter_ || !has_room()) wait_for_room(lock);
  if (first_waiter_) first_waiter_->turn.notify_one();  // there may be room for it as well
  // Reserve memory now, so that returning the context cannot fail.
  const size_t all = free_.size() + late_.size() + in_use_ + 1;
  for (auto* list : {&free_, &late_}) list->reserve(all);
  dead_.reserve(dead_.size() + all);
  ++in_use_;
  if (free_.empty()) return nullptr;
  auto it = std::find_if(free_.begin(), free_.end(),
                         [&](const auto& c) { return c->symbols() == symbols; });
  if (it == free_.end()) it = free_.end() - 1;
  auto context = std::move(*it);
  free_.erase(it);
  return context;
}

void DeviceSession::release(std::unique_ptr<RunContext> context) noexcept {
  const std::lock_guard lock(mutex_);
  --in_use_;
  ++runs_;
  if (context) {
    const auto state = context->state();
    auto& list = state == RunContext::State::Late   ? late_
                 : state == RunContext::State::Dead ? dead_
                                                    : free_;
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

Status DeviceSession::run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                               std::vector<HostTensor>& results, RunStats* stats) {
  const auto start = Clock::now();
  const auto bound = bound_.take();
  RP_TRY(binder_.bind(inputs, outputs, shared_.device.get(), *bound));
  auto free_context = acquire(bound->symbols);
  Lease lease(*this);
  lease.context = std::move(free_context);
  if (!lease.context) {
    RP_ASSIGN(lease.context, RunContext::create(shared_));
  }
  Status done = lease.context->run(*bound, start, results, stats);
  if (!lease.context->starved()) lease.complete();
  return done;
}

SessionStats DeviceSession::stats() const {
  const std::lock_guard lock(mutex_);
  SessionStats s;
  s.runs = runs_;
  s.recordings = shared_.recordings;
  s.submits = shared_.submits;
  s.dispatches = shared_.dispatches;
  s.barriers = shared_.barriers;
  s.copies = shared_.copies;
  s.device_bytes = shared_.device_bytes;
  s.load_ms = load_ms_;
  return s;
}

}  // namespace

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
