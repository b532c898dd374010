// Graph IR: the importer builds it, passes rewrite it and lowering consumes it.
// codegen/graph/semantics.md defines the core operators.
//
// A graph is a list of nodes in topological order over values in SSA form. Shapes are expressions
// over the graph's symbols. After inference each value has a shape, possibly of fresh symbols.
// Constants are values that have data and no producer. For each value, the graph keeps the nodes
// that read it.
//
// Bodies of If, Loop and Scan are graphs, too. What they read from outside is explicit: the node's
// last inputs are the captured values, and each body lists a value of its own for each of them in
// `captures` (kNone if the body does not use it). A body's first symbols are its parent's, so
// expressions over these mean the same in both.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/graph/items.h"
#include "codegen/graph/node.h"
#include "runtime/base/join.h"
#include "runtime/base/tensor.h"
#include "runtime/expr/expr.h"
#include "runtime/expr/symbols.h"

namespace reprise::graph {

struct Value {
  std::string name;  // unique in the graph
  DType dtype = DType::Invalid;
  /// The type of the elements in memory, if it is not `dtype`: the pass autocast keeps some floats
  /// in 16 bits. Kernels widen elements when they load and round when they store. Invalid: `dtype`.
  DType storage = DType::Invalid;
  bool has_shape = false;
  Shape shape;                         // of a container: no dims
  Items items;                         // of a container
  std::optional<HostTensor> constant;  // elements are storage_of()
  /// What a constant consists of, if it is a merged weight: `constant` then has its dims, but no
  /// bytes, so that nothing has its elements twice. No pass before merge-products makes one.
  std::optional<JoinedTensors> joined;
  /// What constants determine that a node computes, where the importer knows it.
  std::optional<HostTensor> determined;
  /// Contents of a small integer tensor as expressions (shape arithmetic), row-major.
  std::optional<std::vector<Expr>> elements;
  Node* producer = nullptr;

  /// The tensors with the elements of the constant.
  std::span<const HostTensor> parts() const {
    return joined ? std::span(joined->parts) : std::span(&*constant, 1);
  }
  /// The elements that the value has in every run. Null if they are not known.
  const HostTensor* contents() const {
    return constant ? &*constant : determined ? &*determined : nullptr;
  }
};

/// The type of a value's elements in memory.
inline DType storage_of(const Value& v) {
  return v.storage == DType::Invalid ? v.dtype : v.storage;
}

/// A relation of two dims that inference could neither prove nor refute. The session refuses a run
/// in which it does not hold. If the dims must be equal, the graph may use either of them.
struct DimGuard : reprise::DimGuard {
  /// The dim that the two broadcast to. Only for the kinds that broadcast.
  Expr result = {};
};

/// What follows from the guards for equal dims. ops::resolve_guards computes it.
struct EqualDims {
  struct Rule {
    Expr from, to;  // replace the symbol or operation `from` by `to`
  };
  std::vector<Rule> rules;                    // in the order of the guards
  std::vector<std::pair<Expr, Expr>> equals;  // the dims of each guard, after the rules
};

class Graph {
 public:
  std::string name;
  /// Of the model file, for applications: names and values that mean nothing to the compiler.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Symbol> symbols;
  std::vector<SymbolSource> symbol_sources;  // parallel to `symbols`
  /// By symbol: the sizes that most runs have, if they are fewer than a run may have. Prices count
  /// with them. Empty: nothing is known.
  std::vector<Interval> likely_sizes;
  std::vector<DimGuard> guards;
  std::shared_ptr<const EqualDims> equal_dims;  // from `guards`; null while they may change
  std::vector<ValueId> inputs;
  ValueList outputs;
  /// The model's names of `outputs`, which replace_uses() does not change. Empty, or parallel to
  /// `outputs`. Read them through output_name().
  std::vector<std::string> output_names;
  /// What the importer assumed or found odd in the model, for people.
  std::vector<std::string> notes;
  /// In bodies: the values that stand for the owning node's last inputs, in the same order.
  std::vector<ValueId> captures;
  /// Bodies only: how many of the symbols, from the first, are those of the owning node's graph.
  /// Both graphs may have more symbols, which differ.
  size_t inherited_symbols = 0;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  /// Deep copy with equal value ids. Constants share their bytes.
  std::unique_ptr<Graph> clone() const;

