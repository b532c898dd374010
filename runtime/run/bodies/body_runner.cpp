#include "runtime/run/bodies/body_runner.h"

#include <algorithm>

#include "runtime/host/control_flow_kind.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/run/bodies/loop_run.h"

namespace reprise {

namespace {

void add(std::vector<double>& sums, const std::vector<double>& times) {
  sums.resize(std::max(sums.size(), times.size()));
  for (size_t i = 0; i < times.size(); ++i) sums[i] += times[i];
}

}  // namespace

std::unique_ptr<BodyCalls> make_body_calls(RunContext& caller) {
  return std::make_unique<BodyRunner>(caller);
}

Status check_type(const package::DeviceBody& body, size_t input, const plan::Buffer& buffer) {
  if (input >= body.io.inputs.size())
    return internal_error(body.name + " has only " + std::to_string(input) + " inputs");
  const plan::Slot& slot = body.io.inputs[input];
  if (slot.dtype == buffer.dtype) return {};
  return invalid_model(body.name + ": input '" + slot.name + "' is " +
                       std::string(name_of(slot.dtype)) + ", but '" + buffer.name + "' is " +
                       std::string(name_of(buffer.dtype)));
}

BodyRunner::BodyRunner(RunContext& caller)
    : caller_(caller), shared_(caller.shared()), contexts_(shared_.session.bodies.size()) {}

Availability BodyRunner::poll() {
  bool dead = false;
  std::erase_if(late_, [&](RunContext* body) {
    dead = body->executor().poll() == Availability::Dead || dead;
    return body->executor().availability() == Availability::Free;
  });
  return dead ? Availability::Dead : late_.empty() ? Availability::Free : Availability::Late;
}

Result<Binding> BodyRunner::passed(plan::BufferId id, CurrentRun& run,
                                   std::optional<HostTensor>& kept) {
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  Binding b;
  b.name = buffer.name;
  if (buffer.kind == plan::BufferKind::Weight) {
    RP_ASSIGN(kept, caller_.values().fetch(id, run));
    b.host = &*kept;
    return b;
  }
  RP_ASSIGN(b.dims, plan::eval_dims(shared_.io(), buffer.shape, run.symbols, buffer.name));
  const RunMemory::Location& where = caller_.memory().location(id);
  if (where.buffer == nullptr)
    return internal_error("tensor '" + buffer.name + "' was not computed by any step");
  b.device = where.buffer;
  b.device_offset = where.offset;
  if (buffer.kind != plan::BufferKind::Input) return b;
  // The first recording copies staged inputs, but it may be a later one.
  RP_TRY(caller_.io().upload_early(static_cast<size_t>(buffer.index), run));
  return b;
}

Result<std::optional<Binding>> BodyRunner::place_of(plan::BufferId id, const plan::Slot& slot,
                                                    const CurrentRun& run) {
  if (id.is_none()) return std::optional<Binding>();
  const plan::Buffer& buffer = shared_.plan->buffers[id];
  if (buffer.dtype != slot.dtype) {
    return invalid_model("its body returns " + std::string(name_of(slot.dtype)) + " for '" +
                         buffer.name + "', which is " + std::string(name_of(buffer.dtype)));
  }
  if (!plan::is_bound(buffer.shape, run.symbols)) return std::optional<Binding>();
  if (shared_.use(id).late) RP_TRY(caller_.values().place_late(run));
  const RunMemory::Location& where = caller_.memory().location(id);
  if (where.buffer == nullptr) return internal_error("'" + buffer.name + "' has no memory");
  Binding b;
  b.name = buffer.name;
  b.device = where.buffer;
  b.device_offset = where.offset;
  RP_ASSIGN(b.dims, plan::eval_dims(shared_.io(), buffer.shape, run.symbols, buffer.name));
  return std::optional(std::move(b));
}

Status BodyRunner::bind(BodyCall& c, CurrentRun& run) {
  const package::DeviceBody& form = body(c.body);
  c.captured.resize(form.captures.size());
  for (size_t i = 0; i < form.captures.size(); ++i) {
    const plan::BufferId id = c.call.inputs[form.captures[i]];
    RP_TRY(check_type(form, c.inputs.size(), shared_.plan->buffers[id]));
    RP_ASSIGN(Binding b, passed(id, run, c.captured[i]));
    c.inputs.push_back(std::move(b));
  }
  if (c.inputs.size() != form.io.inputs.size()) {
    return internal_error(form.name + " has " + std::to_string(form.io.inputs.size()) +
                          " inputs, but " + std::to_string(c.inputs.size()) + " are passed");
  }
  c.symbols.assign(form.io.symbols.size(), plan::kUnbound);
  std::copy_n(run.symbols.begin(), std::min(run.symbols.size(), form.inherited_symbols),
              c.symbols.begin());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const plan::Slot& slot = form.io.inputs[i];
    const Binding& b = c.inputs[i];
    RP_TRY(plan::bind_from_shape(form.io, slot.name, slot.shape, b.host ? b.host->dims() : b.dims,
                                 c.symbols)
               .with_context(form.name));
  }
  plan::derive_symbols(form.io, c.symbols);
  return plan::check_guards(form.io, c.symbols);
}

