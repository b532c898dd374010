// If, Loop and Scan on the host: runs their bodies, and slices and stacks the values of Scan.
// https://onnx.ai/onnx/operators/onnx__Loop.html and onnx__Scan.html define them.
#pragma once

#include <span>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/host_program.h"
#include "runtime/plan/plan.h"

namespace reprise {

struct ControlFlowCall {
  const plan::HostCall& call;
  std::span<const HostTensor* const> inputs;  // of the call; null for omitted ones
  std::span<const int64_t> symbols;           // of the caller
  const HostBodies& bodies;
  HostRun run;
};

/// Whether the call is an If, Loop or Scan.
bool is_control_flow(const plan::HostCall& call);
/// Returns the outputs of the call.
Result<std::vector<HostTensor>> run_control_flow(const ControlFlowCall& c);

}  // namespace reprise
