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
#include "runtime/base/attrs.h"
#include "runtime/base/id.h"

namespace reprise::graph {

using ValueId = Id<struct ValueTag>;
inline constexpr ValueId kNone;  // an omitted optional input or output

class Graph;

/// Values that a graph keeps in order: what a node reads or makes, or the graph's outputs. Only the
/// graph changes the list, as it keeps the users and the producer of each value with it.
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

/// What a node says besides the values that it reads and makes.
struct NodeInfo {
  OpName op;           // ONNX operator name; core operators keep the ONNX name of their meaning
  std::string domain;  // "" is the default domain
  int64_t opset = 0;   // version of the domain that the attributes follow; 0 for core form
  std::string name;    // the model's, or "Op(first output)" when it had none
  AttrMap attrs;
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> subgraphs;  // If, Loop, Scan
  OpName origin_op;  // the operator of the model's node that a decomposition came from; names
                     // kernels. Empty: `op`
  std::vector<std::string>
      origins;  // names of the model's nodes that this node stands for; never empty
};

/// A node that no graph has yet: what Graph::add_node() takes.
struct NodeSpec : NodeInfo {
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

/// A node of a graph. Its operands and results change through the graph alone.
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
  uint64_t order_ = 0;  // grows along the graph's list
};

}  // namespace reprise::graph
