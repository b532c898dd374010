#include "runtime/host_plan/host_program.h"

#include "runtime/base/random.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/plan/bind.h"
#include "runtime/weights/weights.h"

namespace reprise {

namespace {

Status check_limits(const HostRun& run) {
  RP_TRY(check_cancelled(run.cancelled));
  if (Clock::now() < run.deadline) return {};
  return {Code::Timeout,
          "the run exceeded its time limit on the host; if its loops end, raise the session's "
          "time limit"};
}

}  // namespace

Status check_cancelled(const CancelFlag* cancelled) {
  if (!cancelled || !*cancelled) return {};
  return {Code::Cancelled, "the run was cancelled"};
}

HostRun HostRun::create(Deadline deadline, uint64_t seed, uint64_t number) {
  uint64_t state = seed;
  state = splitmix64(state) ^ number;
  return {.deadline = deadline, .random = {splitmix64(state), 0}};
}

HostRun HostRun::iteration(uint64_t number) const {
  HostRun next = *this;
  next.random.position ^= number + 1;
  next.random.position = splitmix64(next.random.position);
  return next;
}

Result<HostProgram> HostProgram::load(const package::Package& package, const plan::Plan& plan,
                                      const plan::Interface& io) {
  HostProgram program(plan, io);
  RP_TRY(program.load_weights(package));
  RP_TRY(program.find_outputs());
  RP_TRY(program.find_last_uses());
  RP_ASSIGN(program.prepared_, PreparedCalls::create(plan, [&program](plan::BufferId b) {
              return Result<HostTensor>(*program.weights_[b]);
            }));
  return program;
}

Status HostProgram::load_weights(const package::Package& package) {
  weights_.resize(plan_->buffers.size());
  for (const plan::BufferId b : plan_->buffers.ids()) {
    const plan::Buffer& buffer = plan_->buffers[b];
    if (buffer.kind != plan::BufferKind::Weight) continue;
    RP_ASSIGN(weights_[b], raw_weight(package, *plan_, buffer));
  }
  return {};
}

Status HostProgram::find_outputs() {
  output_buffer_.assign(io_->outputs.size() + io_->states.size(), {});
  const auto result = [this](const plan::Buffer& b) -> plan::BufferId& {
    const size_t before = b.kind == plan::BufferKind::Output ? 0 : io_->outputs.size();
    return output_buffer_[before + static_cast<size_t>(b.index)];
  };
  // A state without a next value keeps its value.
  for (const auto kind :
       {plan::BufferKind::Output, plan::BufferKind::State, plan::BufferKind::NextState}) {
    for (const plan::BufferId b : plan_->buffers.ids())
      if (plan_->buffers[b].kind == kind) result(plan_->buffers[b]) = b;
  }
  for (const auto& alias : plan_->aliases) result(plan_->buffers[alias.output]) = alias.from;
  for (size_t o = 0; o < output_buffer_.size(); ++o) {
    if (output_buffer_[o].is_none())
      return invalid_model("no buffer of the host plan is output " + std::to_string(o));
  }
  return {};
}

Status HostProgram::find_last_uses() {
  const size_t n = plan_->buffers.size();
  IdVector<plan::BufferId, bool> keep(n, false);
  for (const plan::BufferId b : output_buffer_) keep[b] = true;
  IdVector<plan::BufferId, size_t> last(n, 0);
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    const auto* call = std::get_if<plan::HostCall>(&plan_->steps[s].what);
    if (!call) return invalid_model("the host plan holds a launch");
    for (const auto* list : {&call->inputs, &call->outputs}) {
      for (const plan::BufferId b : *list)
        if (!b.is_none()) last[b] = s;
    }
  }
  dead_.resize(plan_->steps.size());
  for (const plan::BufferId b : plan_->buffers.ids())
    if (!plan_->steps.empty() && !keep[b] && !weights_[b]) dead_[last[b]].push_back(b);
  return {};
}

