// A graph on the host kernels with every value kept: what each kernel of a device must be given,
// and what it must give.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"

namespace reprise::app {

/// Values by id, and sizes.
struct Values {
  IdVector<graph::ValueId, std::optional<HostTensor>> of;
  std::vector<int64_t> symbols;

  const HostTensor& at(graph::ValueId v) const { return *of[v]; }
  bool has(graph::ValueId v) const { return of[v].has_value(); }
};

/// Relative errors of some units in the last place, put into what nodes compute from floats that
/// were computed. What changes by them is not decided by the model, but by rounding.
class Noise {
 public:
  /// `least_unit`: the relative size of a unit in the last place, for dtypes whose own is smaller.
  explicit Noise(uint64_t seed, double least_unit = 0)
      : state_(seed * 0x9E3779B97F4A7C15U + 1), least_unit_(least_unit) {}
  /// Other tensors come back as they are.
  HostTensor add(const HostTensor& t);

 private:
  double next();  // in [-1, 1)
  uint64_t state_;
  double least_unit_;
};

class HostGraph {
 public:
  /// `g` must outlive this. Bodies of If are not executed: the importer keeps few, and no plan has
  /// them.
  explicit HostGraph(const graph::Graph& g);

  /// `inputs` in the graph's order. What memory holds in 16 bits is rounded so.
  Result<Values> run(std::span<const HostTensor> inputs, Noise* noise = nullptr) const;
  /// Computes nodes again; what they read is in `values`.
  Status run(std::span<const graph::Node* const> nodes, Values& values,
             Noise* noise = nullptr) const;
  /// The nodes between values that are known and others that are wanted, in order.
  std::vector<const graph::Node*> between(std::span<const graph::ValueId> known,
                                          std::span<const graph::ValueId> wanted) const;

 private:
  Status run(const graph::Node& n, Values& values, Noise* noise) const;
  Result<std::vector<HostTensor>> call(const graph::Node& n, Values& values, Noise* noise) const;

  const graph::Graph& g_;
  plan::Interface io_;
  plan::Plan plan_;  // its buffers alone: one for each value
};

/// As a tensor is in memory of another float type, and back. 16 bits saturate (docs/compiler.md).
HostTensor to_storage(const HostTensor& t, DType storage);
HostTensor from_storage(const HostTensor& t, DType dtype);

}  // namespace reprise::app
