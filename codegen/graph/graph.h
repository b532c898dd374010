// Graph IR: what the importer makes, passes rewrite and lowering consumes. Semantics of the core
// operators: codegen/graph/semantics.md.
//
// A graph is a list of nodes in topological order over values in SSA form. Shapes are expressions
// over the graph's symbols from the first day; a value's shape is known (possibly as fresh symbols)
// after inference. Constants are values with data and no producer. The graph keeps for each value
// the nodes that read it.
//
// Bodies of If, Loop and Scan are graphs of their own. What they read from outside is explicit: the
// node's last inputs are the captured values, and every body lists parallel values of its own in
// `captures` (kNone where a body does not use one). A body's symbol table is a prefix of its
// parent's, so expressions mean the same in both.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/graph/node.h"
#include "runtime/base/expr.h"
#include "runtime/base/symbols.h"
#include "runtime/base/tensor.h"

namespace reprise::graph {

struct Value {
  std::string name;  // unique in the graph
  DType dtype = DType::Invalid;
  /// Element type in memory where that is another than `dtype`: floats that the pass autocast keeps
  /// in 16 bits. Kernels widen what they load and round what they store. Invalid: `dtype`.
  DType storage = DType::Invalid;
  bool has_shape = false;
  Shape shape;
  std::optional<HostTensor> constant;  // as it is in memory
  /// Contents of a small integer tensor as expressions (shape arithmetic), row-major.
  std::optional<std::vector<Expr>> elements;
  Node* producer = nullptr;
};

/// What a value's elements are in memory.
inline DType storage_of(const Value& v) {
  return v.storage == DType::Invalid ? v.dtype : v.storage;
}

/// What inference could neither prove nor refute of two dims: the session refuses a run in which it
/// does not hold. Of equal dims, every use of the one stands for the other.
struct DimGuard : reprise::DimGuard {
  /// What the dims broadcast to; only for the kinds that broadcast.
  Expr result = {};
};

/// What the guards for equal dims say, worked out (ops::resolve_guards).
struct EqualDims {
  struct Rule {
    Expr from, to;  // a symbol or an operation, and what stands for it
  };
  std::vector<Rule> rules;                    // in the order of the guards
  std::vector<std::pair<Expr, Expr>> equals;  // the two dims of each guard, by the rules
};

class Graph {
 public:
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<SymbolSource> symbol_sources;  // parallel; inputs' dims, or filled by lowering
  std::vector<DimGuard> guards;
  std::shared_ptr<const EqualDims> equal_dims;  // of `guards`; null while these may change
  std::vector<ValueId> inputs;
  ValueList outputs;
  /// The model's names of `outputs`, which outlive the values (replace_uses). Empty, or parallel to
  /// `outputs`; read them through output_name().
  std::vector<std::string> output_names;
  /// Bodies only: values that stand for the owning node's last inputs, in their order.
  std::vector<ValueId> captures;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  /// Deep copy with equal value ids. Constants share their bytes.
  std::unique_ptr<Graph> clone() const;

  const IdVector<ValueId, Value>& values() const { return values_; }
  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  /// These make the name unique; an empty name becomes "v".
  ValueId add_value(const std::string& name, DType dtype, Shape shape);  // has_shape = true
  ValueId add_unknown(const std::string& name);  // dtype and shape to be inferred
  ValueId add_constant(const std::string& name, HostTensor data);

  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  /// Appends, or inserts before `before`. Sets producers; origins default to the node's own name.
  Node* add_node(NodeSpec spec, Node* before = nullptr);
  void erase_node(Node* n);  // its outputs must be unused
  /// Whether `a` comes before `b`, both nodes of one graph. Takes constant time.
  static bool precedes(const Node* a, const Node* b) { return a->order_ < b->order_; }

  /// These keep users, producers and is_output() exact. A list that changes becomes visible in the
  /// node at once.
  void set_input(Node& n, size_t i, ValueId v);
  void set_inputs(Node& n, std::vector<ValueId> list);
  /// The node produces v, perhaps kNone, in place of its output i, which loses its producer.
  void set_output(Node& n, size_t i, ValueId v);
  void add_output(ValueId v);
  void set_outputs(std::vector<ValueId> list);
  /// Every use of `from` (nodes' inputs, graph outputs) becomes `to`. Takes time in proportion to
  /// the users of both.
  void replace_uses(ValueId from, ValueId to);
  /// The nodes that read v in the order of nodes(), whatever the order in which they came to read
  /// it; a node that reads v twice is there twice. Graph outputs are not included. Changes to the
  /// graph invalidate the reference.
  const std::vector<Node*>& users(ValueId v) const { return uses_[v].users; }
  bool is_output(ValueId v) const { return uses_[v].outputs != 0; }
  /// How often nodes and graph outputs use v.
  size_t use_count(ValueId v) const { return users(v).size() + uses_[v].outputs; }
  std::string output_name(size_t i) const;
  /// The name becomes an identifier that Expr::str() and parse() accept, unique among the symbols.
  SymbolId add_symbol(Symbol s, SymbolSource source);
  /// The symbol that has this value, with the range that follows; one that is there already, if
  /// any.
  Expr derived_symbol(const std::string& name, const Expr& value);
  /// A name that no value has; reserved by this call.
  std::string unique_name(const std::string& base);

 private:
  struct Uses {
    std::vector<Node*> users;  // see users()
    size_t outputs = 0;        // how often it is among the graph's outputs
  };

  ValueId add(Value v);
  Uses* uses(ValueId v);
  void add_use(ValueId v, Node* n);
  void remove_use(ValueId v, Node* n);
  void give_order(Node& n);

  IdVector<ValueId, Value> values_;
  IdVector<ValueId, Uses> uses_;  // parallel to values_
  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, int> names_;         // taken names, with the next suffix to try
  std::unordered_map<std::string, int> symbol_names_;  // likewise, for symbols[0, known_symbols_)
  size_t known_symbols_ = 0;
};

/// "Op(first output)": the name of a node that has none.
std::string default_name(const Graph& g, const std::string& op,
                         const std::vector<ValueId>& results);
/// Every node's inputs and the graph's outputs are defined (an input, a constant, a capture, or the
/// output of an earlier node), values have one producer, dtypes and shapes are known, symbols
/// exist, users are those that the nodes' inputs say, arity is within what the registry knows. With
/// `core`: every node with opset 0 is in the core form of codegen/graph/semantics.md; others run on
/// the host. Failures are Code::Internal and name the node.
Status verify(const Graph& g, bool core);

/// Hash of dtype, dims and contents; equal tensors have equal hashes.
uint64_t constant_hash(const HostTensor& t);
/// Large constants by hash, so that text in which they are only named parses back.
struct ConstantPool {
  std::unordered_map<uint64_t, HostTensor> tensors;
  void add(const HostTensor& t) { tensors.emplace(constant_hash(t), t); }
};
/// Deterministic text, described in codegen/graph/text.md; parse() reads it back to an identical
/// graph. Constants up to 16 elements are written in full, larger ones as dtype, shape and hash,
/// and added to the pool when one is given.
std::string print(const Graph& g, ConstantPool* pool = nullptr);
/// Reads print()'s text, or text written by hand, where outputs without a type are inferred.
/// Errors are InvalidModel with the line number.
Result<std::unique_ptr<Graph>> parse(std::string_view text, const ConstantPool* pool = nullptr);

}  // namespace reprise::graph