  const IdVector<ValueId, Value>& values() const { return values_; }
  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  /// These make the name unique. An empty name becomes "v".
  ValueId add_value(const std::string& name, DType dtype, Shape shape);  // has_shape = true
  ValueId add_container(const std::string& name, DType dtype, Items items);
  ValueId add_unknown(const std::string& name);  // dtype and shape to be inferred
  ValueId add_constant(const std::string& name, HostTensor data);
  /// Tensors of equal dtypes, side by side.
  ValueId add_joined(const std::string& name, JoinedTensors data);

  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  /// Appends the node, or inserts it before `before`. Sets producers. Origins default to its name.
  Node* add_node(NodeSpec spec, Node* before = nullptr);
  void erase_node(Node* n);  // its outputs must be unused
  /// Whether `a` comes before `b` in the same graph. Takes constant time.
  static bool precedes(const Node* a, const Node* b) { return a->order_ < b->order_; }

  /// These functions keep users, producers and is_output() exact. The node shows the change of a
  /// list at once.
  void set_input(Node& n, size_t i, ValueId v);
  void set_inputs(Node& n, std::vector<ValueId> list);
  /// Makes v, which may be kNone, output i of the node. The old output i loses its producer.
  void set_output(Node& n, size_t i, ValueId v);
  void add_output(ValueId v);
  void set_outputs(std::vector<ValueId> list);
  /// Replaces every use of `from`, by nodes and as a graph output, with `to`. Takes time
  /// proportional to the number of users of both.
  void replace_uses(ValueId from, ValueId to);
  /// The nodes that read v, in the order of nodes(), which does not depend on when they were
  /// connected. A node that reads v twice is listed twice. Graph outputs are not included. Changes
  /// to the graph invalidate the reference.
  const std::vector<Node*>& users(ValueId v) const { return uses_[v].users; }
  bool is_output(ValueId v) const { return uses_[v].outputs != 0; }
  /// The number of uses of v by nodes and graph outputs.
  size_t use_count(ValueId v) const { return users(v).size() + uses_[v].outputs; }
  std::string output_name(size_t i) const;
  /// Makes the name an identifier that Expr::str() and parse() accept, unique among the symbols.
  SymbolId add_symbol(Symbol s, SymbolSource source);
  /// A symbol with this value and the range that follows from it. Returns an existing symbol if one
  /// has the value.
  Expr derived_symbol(const std::string& name, const Expr& value);
  /// Returns a name that no value has, and reserves it.
  std::string unique_name(const std::string& base);

 private:
  struct Uses {
    std::vector<Node*> users;  // see users()
    size_t outputs = 0;        // how many graph outputs are this value
  };

  ValueId add(Value v);
  Uses* uses(ValueId v);
  void add_use(ValueId v, Node* n);
  void remove_use(ValueId v, Node* n);
  void assign_order(Node& n);

  IdVector<ValueId, Value> values_;
  IdVector<ValueId, Uses> uses_;  // parallel to values_
  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, int> names_;         // taken names, with the next suffix to try
  std::unordered_map<std::string, int> symbol_names_;  // likewise, for symbols[0, known_symbols_)
  size_t known_symbols_ = 0;
};

/// "Op(first output)": the name of a node that has none in the model.
std::string default_name(const Graph& g, const std::string& op,
                         const std::vector<ValueId>& results);
/// Checks that the inputs of nodes and the outputs of the graph are defined (as an input, a
/// constant, a capture or the output of an earlier node), that each value has one producer, that
/// dtypes, shapes and symbols exist, that users match the nodes' inputs, and that the registry
/// allows the arity. With `core`, also checks that each node with opset 0 is in the core form of
/// codegen/graph/semantics.md; others run on the host. Errors are Code::Internal, with the node.
Status verify(const Graph& g, bool core);

/// Hash of dtype, dims and contents; equal tensors have equal hashes.
uint64_t constant_hash(const HostTensor& t);
/// Large constants by hash. Text that names constants only by their hash parses with this.
struct ConstantPool {
  std::unordered_map<uint64_t, HostTensor> tensors;
  void add(const HostTensor& t) { tensors.emplace(constant_hash(t), t); }
};
/// Prints the deterministic text that codegen/graph/text/text.md describes. parse() reads it back
/// to an identical graph. Constants of up to 16 elements are written in full, larger ones as dtype,
/// shape and hash; the latter are added to `pool` if it is given.
std::string print(const Graph& g, ConstantPool* pool = nullptr);
/// Parses text from print() or text written by hand. In the latter, outputs without a type are
/// inferred. Errors are InvalidModel and state the line number.
Result<std::unique_ptr<Graph>> parse(std::string_view text, const ConstantPool* pool = nullptr);

}  // namespace reprise::graph
