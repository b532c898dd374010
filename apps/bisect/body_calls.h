// The calls of the bodies of If, Loop and Scan, as models of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/bisect/host_values.h"
#include "apps/common/inputs.h"

namespace reprise::app {

struct BodyCall {
  /// The body as devices compile it: captured constants are constants, and what else it reads are
  /// inputs.
  std::unique_ptr<graph::Graph> model;
  InputSet inputs;   // as the host computes them
  std::string name;  // "iteration 2 of the body of node 'loop'"
};

/// Whether the node has bodies that the device runs.
bool runs_bodies_on_device(const plan::Plan& plan, const graph::Node& n);

/// Calls `visit` for each call of a body that the node makes with the operands in `values`, in
/// order, until it returns true. At most the first 64 iterations.
Status for_each_body_call(const graph::Graph& g, const graph::Node& n, const Values& values,
                          const std::function<Result<bool>(BodyCall)>& visit);

}  // namespace reprise::app
