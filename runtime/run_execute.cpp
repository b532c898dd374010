// Executes a run: blocks, recordings, host calls and results. run_context.cpp manages its memory.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/check.h"
#include "runtime/host_step.h"
#include "runtime/run_state.h"

namespace reprise {
namespace {

Command of_kind(Command::Kind kind) {
  Command c;
  c.kind = kind;
  return c;
}

bool same_copies(const std::vector<Command>& a, const std::vector<Command>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Command& x, const Command& y) {
    return x.src == y.src && x.dst == y.dst && x.bytes == y.bytes;
  });
}

// The names of the launch's int64 tensors, for messages.
std::string wide_tensors(const plan::Plan& plan, const plan::Launch& launch) {
  std::string out;
  for (const plan::BufferId id : launch.buffers) {
    const plan::Buffer& b = plan.buffers[id];
    if (b.dtype != DType::I64 || b.name.empty()) continue;
    out += (out.empty() ? " (among tensors '" : "', '") + b.name;
  }
  return out.empty() ? out : out + "')";
}

// The error for a code that a kernel reported; the codes are those of kernel::ErrorCode.
Status kernel_error(uint32_t code, const std::string& subject, const std::string& wide) {
  switch (code) {
    case 1:
      return invalid_input(subject + ": an index is outside its dimension");
    case 2:
      return unsupported(subject +
                         ": an int64 value does not fit the 32 bits that this device computes "
                         "with" +
                         wide + "; use smaller values or the host device");
    case 3:
      return invalid_input(subject + ": integer division by zero");
    default:
      return {Code::Device, subject + " reported the unknown error " + std::to_string(code)};
  }
}

}  // namespace

Status RunContext::write_segment(size_t index, const std::vector<int64_t>& symbols) {
  SegmentState& state = segments_[index];
  if (state.written && state.written_for == symbols) return {};
  state.written = false;
  for (const auto& level : s_.segments[index].levels) {
    for (const uint32_t step : level)
      RP_TRY(plan::write_sizes(*s_.plan, step, s_.table, symbols, s_.base.limits, blocks()));
  }
  state.written_for = symbols;
  state.written = true;
  return {};
}

Command RunContext::launch_command(uint32_t step) const {
  const auto& launch = std::get<plan::Launch>(s_.plan->steps[step].what);
  Command c;
  c.kernel = s_.kernels[launch.kernel].get();
  c.block_offset = s_.table.block[step];
  if (s_.table.indirect[step] != plan::kNone) {
    c.kind = Command::Kind::DispatchIndirect;
    c.indirect_offset = s_.table.indirect[step];
  } else {
    c.grid = s_.fixed_grids[step];
  }
  return c;
}

// Whether this segment's recording copies the input or output.
bool RunContext::staged_by(size_t index, size_t i, bool input) const {
  if (input) return inputs_[i].staged && s_.first_recorded == index;
  return outputs_[i].staged &&
         static_cast<size_t>(s_.use(s_.of_output[i].buffer).last_segment) == index;
}

void RunContext::find_staged(size_t index, Staged& staged) const {
  staged.in.clear();
  staged.out.clear();
  staged.copies.clear();
  for (uint32_t i = 0; i < inputs_.size(); ++i)
    if (staged_by(index, i, true)) staged.in.push_back(i);
  for (uint32_t i = 0; i < outputs_.size(); ++i)
    if (staged_by(index, i, false)) staged.out.push_back(i);
  for (const uint32_t i : staged.in) staged.copies.push_back(staging_copy(i, true));
  for (const uint32_t i : staged.out) staged.copies.push_back(staging_copy(i, false));
}

Command RunContext::staging_copy(uint32_t i, bool input) const {
  const HostBound& s = input ? inputs_[i] : outputs_[i];
  Command c;
  c.kind = Command::Kind::Copy;
  c.src = input ? s.staging.get() : s.device.get();
  c.dst = input ? s.device.get() : s.staging.get();
  c.bytes = s_.base.options.replay ? s.device->size() : staged_bytes(i, input);
  return c;
}

