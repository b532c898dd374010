// Loop and Scan whose bodies run on the device. Values that iterations pass on alternate between
// two places, and slices of scanned and stacked tensors are addressed by an offset, so that only
// parameter blocks change from one iteration to the next.
#include "runtime/run/bodies/run_loops.h"

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

Status RunContext::LoopRun::read_counts(size_t first, size_t numbers, size_t conditions,
                                        size_t scanned) {
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

Status RunContext::LoopRun::read_loop() {
  RP_TRY(read_counts(2, 2, 1, 0));
  form_.out_axes.assign(form_.stacked, 0);
  form_.out_reversed.assign(form_.stacked, false);
  if (!call_.inputs[0].is_none()) {
    RP_ASSIGN(const HostTensor trips, context_.fetch(call_.inputs[0], run_));
    RP_ASSIGN(form_.trips, scalar_of(trips, DType::I64, "the number of iterations"));
    form_.trips = std::max<int64_t>(form_.trips, 0);
  }
  if (!call_.inputs[1].is_none()) {
    RP_ASSIGN(const HostTensor first, context_.fetch(call_.inputs[1], run_));
    RP_ASSIGN(const int64_t going, scalar_of(first, DType::Bool, "the condition"));
    if (going == 0) form_.trips = 0;
  }
  return read_condition();
}

// The condition that the body returns may be the one that it takes, or constant. Then it need not
// be read.
Status RunContext::LoopRun::read_condition() {
  const plan::BufferId origin = state_.of_output[0].origin();
  const plan::Buffer& buffer = state_.plan->buffers[origin];
  form_.fixed = buffer.kind == plan::BufferKind::Input && buffer.index == 1;
  if (buffer.kind != plan::BufferKind::Weight) return {};
  RP_ASSIGN(const HostTensor value, state_.host_weight(origin));
  RP_ASSIGN(const int64_t going, scalar_of(value, DType::Bool, "the condition of the body"));
  form_.fixed = true;
  if (going == 0) form_.trips = std::min<int64_t>(form_.trips, 1);
  return {};
}

Status RunContext::LoopRun::read_scan() {
  RP_TRY(read_counts(
      0, 0, 0,
      static_cast<size_t>(std::max<int64_t>(call_.attrs.get_int("num_scan_inputs", 0), 0))));
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < form_.carried + form_.scanned; ++i)
    ranks.push_back(static_cast<int64_t>(s_.plan->buffers[call_.inputs[i]].shape.size()));
  RP_ASSIGN(ScanForm scan, read_scan_form(call_, body_.io, body_.captures.size(), ranks));
  form_.in_axes = std::move(scan.in_axes);
  form_.out_axes = std::move(scan.out_axes);
  form_.in_reversed = std::move(scan.in_reversed);
  form_.out_reversed = std::move(scan.out_reversed);
  return {};
}

Status RunContext::LoopRun::find_length() {
  form_.trips = scanned_[0].length;
  for (const Scanned& s : scanned_) {
    if (s.length == form_.trips) continue;
    return invalid_input("the scanned inputs have " + std::to_string(form_.trips) + " and " +
                         std::to_string(s.length) + " elements");
  }
  return {};
}

Status RunContext::LoopRun::bind_inputs() {
  if (form_.numbers > 0) {
    c_.inputs.resize(2);
    c_.inputs[0].host = &number_;
    c_.inputs[1].host = &condition_;
  }
  for (size_t j = 0; j < form_.carried; ++j) {
    const plan::BufferId id = call_.inputs[form_.first + j];
    RP_TRY(check_type(body_, c_.inputs.size(), s_.plan->buffers[id]));
    RP_ASSIGN(Binding b, context_.passed(id, run_, kept_.emplace_back()));
    c_.inputs.push_back(std::move(b));
  }
  for (size_t k = 0; k < form_.scanned; ++k) RP_TRY(bind_scanned(k));
  return {};
}

