// A graph in core form, evaluated on the host node by node, as it is or with the errors put in that
// a correct device may make. reference.h says what that is for.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::fuzz {

using Tensors = std::vector<HostTensor>;
using TensorMap = std::map<graph::ValueId, HostTensor>;

/// The errors of one evaluation.
struct Errors {
  uint64_t seed = 0;          // 0: none
  DType memory = DType::F32;  // what floats are between kernels
  /// What an evaluation without errors computed. Where a divisor is off by as much as itself, it
  /// may be 0, and the quotient anything.
  const TensorMap* exact = nullptr;
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
  /// The passes that every compilation runs.
  static Result<Evaluation> of(const graph::Graph& model);
  /// The values of all tensors.
  Result<TensorMap> trace(const std::vector<int64_t>& symbols, const Tensors& inputs,
                          const Errors& errors = {}) const;
  Tensors outputs_of(const TensorMap& values) const;
  /// Whether an operator made an infinity or NaN of finite operands.
  bool overflows(const TensorMap& values) const;
  const graph::Graph& graph() const { return *g_; }

 private:
  template <typename Made, typename Of>
  bool any_makes(const TensorMap& values, const Made& made, const Of& of) const;

  std::unique_ptr<graph::Graph> g_;
};

}  // namespace reprise::fuzz
