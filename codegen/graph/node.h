// The nodes of a graph: which operator is applied to which values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/op_name.h"
#include "runtime/base/id.h"
#include "runtime/operators/attrs.h"

namespace reprise::graph {

using ValueId = Id<struct ValueTag>;
inline constexpr ValueId kNone;  // an omitted optional input or output

class Graph;

/// An ordered list of values: inputs or outputs of a node, or outputs of the graph. Only the graph
/// changes a list, because it updates users and producers at the same time.
class ValueList {
 public:
  using value_type = ValueId;
  using const_iterator = std::vector<ValueId>::const_iterator;

  ValueList() = default;
  ValueList(const ValueList&) = default;
  ValueList& operator=(const ValueList&) = delete;

  bool empty() const { return list_.empty(); }
  size_t size() const { return list_.size(); }
  ValueId operator[](size_t i) const { return list_[i]; }
  ValueId front() const { return list_.front(); }
  ValueId back() const { return list_.back(); }
  const ValueId* data() const { return list_.data(); }
  const_iterator begin() const { return list_.begin(); }
  const_iterator end() const { return list_.end(); }
  const std::vector<ValueId>& list() const { return list_; }
  operator const std::vector<ValueId>&() const { return list_; }
  friend bool operator==(const ValueList& a, const std::vector<ValueId>& b) { return a.list_ == b; }
  friend bool operator==(const ValueList& a, const ValueList& b) { return a.list_ == b.list_; }

 private:
  friend class Graph;
  std::vector<ValueId> list_;
};

/// The properties of a node except its inputs and outputs.
struct NodeInfo {
  OpName op;           // the ONNX operator; core operators keep the name if they mean the same
  std::string domain;  // "" is the default domain
  int64_t opset = 0;   // version of the domain that the attributes follow; 0 for core form
  std::string name;    // the model's, or "Op(first output)" if it has none
  AttrMap attrs;
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> subgraphs;  // If, Loop, Scan
  OpName origin_op;  // operator of the model's node that was decomposed; names kernels. Empty:
                     // `op`
  std::vector<std::string>
      origins;              // names of the model's nodes that this node stands for; never empty
  std::string host_reason;  // why the pass decompose left the ONNX form, which the host runs
};

/// A node that is not in a graph yet: the argument of Graph::add_node().
struct NodeSpec : NodeInfo {
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

/// A node of a graph. Only the graph changes its inputs and outputs.
class Node : public NodeInfo {
 public:
  ValueList inputs;
  ValueList outputs;

  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

 private:
  friend class Graph;
  explicit Node(NodeInfo info) : NodeInfo(std::move(info)) {}

  std::list<std::unique_ptr<Node>>::iterator position_;
  uint64_t order_ = 0;  // increases along the graph's list
};

}  // namespace reprise::graph
