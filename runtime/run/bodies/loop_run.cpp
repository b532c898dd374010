#include "runtime/run/bodies/loop_run.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/host/control_flow_kind.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/host_plan/host_step.h"

namespace reprise {
namespace {

/// Kernels need the alignment of bindings.
constexpr uint64_t kSliceAlignment = 16;

HostTensor shape_only(DType dtype, const std::vector<int64_t>& dims) {
  HostTensor t;
  t.borrow_again(dtype, dims, {});
  return t;
}

/// The bytes of one element of the axis; 0 if elements of the axis are not contiguous and aligned,
/// so that they cannot be used in place.
uint64_t bytes_in_place(DType dtype, const std::vector<int64_t>& slice, size_t axis) {
  uint64_t bytes = size_of(dtype);
  for (size_t d = 0; d < slice.size(); ++d) {
    if (d < axis && slice[d] != 1) return 0;
    bytes *= static_cast<uint64_t>(slice[d]);
  }
  return bytes % kSliceAlignment == 0 ? bytes : 0;
}

}  // namespace

Status LoopRun::read_counts(size_t first, size_t numbers, size_t conditions, size_t scanned) {
  form_.first = first;
  form_.numbers = numbers;
  form_.conditions = conditions;
  form_.scanned = scanned;
  const size_t passed = body_.io.inputs.size() - body_.captures.size();
  if (passed < numbers + scanned || call_.inputs.size() < first + passed - numbers)
    return invalid_model("its inputs do not fit its body");
  form_.carried = passed - numbers - scanned;
  if (body_.io.outputs.size() < conditions + form_.carried)
    return invalid_model("its body returns too few values");
  form_.stacked = body_.io.outputs.size() - conditions - form_.carried;
  for (size_t i = 0; i < passed - numbers; ++i) {
    if (call_.inputs[first + i].is_none())
      return invalid_model("input " + std::to_string(first + i) + " is missing");
  }
  return {};
}

Status LoopRun::read_loop() {
  RP_TRY(read_counts(2, 2, 1, 0));
  form_.out_axes.assign(form_.stacked, 0);
  form_.out_reversed.assign(form_.stacked, false);
  if (!call_.inputs[0].is_none()) {
    RP_ASSIGN(const HostTensor trips, runner_.caller().values().fetch(call_.inputs[0], run_));
    RP_ASSIGN(form_.trips, scalar_of(trips, DType::I64, "the number of iterations"));
    form_.trips = std::max<int64_t>(form_.trips, 0);
  }
  if (!call_.inputs[1].is_none()) {
    RP_ASSIGN(const HostTensor first, runner_.caller().values().fetch(call_.inputs[1], run_));
    RP_ASSIGN(const int64_t going, scalar_of(first, DType::Bool, "the condition"));
    if (going == 0) form_.trips = 0;
  }
  return read_condition();
}

// The condition that the body returns may be the one that it takes, or constant. Then it need not
// be read.
Status LoopRun::read_condition() {
  const plan::BufferId origin = body_plan_.of_output[0].origin();
  const plan::Buffer& buffer = body_plan_.plan->buffers[origin];
  form_.fixed = buffer.kind == plan::BufferKind::Input && buffer.index == 1;
  if (buffer.kind != plan::BufferKind::Weight) return {};
  RP_ASSIGN(const HostTensor value, body_plan_.host_weight(origin));
  RP_ASSIGN(const int64_t going, scalar_of(value, DType::Bool, "the condition of the body"));
  form_.fixed = true;
  if (going == 0) form_.trips = std::min<int64_t>(form_.trips, 1);
  return {};
}

Status LoopRun::read_scan() {
  RP_TRY(read_counts(
      0, 0, 0,
      static_cast<size_t>(std::max<int64_t>(call_.attrs.get_int("num_scan_inputs", 0), 0))));
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < form_.carried + form_.scanned; ++i)
    ranks.push_back(static_cast<int64_t>(shared_.plan->buffers[call_.inputs[i]].shape.size()));
  RP_ASSIGN(ScanForm scan, read_scan_form(call_, body_.io, body_.captures.size(), ranks));
  form_.in_axes = std::move(scan.in_axes);
  form_.out_axes = std::move(scan.out_axes);
  form_.in_reversed = std::move(scan.in_reversed);
  form_.out_reversed = std::move(scan.out_reversed);
  return {};
}

Status LoopRun::find_length() {
  form_.trips = scanned_[0].length;
  for (const Scanned& s : scanned_) {
    if (s.length == form_.trips) continue;
    return invalid_input("the scanned inputs have " + std::to_string(form_.trips) + " and " +
                         std::to_string(s.length) + " elements");
  }
  return {};
}

