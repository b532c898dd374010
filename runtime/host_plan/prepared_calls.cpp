#include "runtime/host_plan/prepared_calls.h"

#include "runtime/host_plan/control_flow.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/operators/eval_attrs.h"

namespace reprise {
namespace {

Result<std::shared_ptr<const host::Prepared>> prepare(const plan::Plan& plan,
                                                      const plan::HostCall& call,
                                                      const PreparedCalls::Weight& weight) {
  // Attributes that depend on sizes have other values in each run.
  if (!host::can_prepare(call.op) || has_exprs(call.attrs))
    return std::shared_ptr<const host::Prepared>();
  std::vector<HostTensor> values(call.inputs.size());
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::BufferId b = call.inputs[i];
    if (b.is_none() || plan.buffers[b].kind != plan::BufferKind::Weight) continue;
    RP_ASSIGN(values[i], weight(b));
    inputs[i] = &values[i];
  }
  return host::prepare({.op = call.op,
                        .opset = call.opset,
                        .attrs = call.attrs,
                        .inputs = inputs,
                        .output_count = call.outputs.size()});
}

}  // namespace

Result<PreparedCalls> PreparedCalls::create(const plan::Plan& plan, const Weight& weight) {
  PreparedCalls out;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* call = std::get_if<plan::HostCall>(&plan.steps[s].what);
    if (call == nullptr || is_control_flow(*call)) continue;
    RP_TRY(host::require(call->op).with_context(describe_call(*call)));
    auto state = prepare(plan, *call, weight);
    if (!state.ok() || !*state) continue;
    out.states_.resize(plan.steps.size());
    out.states_[s] = *std::move(state);
  }
  return out;
}

}  // namespace reprise