// The bytes that the input or output has in this run.
uint64_t RunContext::staged_bytes(uint32_t i, bool input) const {
  if (!input) return bytes_[s_.of_output[i].buffer];
  uint64_t bytes = 0;
  for (const plan::BufferId id : s_.of_input[i]) bytes = std::max(bytes, bytes_[id]);
  return bytes;
}

// Which tensors may share memory follows from the plan, so an order is valid for the lifetime of
// the session.
const std::vector<plan::OrderNode>& RunContext::order_of(size_t index, std::vector<uint32_t> in,
                                                         std::vector<uint32_t> out) {
  using Kind = plan::ArenaReuse::Kind;
  Order& order = segments_[index].order;
  if (!order.nodes.empty() && order.in == in && order.out == out) return order.nodes;
  const plan::Segment& segment = s_.segments[index];
  plan::ArenaReuse reuse{Kind::AnyPlacement, &placement_, &bytes_};
  if (s_.fixed_placement) reuse.kind = Kind::Placed;
  if (s_.base.options.isolate_tensors) reuse.kind = Kind::None;
  order.nodes = s_.base.device->takes_edges()
                    ? plan::segment_order(*s_.plan, segment, in, out, reuse)
                    : plan::segment_nodes(segment, in, out);
  order.in = std::move(in);
  order.out = std::move(out);
  return order.nodes;
}

// Appends commands with edges or, for devices that do not take edges, with barriers between levels.
void RunContext::append_commands(const std::vector<plan::OrderNode>& order, RecordingDesc& desc,
                                 Recorded& counts) const {
  using Kind = plan::OrderNode::Kind;
  std::vector<uint32_t> position;  // of each node's command
  const bool barriers = !s_.base.device->takes_edges();
  std::optional<uint32_t> level;
  bool copies_out = false;
  for (const plan::OrderNode& node : order) {
    const bool launch = node.kind == Kind::Launch, out = node.kind == Kind::CopyOut;
    const bool next_level = launch && level != s_.plan->steps[node.index].level;
    if (barriers && (next_level || (out && !copies_out)) && !desc.commands.empty()) {
      desc.commands.push_back(of_kind(Command::Kind::Barrier));
      ++counts.barriers;
    }
    if (launch) level = s_.plan->steps[node.index].level;
    copies_out = copies_out || out;
    counts.dispatches += launch ? 1 : 0;
    Command c = launch                    ? launch_command(node.index)
                : node.kind == Kind::Join ? of_kind(Command::Kind::Join)
                                          : staging_copy(node.index, !out);
    for (const uint32_t a : node.after) c.after.push_back(position[a]);
    position.push_back(static_cast<uint32_t>(desc.commands.size()));
    desc.commands.push_back(std::move(c));
  }
  if (!barriers) return;
  desc.commands.push_back(of_kind(Command::Kind::HostBarrier));
  ++counts.barriers;
}

Status RunContext::record_segment(size_t index) {
  Recorded& r = segments_[index].recorded;
  find_staged(index, staged_);
  if (r.recording && s_.base.options.replay && same_copies(staged_.copies, r.staged.copies)) {
    limit_copies(r);
    return {};
  }
  RecordingDesc desc;
  desc.blocks = blocks_.get();
  desc.timestamps = s_.base.options.timestamps;
  desc.once = !s_.base.options.replay;
  r = {};
  // A body reads what an earlier submission wrote, which may still be running.
  if (s_.only_recorded && !s_.base.device->takes_edges()) {
    desc.commands.push_back(of_kind(Command::Kind::Barrier));
    ++r.barriers;
  }
  append_commands(order_of(index, staged_.in, staged_.out), desc, r);
  if (s_.base.options.replay) segments_[index].order = {};
  r.staged = staged_;
  RP_ASSIGN(r.recording, s_.base.device->record(std::move(desc)));
  ++s_.base.totals.recordings;
  limit_copies(r);
  return {};
}