Status LoopRun::bind_inputs() {
  if (form_.numbers > 0) {
    c_.inputs.resize(2);
    c_.inputs[0].host = &number_;
    c_.inputs[1].host = &condition_;
  }
  for (size_t j = 0; j < form_.carried; ++j) {
    const plan::BufferId id = call_.inputs[form_.first + j];
    RP_TRY(check_type(body_, c_.inputs.size(), shared_.plan->buffers[id]));
    RP_ASSIGN(Binding b, runner_.passed(id, run_, kept_.emplace_back()));
    c_.inputs.push_back(std::move(b));
  }
  for (size_t k = 0; k < form_.scanned; ++k) RP_TRY(bind_scanned(k));
  return {};
}

Status LoopRun::bind_scanned(size_t k) {
  const plan::BufferId id = call_.inputs[form_.first + form_.carried + k];
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  RP_TRY(check_type(body_, c_.inputs.size(), buffer));
  Scanned s;
  RP_ASSIGN(s.whole, runner_.passed(id, run_, s.on_host));
  s.dims = s.whole.host ? s.on_host->dims() : s.whole.dims;
  const size_t axis = form_.in_axes[k];
  s.length = s.dims[axis];
  s.dims.erase(s.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  s.bytes = bytes_in_place(buffer.dtype, s.dims, axis);
  if (!s.on_host && s.bytes == 0) {
    RP_ASSIGN(s.on_host, runner_.caller().values().fetch(id, run_));
  }
  Binding element;
  element.name = buffer.name;
  element.dims = s.dims;
  c_.inputs.push_back(std::move(element));
  scanned_.push_back(std::move(s));
  return {};
}

Status LoopRun::place_stacked() {
  stacked_.resize(form_.stacked);
  for (size_t k = 0; k < form_.stacked; ++k) RP_TRY(place_one(k));
  return {};
}

// If the number of iterations is known, so is the size of the output.
Status LoopRun::place_one(size_t k) {
  Stacked& out = stacked_[k];
  const plan::BufferId id = output(form_.carried + k);
  const plan::Slot& slot = returned(form_.carried + k);
  const size_t axis = form_.out_axes[k];
  if (axis > slot.shape.size()) return invalid_model("it stacks along an axis that does not exist");
  if (!plan::is_bound(slot.shape, c_.symbols)) return {};
  RP_ASSIGN(out.dims, plan::eval_dims(body_.io, slot.shape, c_.symbols, slot.name));
  const bool known = form_.fixed && form_.trips <= std::numeric_limits<int32_t>::max();
  out.bytes = bytes_in_place(slot.dtype, *out.dims, axis);
  if (id.is_none() || !known || out.bytes == 0) return {};
  std::vector<int64_t> whole = *out.dims;
  whole.insert(whole.begin() + static_cast<std::ptrdiff_t>(axis), form_.trips);
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  RP_TRY(plan::bind_from_shape(shared_.io(), buffer.name, buffer.shape, whole, run_.symbols));
  RP_ASSIGN(out.whole, runner_.place_of(id, slot, run_));
  return {};
}

Status LoopRun::place_carried() {
  carried_.resize(form_.carried);
  for (size_t j = 0; j < form_.carried; ++j) {
    Carried& v = carried_[j];
    const Binding& initial = c_.inputs[form_.numbers + j];
    const std::vector<int64_t>& dims = initial.host ? initial.host->dims() : initial.dims;
    const plan::Slot& slot = returned(j);
    const bool known = plan::is_bound(slot.shape, c_.symbols);
    if (!known || slot.dtype != body_.io.inputs[form_.numbers + j].dtype)
      return invalid_model("the size or type of '" + slot.name + "' changes between iterations");
    RP_ASSIGN(const auto next, plan::eval_dims(body_.io, slot.shape, c_.symbols, slot.name));
    if (next != dims) {
      return invalid_model("the size of '" + slot.name + "' changes from " +
                           describe(slot.dtype, dims) + " to " + describe(slot.dtype, next) +
                           " between iterations");
    }
    RP_ASSIGN(const int64_t count, checked_element_count(dims, slot.dtype));
    v.bytes = align_up(static_cast<uint64_t>(count) * size_of(slot.dtype), 4);
    const plan::BufferId id = output(j);
    if (id.is_none()) continue;
    const plan::Buffer& buffer = shared_.plan->buffers[id];
    RP_TRY(plan::bind_from_shape(shared_.io(), buffer.name, buffer.shape, dims, run_.symbols));
    RP_ASSIGN(v.home, runner_.place_of(id, slot, run_));
    if (v.home && v.home->dims != dims)
      return invalid_model("'" + buffer.name + "' has another size than the value in its body");
  }
  return {};
}

// Copies a value that is not in the output of the call.
Status LoopRun::copy_home(std::vector<Command>& copies, size_t j) {
  const Carried& v = carried_[j];
  const Binding& now = c_.inputs[form_.numbers + j];
  if (!v.home || v.place == 0 || v.bytes == 0) return {};
  if (now.host)
    return shared_.session.device->upload(*v.home->device, v.home->device_offset,
                                          now.host->bytes());
  Command c;
  c.kind = Command::Kind::Copy;
  c.src = now.device;
  c.src_offset = now.device_offset;
  c.dst = v.home->device;
  c.dst_offset = v.home->device_offset;
  c.bytes = v.bytes;
  copies.push_back(std::move(c));
  return {};
}

Result<HostTensor> LoopRun::stacked_on_host(size_t k) {
  Stacked& out = stacked_[k];
  const plan::Slot& slot = returned(form_.carried + k);
  if (out.parts.empty()) {
    // Dims that an iteration would determine are 0.
    std::vector<int64_t> dims;
    for (const Expr& e : slot.shape) {
      const Result<int64_t> size = e.eval(c_.symbols);
      dims.push_back(size.ok() ? std::max<int64_t>(*size, 0) : 0);
    }
    return stack({}, form_.out_axes[k], 0, shape_only(slot.dtype, dims));
  }
  if (form_.out_reversed[k]) std::reverse(out.parts.begin(), out.parts.end());
  return stack(out.parts, form_.out_axes[k], out.parts.size(), out.parts[0]);
}

Status LoopRun::finish() {
  std::vector<HostTensor> results;
  std::vector<Command> copies;
  for (size_t i = 0; i < call_.outputs.size(); ++i) {
    if (i < form_.carried) {
      RP_TRY(copy_home(copies, i));
      const Binding& now = c_.inputs[form_.numbers + i];
      results.push_back(shape_only(returned(i).dtype, now.host ? now.host->dims() : now.dims));
      continue;
    }
    const size_t k = i - form_.carried;
    if (k >= form_.stacked) return internal_error("its body returns too few values");
    if (stacked_[k].whole) {
      results.push_back(shape_only(returned(i).dtype, stacked_[k].whole->dims));
    } else if (call_.outputs[i].is_none()) {
      results.emplace_back();
    } else {
      RP_ASSIGN(results.emplace_back(), stacked_on_host(k));
    }
  }
  if (!copies.empty()) RP_TRY(runner_.copy_on_device(std::move(copies), run_));
  RP_TRY(check_results(*shared_.plan, shared_.io(), call_, results, run_.symbols));
  RP_TRY(runner_.caller().values().place_late(run_));
  for (size_t k = 0; k < form_.stacked; ++k) {
    const plan::BufferId id = output(form_.carried + k);
    if (!id.is_none() && !stacked_[k].whole)
      RP_TRY(runner_.caller().values().accept(id, std::move(results[form_.carried + k]), run_));
  }
  return {};
}

Status LoopRun::run() {
  RP_TRY(host::control_flow_of(call_.op) == host::ControlFlow::Loop ? read_loop() : read_scan());
  RP_TRY(bind_inputs());
  if (host::control_flow_of(call_.op) != host::ControlFlow::Loop) RP_TRY(find_length());
  RP_TRY(runner_.bind(c_, run_));
  RP_TRY(place_stacked());
  RP_TRY(place_carried());
  runs_ahead_ = may_run_ahead();
  Status done;
  for (int64_t i = 0; i < form_.trips && going_ && done.ok(); ++i) {
    done = runner_.caller().executor().check_time(run_);
    if (done.ok()) done = timed_iteration(i);
    if (!done.ok()) done = done.with_context("iteration " + std::to_string(i));
  }
  for (size_t n = 0; n < kTurns; ++n) {  // in the order in which they began
    const Status ended = end_turn(turns_[next_turn_]);
    if (done.ok()) done = ended;
    next_turn_ = (next_turn_ + 1) % kTurns;
  }
  RP_TRY(done);
  return finish();
}

// Results that kernels do not write themselves are copied by the host when an iteration has ended,
// which is too late for one that has begun.
bool LoopRun::may_run_ahead() const {
  // Devices that take edges execute recordings in streams of their own, in no order.
  // The parts of an iteration that is cut in slices follow only when the host asks for its end.
  if (!form_.fixed || !body_plan_.only_recorded || shared_.session.device->takes_edges() ||
      shared_.session.options.slice_ns != 0)
    return false;
  return std::all_of(body_plan_.of_output.begin() + static_cast<std::ptrdiff_t>(form_.conditions),
                     body_plan_.of_output.end(), [&](const SharedPlan::OutputSource& source) {
                       return source.alias_of.is_none() && !source.buffer.is_none() &&
                              body_plan_.use(source.buffer).on_device;
                     });
}

// The place that iteration `i` writes. If the number of iterations is known, the last one writes
// the output of the call.
Result<Binding> LoopRun::target(size_t j, int64_t i) {
  Carried& v = carried_[j];
  const int64_t later = form_.fixed ? form_.trips - 1 - i : i;
  const auto place = static_cast<size_t>(later % 2);
  v.place = place;
  if (place == 0 && v.home) return *v.home;
  std::vector<std::array<CountedBuffer, 2>>& spare = runner_.loop_memory(step_);
  spare.resize(std::max(spare.size(), form_.carried));
  RP_TRY(runner_.caller()
             .memory()
             .grow(spare[j][place], v.bytes, MemoryUse::Device)
             .with_context("memory for '" + returned(j).name + "'"));
  Binding b;
  b.name = returned(j).name;
  b.device = spare[j][place].get();
  const Binding& initial = c_.inputs[form_.numbers + j];
  b.dims = initial.host ? initial.host->dims() : initial.dims;
  return b;
}

Status LoopRun::pass_slices(int64_t i) {
  slices_.clear();
  for (size_t k = 0; k < form_.scanned; ++k) {
    Scanned& s = scanned_[k];
    Binding& b = c_.inputs[form_.numbers + form_.carried + k];
    const int64_t at = form_.in_reversed[k] ? s.length - 1 - i : i;
    if (!s.on_host) {
      b.device = s.whole.device;
      b.device_offset = s.whole.device_offset + static_cast<uint64_t>(at) * s.bytes;
      continue;
    }
    RP_ASSIGN(HostTensor slice, slice_at(*s.on_host, form_.in_axes[k], static_cast<size_t>(at)));
    b.host = &slices_.emplace_back(std::move(slice));
  }
  return {};
}

// Work of the host between submissions counts as work of host kernels.
Status LoopRun::timed_iteration(int64_t i) {
  const auto start = Clock::now();
  const TimeLeft before = run_.left;
  RP_TRY(iterate(i));
  TimeLeft& left = run_.left;
  const uint64_t counted = (left.waited_ns - before.waited_ns) + (before.host_ns - left.host_ns);
  const uint64_t passed = ns_since(start);
  left.spend_host(passed > counted ? passed - counted : 0);
  return {};
}

Status LoopRun::iterate(int64_t i) {
  number_ = HostTensor::from<int64_t>(DType::I64, {}, {i});
  RP_TRY(pass_slices(i));
  c_.random = host_.iteration(static_cast<uint64_t>(i)).random;
  c_.outputs.assign(form_.conditions, std::nullopt);
  for (size_t j = 0; j < form_.carried; ++j) {
    RP_ASSIGN(c_.outputs.emplace_back(), target(j, i));
  }
  for (size_t k = 0; k < form_.stacked; ++k) {
    const Stacked& out = stacked_[k];
    std::optional<Binding>& b = c_.outputs.emplace_back(out.whole);
    if (!b) continue;
    const int64_t at = form_.out_reversed[k] ? form_.trips - 1 - i : i;
    b->device_offset += static_cast<uint64_t>(at) * out.bytes;
    b->dims = *out.dims;
  }
  if (runs_ahead_) {
    RP_TRY(begin_turn(i));
  } else {
    RP_ASSIGN(const std::vector<HostTensor> results, runner_.execute(c_, run_));
    if (form_.conditions > 0 && !form_.fixed) {
      RP_ASSIGN(const int64_t going,
                scalar_of(results[0], DType::Bool, "the condition that the body returns"));
      going_ = going != 0;
    }
    take_results(results);
  }
  for (size_t j = 0; j < form_.carried; ++j)
    c_.inputs[form_.numbers + j] = *c_.outputs[form_.conditions + j];
  return {};
}

// Begins an iteration. What it reads may still be computed by earlier ones: submissions to a device
// are executed in order, and the recording of a body begins with a barrier.
Status LoopRun::begin_turn(int64_t i) {
  Turn& turn = turns_[next_turn_];
  RP_TRY(end_turn(turn));
  RP_TRY(runner_.begin(c_, next_turn_, run_, turn.body));
  turn.iteration = i;
  const bool small = turn.body.context->held_bytes() <= kMostMemory;
  next_turn_ = small ? (next_turn_ + 1) % kTurns : next_turn_;
  return {};
}

Status LoopRun::end_turn(Turn& turn) {
  if (!turn.iteration) return {};
  const std::string what = "iteration " + std::to_string(*turn.iteration);
  turn.iteration.reset();
  const auto results = runner_.end(turn.body, run_);
  if (!results.ok()) return results.status().with_context(what);
  take_results(*results);
  return {};
}

void LoopRun::take_results(const std::vector<HostTensor>& results) {
  for (size_t k = 0; k < form_.stacked; ++k) {
    const size_t at = form_.carried + k;
    if (!stacked_[k].whole && !output(at).is_none())
      stacked_[k].parts.push_back(results[form_.conditions + at].detached());
  }
}

}  // namespace reprise
