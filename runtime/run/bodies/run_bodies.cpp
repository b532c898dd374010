// Control flow whose bodies run on the device: each body has a context of its own in the context of
// its caller, and takes and returns values in the caller's device memory.
#include "runtime/run/bodies/run_bodies.h"

#include <algorithm>

#include "runtime/host/control_flow_kind.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/host_plan/host_step.h"

namespace reprise {

namespace {

void add(std::vector<double>& sums, const std::vector<double>& times) {
  sums.resize(std::max(sums.size(), times.size()));
  for (size_t i = 0; i < times.size(); ++i) sums[i] += times[i];
}

}  // namespace

Status check_type(const package::DeviceBody& body, size_t input, const plan::Buffer& buffer) {
  if (input >= body.io.inputs.size())
    return internal_error(body.name + " has only " + std::to_string(input) + " inputs");
  const plan::Slot& slot = body.io.inputs[input];
  if (slot.dtype == buffer.dtype) return {};
  return invalid_model(body.name + ": input '" + slot.name + "' is " +
                       std::string(name_of(slot.dtype)) + ", but '" + buffer.name + "' is " +
                       std::string(name_of(buffer.dtype)));
}

// The value of a buffer for a body: in device memory, or on the host in `kept`.
Result<Binding> RunContext::passed(plan::BufferId id, Run& run, std::optional<HostTensor>& kept) {
  const plan::Buffer& buffer = s_.plan->buffers[id];
  Binding b;
  b.name = buffer.name;
  if (buffer.kind == plan::BufferKind::Weight) {
    RP_ASSIGN(kept, fetch(id, run));
    b.host = &*kept;
    return b;
  }
  RP_ASSIGN(b.dims, plan::eval_dims(s_.io(), buffer.shape, run.symbols, buffer.name));
  const Location& where = buffers_[id].location;
  if (where.buffer == nullptr)
    return internal_error("tensor '" + buffer.name + "' was not computed by any step");
  b.device = where.buffer;
  b.device_offset = where.offset;
  if (buffer.kind != plan::BufferKind::Input) return b;
  // The first recording copies staged inputs, but it may be a later one.
  const auto input = static_cast<size_t>(buffer.index);
  bool& uploaded = run.buffers[id].uploaded;
  if (!inputs_[input].staged || s_.first_recorded <= run.segment || uploaded) return b;
  RP_TRY(s_.base.device->upload(*where.buffer, where.offset, run.io.inputs[input]->host->bytes()));
  uploaded = true;
  return b;
}

// Where a body can write an output of the call. None if nobody reads the output, or if its size
// depends on the body's result.
Result<std::optional<Binding>> RunContext::place_of(plan::BufferId id, const plan::Slot& slot,
                                                    Run& run) {
  if (id.is_none()) return std::optional<Binding>();
  const plan::Buffer& buffer = s_.plan->buffers[id];
  if (buffer.dtype != slot.dtype) {
    return invalid_model("its body returns " + std::string(name_of(slot.dtype)) + " for '" +
                         buffer.name + "', which is " + std::string(name_of(buffer.dtype)));
  }
  if (!plan::is_bound(buffer.shape, run.symbols)) return std::optional<Binding>();
  if (s_.use(id).late) RP_TRY(place_late(run));
  const Location& where = buffers_[id].location;
  if (where.buffer == nullptr) return internal_error("'" + buffer.name + "' has no memory");
  Binding b;
  b.name = buffer.name;
  b.device = where.buffer;
  b.device_offset = where.offset;
  RP_ASSIGN(b.dims, plan::eval_dims(s_.io(), buffer.shape, run.symbols, buffer.name));
  return std::optional(std::move(b));
}

// Adds the values that the body captures, and gives its symbols the values that they have in the
// caller, and those that the inputs determine.
Status RunContext::bind_body(BodyCall& c, Run& run) {
  const package::DeviceBody& body = *s_.base.bodies[c.body]->body;
  c.captured.resize(body.captures.size());
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const plan::BufferId id = c.call.inputs[body.captures[i]];
    RP_TRY(check_type(body, c.inputs.size(), s_.plan->buffers[id]));
    RP_ASSIGN(Binding b, passed(id, run, c.captured[i]));
    c.inputs.push_back(std::move(b));
  }
  if (c.inputs.size() != body.io.inputs.size()) {
    return internal_error(body.name + " has " + std::to_string(body.io.inputs.size()) +
                          " inputs, but " + std::to_string(c.inputs.size()) + " are passed");
  }
  c.symbols.assign(body.io.symbols.size(), plan::kUnbound);
  std::copy_n(run.symbols.begin(), std::min(run.symbols.size(), body.inherited_symbols),
              c.symbols.begin());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const plan::Slot& slot = body.io.inputs[i];
    const Binding& b = c.inputs[i];
    RP_TRY(plan::bind_from_shape(body.io, slot.name, slot.shape, b.host ? b.host->dims() : b.dims,
                                 c.symbols)
               .with_context(body.name));
  }
  plan::derive_symbols(body.io, c.symbols);
  return plan::check_guards(body.io, c.symbols);
}

