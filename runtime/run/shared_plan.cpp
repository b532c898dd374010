// What follows from a plan of a session: how it uses its buffers, and what its runs share.
#include "runtime/run/shared_plan.h"

#include <algorithm>
#include <cstring>

#include "runtime/check/check.h"
#include "runtime/host/control_flow_kind.h"

namespace reprise {

uint64_t SessionResources::timeout_ns() const {
  return options.timeout_ns != 0 ? options.timeout_ns
                                 : default_timeout_ns(device->info().facts.kind);
}

bool SharedPlan::is_one_submission() const {
  return segments.size() == 1 && !segments[0].levels.empty() && segments[0].host_calls.empty() &&
         !keeps_host_values && state_copies.empty();
}

bool SharedPlan::begins_with_a_submission() const {
  return !segments.empty() && !segments[0].levels.empty();
}

void SharedPlan::index_segments() {
  table = plan::layout_blocks(*plan, session.device->info().facts.buffer_address
                                         ? plan::kBufferAlignment
                                         : plan::kDescriptorAlignment);
  segments = plan::cut_segments(*plan);
  updates_states.assign(segments.size(), false);
  while (first_recorded < segments.size() && segments[first_recorded].levels.empty())
    ++first_recorded;
  for (size_t s = 0; s < segments.size(); ++s) {
    keeps_host_values = keeps_host_values || !segments[s].host_calls.empty();
    for (const uint32_t step : segments[s].host_calls)
      index_body_call(std::get<plan::HostCall>(plan->steps[step].what));
    for (const auto& level : segments[s].levels) {
      for (const uint32_t step : level) {
        const auto& launch = std::get<plan::Launch>(plan->steps[step].what);
        asks_for_errors = asks_for_errors || launch.commits;
        for (size_t i = 0; i < launch.buffers.size(); ++i) {
          BufferUse& own = uses[launch.buffers[i]];
          own.on_device = true;
          if (!launch.writes[i]) continue;
          own.last_segment = static_cast<int32_t>(s);
          if (plan->buffers[launch.buffers[i]].kind != plan::BufferKind::State) continue;
          updates_states[s] = true;
          updates_commit = updates_commit && launch.commits;
        }
      }
    }
  }
}

void SharedPlan::find_only_recorded() {
  for (size_t s = 0; s < segments.size(); ++s) {
    if (segments[s].levels.empty() && segments[s].host_calls.empty()) continue;
    const bool alone = body != nullptr && !only_recorded && segments[s].host_calls.empty();
    only_recorded = alone ? std::optional(s) : std::nullopt;
    if (!alone) return;
  }
}

// The values that bodies on the device take and return are in device memory. Weights are passed
// from the host.
void SharedPlan::index_body_call(const plan::HostCall& call) {
  const auto mark = [this](plan::BufferId b) {
    if (!b.is_none() && plan->buffers[b].kind != plan::BufferKind::Weight) uses[b].on_device = true;
  };
  for (const uint32_t b : call.device_bodies) {
    const package::DeviceBody& own = *session.bodies[b]->body;
    for (const uint32_t c : own.captures) mark(call.inputs[c]);
    const size_t passed = own.io.inputs.size() - own.captures.size();
    const size_t first = host::control_flow_of(call.op) == host::ControlFlow::Loop ? 2 : 0;
    for (size_t i = first; i < std::min(passed, call.inputs.size()); ++i) mark(call.inputs[i]);
  }
  if (call.device_bodies.empty()) return;
  calls_bodies = true;
  for (const plan::BufferId b : call.outputs) mark(b);
}

Status SharedPlan::index_buffers() {
  const std::vector<bool> known = known_from_inputs(io().sources);
  std::vector<int64_t> from_inputs(known.size(), plan::kUnbound);
  for (size_t s = 0; s < known.size(); ++s)
    if (known[s]) from_inputs[s] = 1;
  of_input.resize(io().inputs.size());
  of_output.resize(io().outputs.size());
  of_state.resize(io().states.size());
  for (const plan::BufferId id : plan->buffers.ids()) {
    const plan::Buffer& buffer = plan->buffers[id];
    uses[id].late = !plan::is_bound(buffer.shape, from_inputs);
    if (buffer.kind == plan::BufferKind::Arena && uses[id].on_device)
      fixed_placement = fixed_placement && is_static(buffer.shape);
    if (buffer.kind == plan::BufferKind::Input)
      of_input[static_cast<size_t>(buffer.index)].push_back(id);
    if (buffer.kind == plan::BufferKind::Output)
      of_output[static_cast<size_t>(buffer.index)].buffer = id;
    if (buffer.kind == plan::BufferKind::State)
      of_state[static_cast<size_t>(buffer.index)].current = id;
    const bool next =
        buffer.kind == plan::BufferKind::NextState || buffer.kind == plan::BufferKind::NewRows;
    if (next) of_state[static_cast<size_t>(buffer.index)].next = id;
    const bool all = buffer.kind == plan::BufferKind::AllRows;
    if (all) of_state[static_cast<size_t>(buffer.index)].all = id;
    uses[id].on_device =
        uses[id].on_device || buffer.kind == plan::BufferKind::State || next || all;
  }
  for (const auto& alias : plan->aliases) {
    const plan::Buffer& to = plan->buffers[alias.output];
    keeps_host_values = true;
    if (to.kind == plan::BufferKind::NextState) {
      state_copies.push_back(alias);
    } else {
      of_output[static_cast<size_t>(to.index)].alias_of = alias.from;
    }
  }
  return check_buffers();
}

Status SharedPlan::check_buffers() const {
  for (size_t o = 0; o < of_output.size(); ++o) {
    if (of_output[o].buffer.is_none())
      return invalid_model("no buffer of the plan is output '" + io().outputs[o].name + "'");
  }
  for (const plan::BufferId b : plan->buffers.ids()) {
    if (!uses[b].on_device) continue;
    if (is_host_only(plan->buffers[b].dtype))
      return invalid_model("tensor '" + plan->buffers[b].name + "': kernels cannot use values of " +
                           std::string(name_of(plan->buffers[b].dtype)));
    // Kernels rely on weights having the sizes that the plan states.
    if (plan->buffers[b].kind == plan::BufferKind::Weight)
      RP_TRY(check_weight(*session.package, *plan, plan->buffers[b]));
  }
  return {};
}

Status SharedPlan::fix_grids() {
  fixed_grids.resize(plan->steps.size());
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    const auto* launch = std::get_if<plan::Launch>(&plan->steps[s].what);
    if (!launch || table.indirect[s] != plan::kNone) continue;
    RP_ASSIGN(fixed_grids[s], plan::eval_grid(*plan, *launch, {}, session.limits));
  }
  return {};
}

