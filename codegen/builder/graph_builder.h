// Builds a graph for the compiler without a model file: the way in for front ends.
//
// A graph consists of operators of ONNX, of any domain and version, and of operators in core form
// (codegen/graph/semantics.md). Both go through the rows that the importer uses, so the same model
// compiles to the same package. Each call checks what it is given and infers types at once; an
// error says what was expected and what was found, names the node as data (Status::nodes), and
// leaves the builder as it was. A builder may be used by one thread at a time.
//
// Sizes that only a run knows are symbols. symbol() declares one, and the first input that has it
// as a dim, alone or in a sum such as 4*h + 1, gives it its value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/onnx/node_importer.h"
#include "runtime/base/id.h"
#include "runtime/base/tensor.h"

namespace reprise::builder {

/// A value of the graph or of a body.
using Value = Id<struct BuiltValueTag>;
inline constexpr Value kOmitted;  // an optional operand that is left out
/// The body of an If, Loop or Scan.
using Body = Id<struct BodyTag>;

/// The version of the default domain that nodes have unless they or the builder say otherwise.
inline constexpr int64_t kDefaultOpset = 26;

/// What is known of a size: both ends are inclusive. A run with another size is refused.
struct SizeLimits {
  int64_t min = 0;
  int64_t max = (int64_t{1} << 31) - 1;
  int64_t divisor = 1;
};

/// A name for each output of a node: "" makes one up, and nothing leaves the output out. Without
/// names, all are made up.
using OutputNames = std::vector<std::optional<std::string>>;

/// A node of ONNX.
struct OnnxNode {
  std::string op, domain;  // "" or "ai.onnx" is the default domain
  int64_t version = 0;     // of the domain; 0: that of the builder
  std::string name;        // for errors and reports; empty: made from the operator
  std::vector<Value> inputs = {};
  AttrMap attrs = {};
  /// The bodies of control flow, by the names of their attributes ("then_branch", "body").
  std::vector<std::pair<std::string, Body>> bodies = {};
  size_t outputs = 1;
  OutputNames output_names = {};
};

/// A node in core form, outside of bodies. Attributes may have expressions of the builder's
/// symbols.
struct CoreNode {
  std::string op, name;
  std::vector<Value> inputs = {};
  AttrMap attrs = {};
  size_t outputs = 1;
  OutputNames output_names = {};
  /// Of operators whose sizes are in the shape of their output (Slice, Range).
  std::optional<std::pair<DType, Shape>> type = std::nullopt;
};

/// What finish() returns: compile_built() compiles it (codegen/compile/compile_model.h).
struct BuiltGraph {
  struct State {
    std::string input, output;
    HostTensor initial;
  };
  std::unique_ptr<graph::Graph> graph;
  std::vector<State> states;
};

class GraphBuilder {
 public:
  /// `opsets`: the versions of domains, {"": kDefaultOpset, "com.microsoft": 1} where they say
  /// none.
  explicit GraphBuilder(std::string name = "graph",
                        const std::map<std::string, int64_t>& opsets = {});
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Sizes. Expressions that the builder takes are over the symbols that symbol() returned.

  /// Declares a size. Names of symbols differ.
  Result<Expr> symbol(const std::string& name, const SizeLimits& limits = {});
  /// An expression from text, such as "floordiv(h, 2) + 1".
  Result<Expr> expression(std::string_view text) const;
  /// The text of an expression.
  std::string text(const Expr& e) const { return e.str(declared_); }
  /// Refuses runs in which the relation does not hold. `what` names it in their errors.
  Status guard(DimGuard::Kind kind, const Expr& a, const Expr& b, const std::string& what);

  // Values.

  /// An input, in the order of calls. A container (runtime/base/dtype.h) has no dims.
  Result<Value> input(const std::string& name, DType dtype, const Shape& dims);
  /// A constant. The graph shares its bytes, so a tensor that borrows them makes no copy; they must
  /// not change. An empty name makes one up.
  Result<Value> constant(const std::string& name, HostTensor t);
  /// An input of fixed dims that sessions keep from run to run, with its first value.
  Result<Value> state(const std::string& name, HostTensor initial);
  /// Makes a value the next one of a state, and an output of this name.
  Status next_state(Value state, Value next, const std::string& name);
  /// Makes a value an output, in the order of calls. Names of outputs differ.
  Status output(const std::string& name, Value v);