// The memory of inputs and outputs has the size of the largest run so far. Recordings that cannot
// limit a copy copy all of it.
void RunContext::limit_copies(Recorded& r) const {
  size_t copy = 0;
  for (const uint32_t i : r.staged.in) r.recording->limit_copy(copy++, staged_bytes(i, true));
  for (const uint32_t i : r.staged.out) r.recording->limit_copy(copy++, staged_bytes(i, false));
}

Status RunContext::check_error_word() {
  uint32_t word = 0;
  std::memcpy(&word, error_->mapped(), sizeof(word));
  if (word == 0) return {};
  std::memset(error_->mapped(), 0, sizeof(word));
  const uint32_t step = word >> 8;
  const auto* launch = step < s_.plan->steps.size()
                           ? std::get_if<plan::Launch>(&s_.plan->steps[step].what)
                           : nullptr;
  if (launch == nullptr) return kernel_error(word & 0xff, "launch " + std::to_string(step), {});
  return kernel_error(word & 0xff, plan::describe_launch(*s_.plan, *launch),
                      wide_tensors(*s_.plan, *launch));
}

uint64_t SessionBase::timeout_ns() const {
  return options.timeout_ns != 0 ? options.timeout_ns
                                 : default_timeout_ns(device->info().facts.kind);
}

void RunContext::wait_failed(Recording& recording) {
  late_recording_ = &recording;
  state_ = State::Late;
  poll();
}

// Clears the error word, so that the error of a run that nobody waited for is not taken for that of
// the next run.
RunContext::State RunContext::poll() {
  if (state_ != State::Late) return state_;
  if (!late_bodies_.empty()) {
    bool dead = false;
    std::erase_if(late_bodies_, [&](RunContext* body) {
      dead = body->poll() == State::Dead || dead;
      return body->state() == State::Free;
    });
    state_ = dead ? State::Dead : late_bodies_.empty() ? State::Free : State::Late;
    return state_;
  }
  const Result<bool> ended = late_recording_->ended();
  if (!ended.ok()) {
    state_ = State::Dead;
  } else if (*ended) {
    std::memset(error_->mapped(), 0, error_->size());
    state_ = State::Free;
  }
  return state_;
}

Status RunContext::check_time(const Run& run) const {
  if (run.left.device_ns > 0 && run.left.host_ns > 0) return {};
  return {Code::Timeout,
          "the run did not finish on " + s_.base.device->info().id +
              " within its time limit, which all iterations share; if its loops end, "
              "use a longer timeout"};
}

// After a failure nothing is in flight, or the state says so.
Status RunContext::submit(Recording& recording, Run& run) {
  if (run.left.device_ns == 0) return check_time(run);
  const auto start = Clock::now();
  submitted_ = true;
  Status submitted = recording.submit(run.sync ? *run.sync : SubmitSync(), run.left.device_ns);
  run.stats.host_submit_us += us_since(run.start) - run.copy_us;
  if (!submitted.ok() && !recording.wait(run.left.device_ns).ok()) wait_failed(recording);
  run.left.waited_ns += ns_since(start);
  return submitted;
}

Status RunContext::wait(Recording& recording, Run& run) {
  const auto start = Clock::now();
  const Status waited = recording.wait(run.left.device_ns);
  if (!waited.ok()) wait_failed(recording);
  RP_TRY(waited);
  const uint64_t waited_ns = ns_since(start);
  run.left.waited_ns += waited_ns;
  // A run may have ended long before the caller waits for it.
  run.left.device_ns -= std::min({run.left.device_ns, recording.ran_ns(), waited_ns});
  return {};
}

Status RunContext::begin_segment(size_t index, Run& run) {
  run.segment = index;
  RP_TRY(write_segment(index, run.symbols));
  RP_TRY(record_segment(index));
  Recorded& r = segments_[index].recorded;
  RP_TRY(set_pixels(index, r, run.io.binding));
  RP_TRY(submit(*r.recording, run));
  ++s_.base.totals.submits;
  s_.base.totals.dispatches += r.dispatches;
  s_.base.totals.barriers += r.barriers;
  s_.base.totals.copies += r.staged.copies.size();
  return {};
}

