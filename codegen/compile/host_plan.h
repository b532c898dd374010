// A graph as host calls, and the interface that all plans of a package have.
#pragma once

#include <string>

#include "codegen/compile/body_store.h"
#include "codegen/compile/plan_buffers.h"

namespace reprise {

/// The package's interface: names, dtypes, shapes and symbols of the model. The last `states`
/// inputs and outputs are states.
plan::Interface make_interface(const graph::Graph& g, size_t states = 0);

/// Replaces the dims in a plan of the same model by the interface's. They may be other expressions
/// for the same sizes.
void adopt_interface(const plan::Interface& io, plan::Plan& p);

/// A node as a call of its host kernel. `reason`: why no device computes it.
Result<plan::HostCall> host_call(const graph::Node& n, PlanBuffers& buffers, BodyStore& bodies,
                                 std::string reason);

/// The imported graph as host calls, one per node. It is the reference.
Result<plan::Plan> build_host_plan(const graph::Graph& g, WeightStore& weights, BodyStore& bodies,
                                   size_t states = 0);

}  // namespace reprise