void SessionResources::count_states() {
  const uint64_t bytes = own_states.bytes();
  totals.device_bytes += bytes - state_bytes;
  state_bytes = bytes;
}

Status SharedPlan::index() {
  uses.assign(plan->buffers.size(), {});
  index_segments();
  find_only_recorded();
  RP_TRY(index_buffers());
  return fix_grids();
}

Status SharedPlan::load_weights(std::span<const KnownWeights> known) {
  RP_TRY(host_weights.load(*session.package, *plan));
  RP_ASSIGN(prepared,
            PreparedCalls::create(*plan, [this](plan::BufferId b) { return host_weight(b); }));
  RP_ASSIGN(weights, upload_weights(*session.package, *plan, *session.device, known));
  session.totals.device_bytes += weights.bytes;
  return {};
}

Status SharedPlan::warm_up() const {
  if (kernels.empty()) return {};
  uint64_t block_bytes = 16;  // no invocation reads the block, which names no memory
  for (const plan::KernelCode& k : plan->kernels)
    block_bytes = std::max<uint64_t>(
        block_bytes, plan::BlockLayout::size(k.n_buffers, k.n_scalars, k.views.size()));
  RP_ASSIGN(const auto block, session.device->allocate(block_bytes, MemoryUse::Upload));
  std::memset(block->mapped(), 0, block->size());
  RecordingDesc desc;
  desc.blocks = block.get();
  desc.once = true;
  for (const auto& kernel : kernels) {
    Command c;
    c.kernel = kernel.get();
    desc.commands.push_back(c);
  }
  RP_ASSIGN(const auto recording, session.device->record(std::move(desc)));
  RP_TRY(recording->submit());
  return recording->wait(session.timeout_ns());
}

}  // namespace reprise