/// Waits for the launches of a segment, and makes its host calls.
Status RunContext::end_segment(size_t index, Run& run) {
  const plan::Segment& segment = s_.segments[index];
  run.segment = index;
  if (!segment.levels.empty()) RP_TRY(end_launches(index, run));
  RP_TRY(run_host_calls(segment, run));
  run.start = Clock::now();
  run.copy_us = 0;
  return {};
}

Status RunContext::end_launches(size_t index, Run& run) {
  Recording& recording = *segments_[index].recorded.recording;
  RP_TRY(wait(recording, run));
  RP_TRY(check_error_word());
  if (s_.base.options.timestamps) {
    RP_ASSIGN(const std::vector<double> ns, recording.dispatch_ns());
    for (const double t : ns) run.stats.kernel_us.push_back(t / 1e3);
  }
  return {};
}

Status RunContext::upload_result(plan::BufferId id, const HostTensor& value, Run& run) {
  if (!s_.use(id).on_device) return {};
  if (s_.use(id).late && !run.buffers[id].placed) {
    return internal_error("tensor '" + s_.plan->buffers[id].name +
                          "': no host call determines its size, so kernels cannot use it");
  }
  run.stats.bytes_copied += value.bytes().size();
  return s_.base.device->upload(*buffers_[id].location.buffer, buffers_[id].location.offset,
                                value.bytes());
}

Status RunContext::run_host_calls(const plan::Segment& segment, Run& run) {
  for (const uint32_t step : segment.host_calls) {
    const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
    RP_TRY(call.device_bodies.empty() ? run_host_call(step, run) : run_bodies(step, run));
  }
  return {};
}

Status RunContext::run_host_call(uint32_t step, Run& run) {
  const auto start = Clock::now();
  const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
  std::vector<HostTensor> values(call.inputs.size());
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    RP_ASSIGN(values[i], fetch(call.inputs[i], run));
    inputs[i] = &values[i];
  }
  const HostRun host_run{deadline_in(run.left.host_ns), run.random};
  RP_ASSIGN(auto results, reprise::run_host_call({*s_.plan, s_.io(), s_.base.host_bodies, host_run,
                                                  s_.prepared.of(step)},
                                                 call, inputs, run.symbols));
  RP_TRY(place_late(run));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].is_none()) RP_TRY(accept(call.outputs[i], std::move(results[i]), run));
  run.left.spend_host(ns_since(start));
  return {};
}

// Keeps a result that is on the host, and uploads it if kernels read it.
Status RunContext::accept(plan::BufferId id, HostTensor value, Run& run) {
  RP_TRY(upload_result(id, value, run));
  run.buffers[id].host = std::move(value);
  return {};
}

Status RunContext::prepare(Run& run) {
  RP_TRY(resize(run.io.symbols));
  bind_states();
  pixels_in_.clear();
  pixels_out_.clear();
  if (s_.keeps_host_values) {
    run.buffers.resize(s_.plan->buffers.size());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) RP_TRY(bind_input(i, run));
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const plan::BufferId id = s_.of_output[o].buffer;
    if (!s_.use(id).late) RP_TRY(bind_output(o, run));
  }
  return {};
}

Status RunContext::finish(Run& run, std::vector<HostTensor>& results) {
  RP_TRY(copy_states(run));
  RP_TRY(keep_passed_through(run));
  results.resize(outputs_.size());
  for (size_t o = 0; o < outputs_.size(); ++o) RP_TRY(deliver(o, run, results[o]));
  return {};
}

bool RunContext::is_one_submission(const SessionShared& shared) {
  return shared.segments.size() == 1 && !shared.segments[0].levels.empty() &&
         shared.segments[0].host_calls.empty() && !shared.keeps_host_values &&
         shared.of_state.empty();
}

bool RunContext::begins_with_a_submission(const SessionShared& shared) {
  return !shared.segments.empty() && !shared.segments[0].levels.empty();
}

