// Builds plans from groups: buffers, weights, kernels shared between launches, steps with hazards.
#pragma once

#include <vector>

#include "codegen/compile/compile_context.h"
#include "codegen/kernel/ir/kernel.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/plan/weight_store.h"
#include "codegen/target/target.h"

namespace reprise {

/// The package's interface: names, dtypes, shapes and symbols of the model. The last `states`
/// inputs and outputs are states.
plan::Interface make_interface(const graph::Graph& g, size_t states = 0);

/// Replaces the dims in a plan of the same model by the interface's. They may be other expressions
/// for the same sizes.
void adopt_interface(const plan::Interface& io, plan::Plan& p);

/// The imported graph as host calls, one per node. It is the reference.
Result<plan::Plan> build_host_plan(const graph::Graph& g, WeightStore& weights, BodyStore& bodies,
                                   size_t states = 0);

/// The plan of one variant, and the kernel IR of its kernels if they are to be probed.
struct DevicePlan {
  plan::Plan plan;
  std::vector<kernel::Kernel> kernels;
};

/// If a group's kernel cannot be written, `failed` is set to the group.
Result<DevicePlan> build_device_plan(CompileContext& context, const lower::Fusion& fusion,
                                     const lower::Target& target, const lower::Group** failed);

}  // namespace reprise