Result<RunContext*> BodyRunner::context_of(uint32_t body, size_t turn) {
  contexts_[body].resize(std::max(contexts_[body].size(), turn + 1));
  std::unique_ptr<RunContext>& context = contexts_[body][turn];
  if (!context) {
    caller_.memory().set_starved(true);
    RP_ASSIGN(context, RunContext::create(*shared_.session.bodies[body]));
    caller_.memory().set_starved(false);
  }
  return context.get();
}

// Makes `r` the next run of a body, in the context with the number `turn`. Results with a place in
// `outputs` will be written there; a result that cannot be written there loses its place.
Status BodyRunner::prepare(BodyCall& c, size_t turn, const CurrentRun& run, BodyRun& r) {
  const package::DeviceBody& form = body(c.body);
  r.body = c.body;
  r.inputs = c.inputs;
  r.io.symbols = c.symbols;
  r.io.inputs.clear();
  for (const Binding& b : r.inputs) r.io.inputs.push_back(&b);
  r.io.outputs.assign(form.io.outputs.size(), nullptr);
  const size_t placed = std::min(c.outputs.size(), r.io.outputs.size());
  for (size_t o = 0; o < placed; ++o) {
    const plan::Slot& slot = form.io.outputs[o];
    // The size of a result that depends on data is not known before the body has run.
    if (c.outputs[o] && !plan::is_bound(slot.shape, c.symbols)) c.outputs[o].reset();
    if (!c.outputs[o]) continue;
    RP_ASSIGN(const auto dims, plan::eval_dims(form.io, slot.shape, c.symbols, slot.name));
    if (dims != c.outputs[o]->dims) {
      return invalid_model(form.name + " returns " + describe(slot.dtype, dims) + " for '" +
                           c.outputs[o]->name + "', which is " +
                           describe(slot.dtype, c.outputs[o]->dims));
    }
  }
  r.outputs = c.outputs;
  for (size_t o = 0; o < placed; ++o) r.io.outputs[o] = r.outputs[o] ? &*r.outputs[o] : nullptr;
  RP_ASSIGN(r.context, context_of(c.body, turn));
  r.context->start_body(r.io, run.left, c.random);
  return {};
}

