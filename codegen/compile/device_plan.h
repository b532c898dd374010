// Builds the plan of a variant from groups: buffers, weights, kernels shared between launches,
// steps with hazards.
#pragma once

#include <vector>

#include "codegen/compile/compile_context.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/probes/probes.h"
#include "codegen/target/target.h"

namespace reprise {

/// The plan of one variant, and the kernel IR of its kernels if they are to be probed.
struct DevicePlan {
  plan::Plan plan;
  std::vector<EmittedKernel> kernels;
};

/// If a group's kernel cannot be written, `failed` is set to the group.
Result<DevicePlan> build_device_plan(CompileContext& context, const lower::Fusion& fusion,
                                     const lower::Target& target, const lower::Group** failed);

}  // namespace reprise