RunContext::Run& RunContext::start_run(const BoundIo& io, Clock::time_point start) {
  submitted_ = false;
  ongoing_->recorded = false;
  symbols_ = io.symbols;
  ongoing_->left = {.device_ns = s_.base.timeout_ns(), .host_ns = s_.base.timeout_ns()};
  const uint64_t seed = s_.base.options.seed;
  return ongoing_->run.emplace(Run{.io = io,
                                   .symbols = symbols_,
                                   .stats = {},
                                   .start = start,
                                   .left = ongoing_->left,
                                   .random = HostRun::create({}, seed, s_.base.started++).random,
                                   .buffers = {}});
}

Status RunContext::begin(const BoundIo& io, Clock::time_point start, const SubmitSync& sync) {
  Run& run = start_run(io, start);
  RP_TRY(prepare(run));
  if (!begins_with_a_submission(s_)) return {};
  run.sync = &sync;
  Status begun = begin_segment(0, run);
  run.sync = nullptr;
  return begun;
}

Status RunContext::begin_in(void* command_buffer, const BoundIo& io, Clock::time_point start) {
  Run& run = start_run(io, start);
  RP_TRY(prepare(run));
  RP_TRY(write_segment(0, run.symbols));
  find_staged(0, staged_);
  RecordingDesc desc;
  desc.blocks = blocks_.get();
  Recorded counts;
  append_commands(order_of(0, staged_.in, staged_.out), desc, counts);
  desc.to_tensors = pixels_in_;
  for (const auto& [segment, copy] : pixels_out_) desc.from_tensors.push_back(copy);
  RP_TRY(s_.base.device->record_into(command_buffer, desc));
  ++s_.base.totals.recordings;
  ongoing_->recorded = submitted_ = true;
  return {};
}

Result<bool> RunContext::poll_first() {
  if (ongoing_->recorded) return true;
  if (!begins_with_a_submission(s_)) return true;
  Recording& recording = *segments_[0].recorded.recording;
  Result<bool> ended = recording.poll(ongoing_->left.device_ns);
  if (!ended.ok()) wait_failed(recording);
  return ended;
}

Status RunContext::execute(Run& run, std::vector<HostTensor>& results) {
  RP_TRY(prepare(run));
  for (size_t s = 0; s < s_.segments.size(); ++s) {
    if (!s_.segments[s].levels.empty()) RP_TRY(begin_segment(s, run));
    RP_TRY(end_segment(s, run));
  }
  return finish(run, results);
}

/// Bodies that the run has not called have no times.
void RunContext::add_body_times(Run& run) const {
  run.body_us.resize(s_.base.options.timestamps ? s_.base.bodies.size() : 0);
  for (size_t b = 0; b < run.body_us.size(); ++b) {
    const auto is_launch = [](const auto& s) {
      return std::holds_alternative<plan::Launch>(s.what);
    };
    const auto& steps = s_.base.bodies[b]->plan->steps;
    run.body_us[b].resize(static_cast<size_t>(std::ranges::count_if(steps, is_launch)));
    run.stats.kernel_us.insert(run.stats.kernel_us.end(), run.body_us[b].begin(),
                               run.body_us[b].end());
  }
}

Status RunContext::end(std::vector<HostTensor>& results, RunStats* stats) {
  Status done = finish_run(results, stats);
  ongoing_->run.reset();  // values of host calls
  return done;
}

Status RunContext::finish_run(std::vector<HostTensor>& results, RunStats* stats) {
  Run& run = *ongoing_->run;
  if (ongoing_->recorded) RP_TRY(check_error_word());
  for (size_t s = 0; s < s_.segments.size() && !ongoing_->recorded; ++s) {
    if (s > 0 && !s_.segments[s].levels.empty()) RP_TRY(begin_segment(s, run));
    RP_TRY(end_segment(s, run));
  }
  RP_TRY(finish(run, results));
  add_body_times(run);
  run.stats.total_us = us_since(run.entered);
  if (stats) *stats = std::move(run.stats);
  return {};
}

}  // namespace reprise