// The context of a body keeps its memory and its recordings for later runs.
Result<RunContext*> RunContext::context_of(uint32_t body, size_t turn) {
  bodies_[body].resize(std::max(bodies_[body].size(), turn + 1));
  std::unique_ptr<RunContext>& context = bodies_[body][turn];
  if (!context) {
    starved_ = true;
    RP_ASSIGN(context, create(*s_.base.bodies[body]));
    starved_ = false;
  }
  return context.get();
}

// The memory that the context keeps for runs of other sizes and values.
uint64_t RunContext::memory() const {
  uint64_t bytes = 0;
  const auto add = [&](const CountedBuffer& b) { bytes += b ? b->size() : 0; };
  for (const CountedBuffer& arena : arenas_) add(arena);
  for (const Placed& placed : buffers_) add(placed.own);
  for (const HostBound& input : inputs_) add(input.device);
  for (const HostBound& output : outputs_) add(output.device);
  return bytes;
}

// Makes `r` the next run of a body, in the context with the number `turn`. Results with a place in
// `outputs` will be written there; a result that cannot be written there loses its place.
Status RunContext::prepare_body(BodyCall& c, size_t turn, Run& run, BodyRun& r) {
  const package::DeviceBody& body = *s_.base.bodies[c.body]->body;
  r.body = c.body;
  r.inputs = c.inputs;
  r.io.symbols = c.symbols;
  r.io.inputs.clear();
  for (const Binding& b : r.inputs) r.io.inputs.push_back(&b);
  r.io.outputs.assign(body.io.outputs.size(), nullptr);
  const size_t placed = std::min(c.outputs.size(), r.io.outputs.size());
  for (size_t o = 0; o < placed; ++o) {
    const plan::Slot& slot = body.io.outputs[o];
    // The size of a result that depends on data is not known before the body has run.
    if (c.outputs[o] && !plan::is_bound(slot.shape, c.symbols)) c.outputs[o].reset();
    if (!c.outputs[o]) continue;
    RP_ASSIGN(const auto dims, plan::eval_dims(body.io, slot.shape, c.symbols, slot.name));
    if (dims != c.outputs[o]->dims) {
      return invalid_model(body.name + " returns " + describe(slot.dtype, dims) + " for '" +
                           c.outputs[o]->name + "', which is " +
                           describe(slot.dtype, c.outputs[o]->dims));
    }
  }
  r.outputs = c.outputs;
  for (size_t o = 0; o < placed; ++o) r.io.outputs[o] = r.outputs[o] ? &*r.outputs[o] : nullptr;
  RP_ASSIGN(r.context, context_of(c.body, turn));
  r.context->symbols_ = r.io.symbols;
  r.own.emplace(Run{.io = r.io,
                    .symbols = r.context->symbols_,
                    .stats = {},
                    .left = run.left,
                    .random = c.random,
                    .buffers = {}});
  return {};
}