Status RunContext::LoopRun::bind_scanned(size_t k) {
  const plan::BufferId id = call_.inputs[form_.first + form_.carried + k];
  const plan::Buffer& buffer = s_.plan->buffers[id];
  RP_TRY(check_type(body_, c_.inputs.size(), buffer));
  Scanned s;
  RP_ASSIGN(s.whole, context_.passed(id, run_, s.on_host));
  s.dims = s.whole.host ? s.on_host->dims() : s.whole.dims;
  const size_t axis = form_.in_axes[k];
  s.length = s.dims[axis];
  s.dims.erase(s.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  s.bytes = bytes_in_place(buffer.dtype, s.dims, axis);
  if (!s.on_host && s.bytes == 0) {
    RP_ASSIGN(s.on_host, context_.fetch(id, run_));
  }
  Binding element;
  element.name = buffer.name;
  element.dims = s.dims;
  c_.inputs.push_back(std::move(element));
  scanned_.push_back(std::move(s));
  return {};
}

Status RunContext::LoopRun::place_stacked() {
  stacked_.resize(form_.stacked);
  for (size_t k = 0; k < form_.stacked; ++k) RP_TRY(place_one(k));
  return {};
}

// If the number of iterations is known, so is the size of the output.
Status RunContext::LoopRun::place_one(size_t k) {
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
  const plan::Buffer& buffer = s_.plan->buffers[id];
  RP_TRY(plan::bind_from_shape(s_.io(), buffer.name, buffer.shape, whole, run_.symbols));
  RP_ASSIGN(out.whole, context_.place_of(id, slot, run_));
  return {};
}

Status RunContext::LoopRun::place_carried() {
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
    const plan::Buffer& buffer = s_.plan->buffers[id];
    RP_TRY(plan::bind_from_shape(s_.io(), buffer.name, buffer.shape, dims, run_.symbols));
    RP_ASSIGN(v.home, context_.place_of(id, slot, run_));
    if (v.home && v.home->dims != dims)
      return invalid_model("'" + buffer.name + "' has another size than the value in its body");
  }
  return {};
}

// Copies a value that is not in the output of the call.
Status RunContext::LoopRun::copy_home(std::vector<Command>& copies, size_t j) {
  const Carried& v = carried_[j];
  const Binding& now = c_.inputs[form_.numbers + j];
  if (!v.home || v.place == 0 || v.bytes == 0) return {};
  if (now.host)
    return s_.base.device->upload(*v.home->device, v.home->device_offset, now.host->bytes());
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

Result<HostTensor> RunContext::LoopRun::stacked_on_host(size_t k) {
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

Status RunContext::LoopRun::finish() {
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
  if (!copies.empty()) RP_TRY(context_.copy_on_device(std::move(copies), run_));
  RP_TRY(check_results(*s_.plan, s_.io(), call_, results, run_.symbols));
  RP_TRY(context_.place_late(run_));
  for (size_t k = 0; k < form_.stacked; ++k) {
    const plan::BufferId id = output(form_.carried + k);
    if (!id.is_none() && !stacked_[k].whole)
      RP_TRY(context_.accept(id, std::move(results[form_.carried + k]), run_));
  }
  return {};
}

Status RunContext::run_iterations(uint32_t step, const HostRun& host, Run& run) {
  const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
  return LoopRun(*this, step, call, host, run).run();
}

Status RunContext::copy_on_device(std::vector<Command> copies, Run& run) {
  RecordingDesc desc;
  const size_t count = copies.size();
  desc.commands = std::move(copies);
  if (!s_.base.device->takes_edges())
    desc.commands.emplace_back().kind = Command::Kind::HostBarrier;
  desc.blocks = blocks_.get();
  desc.once = true;
  RP_ASSIGN(copies_, s_.base.device->record(std::move(desc)));
  ++s_.base.totals.recordings;
  RP_TRY(submit(*copies_, run));
  RP_TRY(wait(*copies_, run));
  ++s_.base.totals.submits;
  s_.base.totals.copies += count;
  return {};
}

}  // namespace reprise