// Accounts for a run of a body that has ended with the status `done`, and returns it.
Status BodyRunner::leave(const BodyRun& r, const Status& done, CurrentRun& run) {
  const CurrentRun& own = r.context->current();
  run.stats.bytes_copied += own.stats.bytes_copied;
  run.stats.host_submit_us += own.stats.host_submit_us;
  run.stats.longest_slice_us = std::max(run.stats.longest_slice_us, own.stats.longest_slice_us);
  if (shared_.session.options.timestamps) {
    run.body_us.resize(shared_.session.bodies.size());
    add(run.body_us[r.body], own.stats.kernel_us);
    for (size_t b = 0; b < own.body_us.size(); ++b) add(run.body_us[b], own.body_us[b]);
  }
  r.context->leave_body();
  if (r.context->memory().starved()) caller_.memory().set_starved(true);
  if (r.context->executor().availability() != Availability::Free) {
    late_.push_back(r.context);
    caller_.executor().wait_for_bodies();
  }
  return done.ok() ? done : done.with_context("in the " + body(r.body).name);
}

Status BodyRunner::begin(BodyCall& c, size_t turn, CurrentRun& run, BodyRun& r) {
  RP_TRY(prepare(c, turn, run, r));
  const Status begun = r.context->begin_body();
  return begun.ok() ? begun : leave(r, begun, run);
}

Result<std::vector<HostTensor>> BodyRunner::end(BodyRun& r, CurrentRun& run) {
  std::vector<HostTensor> results;
  RP_TRY(leave(r, r.context->end_body(results), run));
  return results;
}

Result<std::vector<HostTensor>> BodyRunner::execute(BodyCall& c, CurrentRun& run) {
  BodyRun r;
  RP_TRY(prepare(c, 0, run, r));
  std::vector<HostTensor> results;
  RP_TRY(leave(r, r.context->execute_body(results), run));
  return results;
}

Status BodyRunner::call(uint32_t step, CurrentRun& run) {
  const auto& call = std::get<plan::HostCall>(shared_.plan->steps[step].what);
  const HostRun host = run_of_call(*shared_.plan, call, {.deadline = {}, .random = run.random});
  const Status done = host::control_flow_of(call.op) == host::ControlFlow::If
                          ? run_branch(call, host, run)
                          : LoopRun(*this, step, call, host, run).run();
  return done.with_context(describe_call(call)).about(call.node);
}

Status BodyRunner::run_branch(const plan::HostCall& call, const HostRun& host, CurrentRun& run) {
  if (call.inputs.empty() || call.inputs[0].is_none()) return invalid_model("it has no condition");
  RP_ASSIGN(const HostTensor condition, caller_.values().fetch(call.inputs[0], run));
  RP_ASSIGN(const int64_t taken, scalar_of(condition, DType::Bool, "the condition"));
  BodyCall c{.call = call,
             .body = call.device_bodies[taken != 0 ? 0 : 1],
             .inputs = {},
             .random = host.random};
  const package::DeviceBody& form = body(c.body);
  if (form.io.outputs.size() < call.outputs.size())
    return internal_error("its branch returns too few values");
  RP_TRY(bind(c, run));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    RP_ASSIGN(c.outputs.emplace_back(), place_of(call.outputs[i], form.io.outputs[i], run));
  }
  RP_ASSIGN(std::vector<HostTensor> results, execute(c, run));
  RP_TRY(check_results(*shared_.plan, shared_.io(), call, results, run.symbols));
  RP_TRY(caller_.values().place_late(run));
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.outputs[i].is_none() && !c.outputs[i])
      RP_TRY(caller_.values().accept(call.outputs[i], std::move(results[i]), run));
  }
  return {};
}

Status BodyRunner::copy_on_device(std::vector<Command> copies, CurrentRun& run) {
  RecordingDesc desc;
  const size_t count = copies.size();
  desc.commands = std::move(copies);
  if (!shared_.session.device->takes_edges())
    desc.commands.emplace_back().kind = Command::Kind::HostBarrier;
  desc.blocks = caller_.memory().blocks_buffer();
  desc.once = true;
  RP_ASSIGN(copies_, shared_.session.device->record(std::move(desc)));
  ++shared_.session.totals.recordings;
  RP_TRY(caller_.executor().submit(*copies_, run));
  RP_TRY(caller_.executor().wait(*copies_, run));
  ++shared_.session.totals.submits;
  shared_.session.totals.copies += count;
  return {};
}

}  // namespace reprise
