// Which plans a package gets for some sizes of its inputs, in addition to the one for all sizes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/options/compile_options.h"
#include "runtime/package/package.h"

namespace reprise {

/// A plan for some sizes.
struct PlanRequest {
  std::vector<package::SymbolValues> sizes;
  std::string why;
  bool automatic = false;  // there is no such plan unless it is estimated to be faster
};

struct PlanRequests {
  std::vector<PlanRequest> plans;  // in the order in which sessions try them
  /// Graph::likely_sizes of the plan that serves all other sizes.
  std::vector<Interval> others;
};

/// The plans that the options ask for. Code::Usage if a range names no size of the model's inputs
/// or leaves no size for its plan, if there are more than package::kMostPlans, or if a plan shares
/// sizes with one before it that becomes the plan for all other sizes.
Result<PlanRequests> requested_plans(const graph::Graph& g, const PlanChoice& choice);

/// The plans that the compiler would like: those for one row and for few rows of a model that
/// generates, whose length is the size of an input.
std::vector<PlanRequest> automatic_plans(const graph::Graph& g, const lower::Fusion& fusion);

/// A copy of the graph, after the passes, in which the sizes of a plan are known. It has the same
/// values and symbols, and shares the bodies of its nodes.
std::unique_ptr<graph::Graph> with_sizes(const graph::Graph& g, const PlanRequest& request);

}  // namespace reprise
