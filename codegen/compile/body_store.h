// Compiles the bodies of If, Loop and Scan to plans of host calls.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/plan/weight_store.h"
#include "runtime/package/package.h"

namespace reprise {

/// The interface of a body: its inputs, then the values that it captures.
plan::Interface body_interface(const graph::Graph& body);
/// For each value that the body of the node captures: the input of the node that it is.
std::vector<uint32_t> captured_inputs(const graph::Node& n, const graph::Graph& body);

/// The bodies of a package, shared by all its plans.
class BodyStore {
 public:
  /// The arguments must outlive the store.
  BodyStore(package::Package& p, WeightStore& weights) : package_(p), weights_(weights) {}
  /// The indices of the node's bodies in Package::bodies; none for a node without bodies. Adds
  /// those that are not there yet, and the bodies in them.
  Result<std::vector<uint32_t>> of(const graph::Node& n);

 private:
  Result<uint32_t> add(const graph::Node& n, const std::string& label,
                       const std::shared_ptr<graph::Graph>& body);

  package::Package& package_;
  WeightStore& weights_;
  /// Keeps the graphs alive, so that no other graph gets the address of one.
  std::map<std::shared_ptr<graph::Graph>, uint32_t> known_;
};

}  // namespace reprise
