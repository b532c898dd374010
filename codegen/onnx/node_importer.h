// Adds nodes of ONNX to a graph one after another, as the importer adds those of a file: with their
// types inferred, constants and control flow resolved, and the same errors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/base/status.h"

namespace reprise::onnx {

struct NodeBody;

/// A node by the names of its operands and results. An empty name is one that is left out.
struct NodeText {
  std::string op, domain;  // "" is the default domain
  std::string name;        // may be empty
  std::vector<std::string> inputs, outputs;
  AttrMap attrs;
  /// The bodies of If, Loop and Scan by the names of their attributes.
  std::vector<std::pair<std::string, std::shared_ptr<const NodeBody>>> bodies;
};

/// A body. Its nodes may read what is defined where the node with the body stands.
struct NodeBody {
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::vector<NodeText> nodes;
};

class NodeImporter {
 public:
  /// Adds to `g`, which lives longer. `opsets`: the versions of the domains.
  NodeImporter(graph::Graph& g, std::map<std::string, int64_t> opsets);
  ~NodeImporter();
  NodeImporter(const NodeImporter&) = delete;
  NodeImporter& operator=(const NodeImporter&) = delete;

  /// Makes a value of the graph known by a name that no other value has.
  Status define(const std::string& name, graph::ValueId v);
  /// Adds a node in this version of its domain; 0: that of `opsets`. After an error, the graph is
  /// as it was before.
  Status add(const NodeText& n, int64_t version);
  /// The value of a name. kNone if there is none. Results of an If whose branches differ in rank,
  /// and what follows from them, have no type before finish().
  graph::ValueId find(const std::string& name) const;
  /// Ends what waits for later nodes. Call it once, with the names that the graph returns.
  Status finish(const std::vector<std::string>& outputs);
  /// What people should know of the nodes; see Graph::notes.
  std::vector<std::string> take_notes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::onnx
