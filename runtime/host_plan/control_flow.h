// If, Loop and Scan on the host: runs their bodies, and slices and stacks the values of Scan.
// https://onnx.ai/onnx/operators/onnx__Loop.html and onnx__Scan.html define them.
#pragma once

#include <span>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/plan/plan.h"

namespace reprise {

struct ControlFlowCall {
  const plan::HostCall& call;
  std::span<const HostTensor* const> inputs;  // of the call; null for omitted ones
  std::span<const int64_t> symbols;           // of the caller
  const HostBodies& bodies;
  HostRun run;
};

/// The only element of a tensor of type bool or int64.
Result<int64_t> scalar_of(const HostTensor& t, DType dtype, const std::string& what);
/// Element `i` of the axis, without the axis.
Result<HostTensor> slice_at(const HostTensor& t, size_t axis, size_t i);
/// Tensors of equal shape side by side along a new axis. The axis has `length` elements; those
/// beyond the tensors are zero.
Result<HostTensor> stack(const std::vector<HostTensor>& parts, size_t axis, size_t length,
                         const HostTensor& like);

/// The attributes of Scan, with axes counted from 0.
struct ScanForm {
  size_t states = 0, scanned = 0, outputs = 0;  // values that the body takes and returns
  std::vector<size_t> in_axes, out_axes;
  std::vector<bool> in_reversed, out_reversed;
};
/// `io` is the interface of a body that captures `captures` values. `ranks` are those of the states
/// and the scanned tensors.
Result<ScanForm> read_scan_form(const plan::HostCall& call, const plan::Interface& io,
                                size_t captures, std::span<const int64_t> ranks);

/// Whether the call is an If, Loop or Scan.
bool is_control_flow(const plan::HostCall& call);
/// Returns the outputs of the call.
Result<std::vector<HostTensor>> run_control_flow(const ControlFlowCall& c);

}  // namespace reprise
