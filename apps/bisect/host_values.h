// Executes a graph with the host kernels and keeps every value: the inputs and expected outputs of
// each kernel of a device.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/base/random.h"
#include "runtime/base/tensor.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/plan/plan.h"

namespace reprise::app {

/// The values of a graph by id, and the values of its symbols.
struct Values {
  IdVector<graph::ValueId, std::optional<HostTensor>> of;
  std::vector<int64_t> symbols;

  const HostTensor& at(graph::ValueId v) const { return *of[v]; }
  bool has(graph::ValueId v) const { return of[v].has_value(); }
};

/// Adds relative errors of a few units in the last place to results that nodes compute from
/// computed floats. An outcome that changes with them is decided by rounding, not by the model.
class Noise {
 public:
  /// `exact` are the values without noise. If noise changes a size, so that a node cannot be
  /// computed, its operands are taken from them. They must outlive this object. `least_unit` is a
  /// lower bound for the relative size of a unit in the last place.
  Noise(uint64_t seed, const Values& exact, double least_unit)
      : state_(seed * 0x9E3779B97F4A7C15U + 1), exact_(exact), least_unit_(least_unit) {}
  /// Returns a tensor that is not a float tensor unchanged.
  HostTensor add(const HostTensor& t);
  const Values& exact() const { return exact_; }
  /// Other noise of this kind, for values that are computed within a node. `exact` must outlive it.
  Noise within(const Values& exact) { return {splitmix64(state_), exact, least_unit_}; }

 private:
  double next();  // in [-1, 1)
  uint64_t state_;
  const Values& exact_;
  double least_unit_;
};

class ComposedNodes;

class HostGraph {
 public:
  /// `g` must outlive this object.
  explicit HostGraph(const graph::Graph& g);
  HostGraph(const HostGraph&) = delete;
  HostGraph& operator=(const HostGraph&) = delete;
  ~HostGraph();

  /// `inputs` are in the graph's order. Values with a 16-bit storage dtype are rounded to it.
  Result<Values> run(std::span<const HostTensor> inputs, Noise* noise = nullptr) const;
  /// Computes the nodes again. Their operands must be in `values`.
  Status run(std::span<const graph::Node* const> nodes, Values& values,
             Noise* noise = nullptr) const;
  /// The nodes, in order, that compute the wanted values from the known ones.
  std::vector<const graph::Node*> between(std::span<const graph::ValueId> known,
                                          std::span<const graph::ValueId> wanted) const;

 private:
  Status load();
  Status load_bodies();
  Status run(const graph::Node& n, Values& values, Noise* noise) const;
  Result<std::vector<HostTensor>> call(const graph::Node& n, const Values& values,
                                       std::vector<int64_t>& symbols, Noise* noise) const;

  const graph::Graph& g_;
  plan::Interface io_;
  plan::Plan plan_;                            // only its buffers are used: one for each value
  std::unique_ptr<package::Package> package_;  // only its bodies and their weights are used
  std::map<const graph::Node*, std::vector<uint32_t>> bodies_of_;
  HostBodies bodies_;
  std::unique_ptr<ComposedNodes> composed_;  // null: every node has a host kernel
  Status loaded_;
};

/// Converts a tensor to the float dtype that memory holds, and back. 16-bit dtypes saturate
/// (docs/compiler.md).
HostTensor to_storage(const HostTensor& t, DType storage);
HostTensor from_storage(const HostTensor& t, DType dtype);

}  // namespace reprise::app
