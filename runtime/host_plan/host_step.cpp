#include "runtime/host_plan/host_step.h"

#include "runtime/base/random.h"
#include "runtime/host_plan/control_flow.h"
#include "runtime/operators/eval_attrs.h"
#include "runtime/plan/bind.h"

namespace reprise {
namespace {

Status check_result(const plan::Plan& plan, const plan::Interface& io, plan::BufferId id,
                    const HostTensor& t, std::vector<int64_t>& symbols) {
  const plan::Buffer& b = plan.buffers[id];
  if (t.dtype() != b.dtype) {
    return internal_error("tensor '" + b.name + "': the host kernel returned " +
                          std::string(name_of(t.dtype())) + ", the plan expects " +
                          std::string(name_of(b.dtype)));
  }
  return plan::bind_from_shape(io, b.name, b.shape, t.dims(), symbols);
}

/// The plan expects of items what the model declares, but an application gives what it likes. So a
/// result that does not fit is no bug if it may come from a container.
Status blame_items(const plan::Plan& plan, const plan::HostCall& call, Status result) {
  if (result.code() != Code::Internal) return result;
  for (const plan::BufferId input : call.inputs) {
    if (input.is_none() || !is_container(plan.buffers[input].dtype)) continue;
    return invalid_input(result.message() + ", because the items of '" + plan.buffers[input].name +
                         "' (" + std::string(name_of(plan.buffers[input].dtype)) +
                         ") do not have the shapes that the model declares");
  }
  return result;
}

}  // namespace

std::string describe_call(const plan::HostCall& call) {
  return "node '" + call.node + "' (" + call.op + ")";
}

HostRun run_of_call(const plan::Plan& plan, const plan::HostCall& call, HostRun run) {
  if (call.outputs.empty() || call.outputs[0].is_none()) return run;
  for (const char c : plan.buffers[call.outputs[0]].name) {
    run.random.position ^= static_cast<uint8_t>(c);
    run.random.position = splitmix64(run.random.position);
  }
  return run;
}

namespace {

Result<std::vector<HostTensor>> call_kernel(const HostCaller& caller, const plan::HostCall& call,
                                            std::span<const HostTensor* const> inputs,
                                            const std::vector<int64_t>& symbols) {
  const host::Kernel kernel = host::find(call.op);
  if (!kernel) return host::require(call.op).with_context(describe_call(call)).about(call.node);
  auto attrs = eval_attrs(call.attrs, symbols);
  if (!attrs.ok()) return attrs.status().with_context(describe_call(call)).about(call.node);
  host::Call c{.op = call.op,
               .opset = call.opset,
               .attrs = *attrs,
               .inputs = inputs,
               .output_count = call.outputs.size(),
               .prepared = caller.prepared,
               .random = run_of_call(caller.plan, call, caller.run).random};
  if (!call.outputs.empty() && !call.outputs[0].is_none()) {
    const plan::Buffer& first = caller.plan.buffers[call.outputs[0]];
    if (plan::is_bound(first.shape, symbols)) {
      RP_ASSIGN(c.output_dims, plan::eval_dims(caller.io, first.shape, symbols, first.name));
    }
  }
  return kernel(c);
}

}  // namespace

Result<std::vector<HostTensor>> run_host_call(const HostCaller& caller, const plan::HostCall& call,
                                              std::span<const HostTensor* const> inputs,
                                              std::vector<int64_t>& symbols) {
  const std::string subject = describe_call(call);
  auto results = is_control_flow(call)
                     ? run_control_flow({call, inputs, symbols, caller.bodies,
                                         run_of_call(caller.plan, call, caller.run)})
                     : call_kernel(caller, call, inputs, symbols);
  if (!results.ok()) return results.status().with_context(subject).about(call.node);
  RP_TRY(check_results(caller.plan, caller.io, call, *results, symbols));
  return results;
}

Status check_results(const plan::Plan& plan, const plan::Interface& io, const plan::HostCall& call,
                     std::span<const HostTensor> results, std::vector<int64_t>& symbols) {
  const std::string subject = describe_call(call);
  if (results.size() < call.outputs.size()) {
    return internal_error(subject + ": the host kernel returned " + std::to_string(results.size()) +
                          " outputs of " + std::to_string(call.outputs.size()))
        .about(call.node);
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].is_none()) continue;
    RP_TRY(blame_items(plan, call, check_result(plan, io, call.outputs[i], results[i], symbols))
               .with_context(subject)
               .about(call.node));
  }
  return plan::check_guards(io, symbols);
}

}  // namespace reprise
