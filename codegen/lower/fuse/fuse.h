// Fusion: which nodes of a graph become one kernel.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "codegen/lower/fuse/index_tests.h"
#include "codegen/lower/group/fusion_decision.h"
#include "codegen/lower/group/group.h"
#include "codegen/target/target_facts.h"
#include "runtime/facts/device_facts.h"

namespace reprise::lower {

/// Two nodes in different kernels, one of which reads a value of the other, and why.
struct Edge {
  std::string from, to, reason;
};

struct Fusion {
  std::vector<Group> groups;  // in an order in which they can run
  std::vector<Edge> unfused;
  std::vector<FusionDecision> decisions;  // the joins, in the order in which they were made
  /// The device facts that pricing asked for. Devices with the same answers have the same fusion.
  shaders::TargetFacts asked = Predicate{};
};

/// Which attention (and other matched groups that have a price) becomes one kernel: none, that
/// which is then cheaper, or all that can.
enum class FuseAttention : uint8_t { Never, Priced, Always };

struct FusionOptions {
  /// If false, every node gets a group of its own; views that only rename still cost nothing.
  bool enabled = true;
  FuseAttention attention = FuseAttention::Priced;
  /// Prices are those of devices that satisfy this predicate.
  Predicate device = {};
  /// Nodes that get kernels of their own, and those that run on the host, because other kernels
  /// could not be written: with the reason.
  std::map<const graph::Node*, std::string> separate = {};
  std::map<const graph::Node*, std::string> on_host = {};
  /// Nodes that read a weight of more bytes run on the host.
  uint64_t largest_weight = std::numeric_limits<uint64_t>::max();
  FusionLimit limit = {};
  /// Those of other fusions of the graph, or of graphs with its symbols and guards; null: none were
  /// made.
  IndexTests* tests = nullptr;
};

/// Splits a graph in core form into groups: a pure function of the graph and the options.
Result<Fusion> fuse(const graph::Graph& g, const FusionOptions& options = {});

}  // namespace reprise::lower