Status HostProgram::run_step(size_t step, Values& values, std::vector<int64_t>& symbols,
                             const HostBodies& bodies, const HostRun& run) const {
  const auto& call = std::get<plan::HostCall>(plan_->steps[step].what);
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    const plan::BufferId b = call.inputs[i];
    const auto& value = weights_[b] ? weights_[b] : values[b];
    if (!value) {
      return internal_error(describe_call(call) + ": tensor '" + plan_->buffers[b].name +
                            "' has no value yet");
    }
    inputs[i] = &*value;
  }
  RP_ASSIGN(auto results,
            run_host_call({*plan_, *io_, bodies, run, prepared_.of(step)}, call, inputs, symbols));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].is_none()) values[call.outputs[i]] = std::move(results[i]);
  for (const plan::BufferId b : dead_[step]) values[b].reset();
  return {};
}

Result<std::vector<HostTensor>> HostProgram::run(std::span<const HostTensor* const> inputs,
                                                 std::vector<int64_t>& symbols,
                                                 const HostBodies& bodies,
                                                 const HostRun& run) const {
  Values values(plan_->buffers.size());
  for (const plan::BufferId b : plan_->buffers.ids()) {
    const plan::Buffer& buffer = plan_->buffers[b];
    if (buffer.kind == plan::BufferKind::Input)
      values[b] = *inputs[static_cast<size_t>(buffer.index)];
    if (buffer.kind == plan::BufferKind::State)
      values[b] = *inputs[io_->inputs.size() + static_cast<size_t>(buffer.index)];
  }
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    RP_TRY(check_limits(run));
    RP_TRY(run_step(s, values, symbols, bodies, run));
  }
  std::vector<HostTensor> outputs;
  for (size_t o = 0; o < output_buffer_.size(); ++o) {
    const plan::BufferId b = output_buffer_[o];
    const auto& value = weights_[b] ? weights_[b] : values[b];
    if (!value) return internal_error("output '" + plan_->buffers[b].name + "' has no value");
    outputs.push_back(*value);
  }
  return outputs;
}

Result<HostBodies> HostBodies::load(const package::Package& package) {
  HostBodies out;
  out.bodies_ = &package.bodies;
  for (const plan::Body& body : package.bodies) {
    auto program = HostProgram::load(package, body.plan, body.io);
    if (!program.ok()) return program.status().with_context(body.name);
    out.programs_.push_back(*std::move(program));
  }
  return out;
}

Result<const plan::Body*> HostBodies::find(const plan::HostCall& call, size_t i) const {
  if (i < call.bodies.size() && call.bodies[i] < programs_.size())
    return &(*bodies_)[call.bodies[i]];
  return internal_error("it has no body " + std::to_string(i));
}

Result<std::vector<HostTensor>> HostBodies::run(const plan::HostCall& call, size_t i,
                                                std::span<const HostTensor* const> passed,
                                                std::span<const HostTensor* const> call_inputs,
                                                std::span<const int64_t> symbols,
                                                const HostRun& run) const {
  RP_TRY(check_limits(run));
  RP_ASSIGN(const plan::Body* const body, find(call, i));
  std::vector<const HostTensor*> inputs(passed.begin(), passed.end());
  for (const uint32_t c : body->captures) inputs.push_back(call_inputs[c]);
  if (inputs.size() != body->io.inputs.size()) {
    return internal_error(body->name + " has " + std::to_string(body->io.inputs.size()) +
                          " inputs, but " + std::to_string(inputs.size()) + " are passed");
  }
  std::vector<int64_t> own(body->io.symbols.size(), plan::kUnbound);
  std::copy_n(symbols.begin(), std::min(symbols.size(), body->inherited_symbols), own.begin());
  for (size_t k = 0; k < inputs.size(); ++k) {
    const plan::Slot& slot = body->io.inputs[k];
    if (inputs[k] == nullptr) return internal_error(body->name + ": an input has no value");
    if (inputs[k]->dtype() != slot.dtype) {
      return invalid_model(body->name + ": input '" + slot.name + "' is " +
                           std::string(name_of(slot.dtype)) + ", but it receives " +
                           describe(inputs[k]->dtype(), inputs[k]->dims()));
    }
    RP_TRY(plan::bind_from_shape(body->io, slot.name, slot.shape, inputs[k]->dims(), own)
               .with_context(body->name));
  }
  RP_TRY(plan::check_guards(body->io, own));
  auto outputs = programs_[call.bodies[i]].run(inputs, own, *this, run);
  if (!outputs.ok()) return outputs.status().with_context("in the " + body->name);
  return outputs;
}

}  // namespace reprise
