// Fusion: which nodes of a graph become one kernel.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/lower/fusion_decision.h"
#include "codegen/lower/group.h"
#include "runtime/device_facts.h"
#include "shaders/target_facts.h"

namespace reprise::lower {

/// Two nodes in different kernels although one reads what the other writes, and why.
struct Edge {
  std::string from, to, reason;
};

struct Fusion {
  std::vector<Group> groups;  // in an order that can run
  std::vector<Edge> unfused;
  std::vector<FusionDecision> decisions;  // the joins, in the order in which they were made
  /// What prices asked of the devices: all that answer alike have the same fusion.
  shaders::TargetFacts asked = Predicate{};
};

/// Which attention becomes one kernel: none, what costs less that way, or all that can.
enum class FuseAttention : uint8_t { Never, Priced, Always };

struct FusionOptions {
  /// Otherwise one group per node; views that only rename still cost nothing.
  bool enabled = true;
  FuseAttention attention = FuseAttention::Priced;
  /// Prices are those of devices that satisfy it.
  Predicate device = {};
  /// These nodes get kernels of their own.
  std::set<const graph::Node*> separate = {};
  FusionLimit limit = {};
};

/// Splits a graph in core form into groups: a pure function of the graph and the options.
Result<Fusion> fuse(const graph::Graph& g, const FusionOptions& options = {});

}  // namespace reprise::lower