  // Nodes. In a body that was begun, they belong to the body, and may read what is around it.

  /// These return kOmitted for outputs that are left out.
  Result<std::vector<Value>> node(const OnnxNode& n);
  Result<std::vector<Value>> core(const CoreNode& n);
  /// Sizes as a tensor of int64: of rank 1, or a scalar of one size. In a body, its node stands
  /// before that of the body.
  Result<Value> sizes(std::span<const Expr> sizes, bool scalar);
  /// Begins a body, whose nodes are checked when the node with the body is added.
  Status begin_body(const std::string& name);
  /// An input of the innermost body; the operator decides its type.
  Result<Value> body_input(const std::string& name);
  /// Ends the innermost body, which returns these values.
  Result<Body> end_body(std::span<const Value> outputs);

  // What is known.

  const std::string& name(Value v) const { return values_[v.index()].name; }
  /// "float32[batch, 8]". Empty for values of bodies, and for results of an If whose branches
  /// differ in rank, which have no type before finish().
  std::string type_text(Value v) const;
  /// The dtype, and dims as expressions of the graph's symbols (graph().symbols). Nothing where
  /// type_text() is empty.
  std::optional<std::pair<DType, Shape>> type(Value v) const;
  /// Before finish().
  const graph::Graph& graph() const { return *graph_; }

  /// Checks the invariants of the graph so far.
  Status verify() const;
  /// Ends the graph. The builder takes no more calls then.
  Result<BuiltGraph> finish();

 private:
  struct Entry {
    std::string name;
    int body = 0;                      // 0: the graph
    graph::ValueId id = graph::kNone;  // of the graph's values
  };
  struct OpenBody {
    int number;
    std::shared_ptr<onnx::NodeBody> body;
  };
  /// A dim of an input from which no symbol follows.
  struct PendingDim {
    std::string what;
    Expr found, declared;
  };

  Status check_open() const;
  Status check_name(const std::string& kind, const std::string& name) const;
  /// `base`, or a name that follows from it, that no value has. Reserves it.
  std::string new_name(const std::string& base);
  Value add(std::string name, int body, graph::ValueId id);
  /// Whether nodes that are added now may read the value.
  Status check_visible(Value v, const std::string& reader) const;
  Result<std::vector<std::string>> names_of(std::span<const Value> values,
                                            const std::string& reader);
  Result<std::vector<std::string>> result_names(const std::string& op, const std::string& node,
                                                size_t outputs, const OutputNames& given);
  void release(const std::vector<std::string>& names);
  Result<onnx::NodeText> node_text(const OnnxNode& n);

  // Dims and symbols.
  Status check_symbols(const Expr& e, const std::string& where) const;
  /// The expression over the graph's symbols. All of its symbols must have values.
  Result<Expr> resolved(const Expr& e, const std::string& where) const;
  Result<Expr> input_dim(const Expr& e, const std::string& input, size_t axis);
  std::optional<Expr> bind_linear(const Expr& e, const std::string& input, size_t axis);
  Expr dim_symbol(Symbol s, size_t axis);
  Status settle_pending();
  bool all_bound(const Expr& e) const;

  std::unique_ptr<graph::Graph> graph_;
  std::map<std::string, int64_t> opsets_;
  onnx::NodeImporter importer_;
  std::vector<Entry> values_;
  std::unordered_map<std::string, int> names_;  // of values, with the next number to try
  std::vector<Symbol> declared_;
  std::vector<std::optional<Expr>> bound_;  // the symbols over those of the graph
  std::vector<PendingDim> pending_;
  std::vector<OpenBody> open_;
  std::vector<std::shared_ptr<const onnx::NodeBody>> bodies_;
  std::vector<bool> used_bodies_;
  int body_count_ = 0;
  std::vector<std::pair<std::string, Value>> outputs_;
  std::vector<BuiltGraph::State> states_;
  std::vector<Value> state_values_;  // parallel to states_
};

}  // namespace reprise::builder
