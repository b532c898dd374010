// A graph in core form, evaluated on the host node by node, as it is or with the errors put in that
// a correct device may make. reference.h says what that is for.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::fuzz {

using Tensors = std::vector<HostTensor>;
using TensorMap = std::map<graph::ValueId, HostTensor>;

class Evaluation;
class ErrorModel;

/// The values of all tensors of one evaluation, and of those of bodies.
struct Trace {
  const Evaluation* of = nullptr;
  TensorMap values;
  /// By the node that ran the body, and how often it had run one before.
  std::map<std::pair<const graph::Node*, int64_t>, Trace> bodies;

  const Trace* body(const graph::Node& n, int64_t number) const {
    const auto at = bodies.find({&n, number});
    return at == bodies.end() ? nullptr : &at->second;
  }
};

/// The errors of one evaluation.
struct Errors {
  uint64_t seed = 0;          // 0: none
  DType memory = DType::F32;  // what floats are between kernels
  /// What an evaluation without errors computed. Where a divisor is off by as much as itself, it
  /// may be 0, and the quotient anything.
  const Trace* exact = nullptr;
};

/// Half the distance of 1 from its neighbour.
double unit_roundoff(DType t);
double smallest_normal(DType t);
double smallest_number(DType t);  // above 0
/// No NaN and no infinity; true of what is not floats.
bool all_finite(const HostTensor& t);

/// Sets the symbols that follow from others; those that passes have added, too.
void derive_sizes(const graph::Graph& g, std::vector<int64_t>& symbols);

class Evaluation {
 public:
  /// The passes that every compilation runs, on the bodies of the graph as well.
  static Result<Evaluation> of(const graph::Graph& model);
  /// One node of a graph. Its inputs that are no constants become those of the evaluation.
  static Result<Evaluation> of_node(const graph::Graph& g, const graph::Node& n);
  /// The bodies of a node as they are.
  static Evaluation of_bodies(const graph::Node& n);
  /// The values of all tensors.
  Result<Trace> trace(const std::vector<int64_t>& symbols, const Tensors& inputs,
                      const Errors& errors = {}) const;
  /// The results of a node that of_bodies() was called for. `symbols`: of its graph.
  Result<Tensors> run(const graph::Node& n, const std::vector<const HostTensor*>& inputs,
                      const std::vector<int64_t>& symbols) const;
  Tensors outputs_of(const TensorMap& values) const;
  /// Whether an operator made an infinity or NaN of finite operands.
  static bool overflows(const Trace& trace);
  /// Whether constants hold infinities or NaN.
  bool has_infinities() const;
  const graph::Graph& graph() const { return *g_; }
  const Evaluation& body(const graph::Node& n, size_t which) const {
    return *bodies_.at({&n, which});
  }

 private:
  std::shared_ptr<graph::Graph> g_;  // null where there are only bodies
  std::map<std::pair<const graph::Node*, size_t>, std::shared_ptr<Evaluation>> bodies_;
};

}  // namespace reprise::fuzz