// Accounts for a run of a body that has ended with the status `done`, and returns it.
Status RunContext::leave_body(const BodyRun& r, const Status& done, Run& run) {
  const Run& own = *r.own;
  run.stats.bytes_copied += own.stats.bytes_copied;
  run.stats.host_submit_us += own.stats.host_submit_us;
  run.stats.longest_slice_us = std::max(run.stats.longest_slice_us, own.stats.longest_slice_us);
  if (s_.base.options.timestamps) {
    run.body_us.resize(s_.base.bodies.size());
    add(run.body_us[r.body], own.stats.kernel_us);
    for (size_t b = 0; b < own.body_us.size(); ++b) add(run.body_us[b], own.body_us[b]);
  }
  starved_ = starved_ || r.context->starved_;
  if (r.context->state_ != State::Free) {
    late_bodies_.push_back(r.context);
    state_ = State::Late;
    poll();
  }
  return done.ok() ? done : done.with_context("in the " + s_.base.bodies[r.body]->body->name);
}

// Begins a run of a body with SessionShared::only_recorded. Unless it fails, end_body() follows.
Status RunContext::begin_body(BodyCall& c, size_t turn, Run& run, BodyRun& r) {
  RP_TRY(prepare_body(c, turn, run, r));
  Status done = r.context->prepare(*r.own);
  if (done.ok()) done = r.context->begin_segment(*r.context->s_.only_recorded, *r.own);
  return done.ok() ? done : leave_body(r, done, run);
}

// Results that were written to their places are returned without bytes.
Result<std::vector<HostTensor>> RunContext::end_body(BodyRun& r, Run& run) {
  std::vector<HostTensor> results;
  Status done = r.context->end_launches(*r.context->s_.only_recorded, *r.own);
  if (done.ok()) done = r.context->finish(*r.own, results);
  RP_TRY(leave_body(r, done, run));
  return results;
}

// Runs a body from its beginning to its end.
Result<std::vector<HostTensor>> RunContext::execute_body(BodyCall& c, Run& run) {
  BodyRun r;
  RP_TRY(prepare_body(c, 0, run, r));
  std::vector<HostTensor> results;
  RP_TRY(leave_body(r, r.context->execute(*r.own, results), run));
  return results;
}

Status RunContext::run_bodies(uint32_t step, Run& run) {
  const auto& call = std::get<plan::HostCall>(s_.plan->steps[step].what);
  const HostRun host = run_of_call(*s_.plan, call, {.deadline = {}, .random = run.random});
  const Status done = host::control_flow_of(call.op) == host::ControlFlow::If
                          ? run_branch(call, host, run)
                          : run_iterations(step, host, run);
  return done.with_context(describe_call(call));
}

Status RunContext::run_branch(const plan::HostCall& call, const HostRun& host, Run& run) {
  if (call.inputs.empty() || call.inputs[0].is_none()) return invalid_model("it has no condition");
  RP_ASSIGN(const HostTensor condition, fetch(call.inputs[0], run));
  RP_ASSIGN(const int64_t taken, scalar_of(condition, DType::Bool, "the condition"));
  BodyCall c{.call = call,
             .body = call.device_bodies[taken != 0 ? 0 : 1],
             .inputs = {},
             .random = host.random};
  const package::DeviceBody& body = *s_.base.bodies[c.body]->body;
  if (body.io.outputs.size() < call.outputs.size())
    return internal_error("its branch returns too few values");
  RP_TRY(bind_body(c, run));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    RP_ASSIGN(c.outputs.emplace_back(), place_of(call.outputs[i], body.io.outputs[i], run));
  }
  RP_ASSIGN(std::vector<HostTensor> results, execute_body(c, run));
  RP_TRY(check_results(*s_.plan, s_.io(), call, results, run.symbols));
  RP_TRY(place_late(run));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.outputs[i].is_none() && !c.outputs[i])
      RP_TRY(accept(call.outputs[i], std::move(results[i]), run));
  }
  return {};
}

}  // namespace reprise
