// Makes valid, typed, shape-correct random graphs. Which operators there are, how many inputs they
// take and which attributes they have comes from the operator registry; a node is kept if the
// operator's own inference accepts it and its host kernel computes it, for the values of every run.
// What these cannot tell (which operands fit each other, which indices are in range) is in the
// recipes (recipes.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/ops/row/op.h"
#include "tests/fuzz/lib/program.h"
#include "tests/support/random_source.h"

namespace reprise::fuzz {

class Evaluation;

/// The version of ONNX that nodes follow where their recipe does not say otherwise.
inline constexpr int64_t kOpset = 23;

/// A graph that is being made, and how to add to it.
class Maker {
 public:
  using V = graph::ValueId;
  static constexpr V kNone = graph::kNone;

  explicit Maker(uint64_t seed, std::function<void(const Program&)> on_attempt = {});
  /// Makes a body of a node of `outer`, which must not change by itself while this exists.
  explicit Maker(Maker& outer);

  test::RandomSource rng;
  /// Adds nodes of any kind to this graph or to a body of it.
  std::function<void(Maker&)> add_some;
  /// Elements of a node's result, at most. Recipes of large tensors raise it for their nodes.
  int64_t most_results = 3000;

  // --- what there is ---
  const graph::Value& value(V v) const { return g_->value(v); }
  DType dtype(V v) const { return value(v).dtype; }
  const Shape& shape(V v) const { return value(v).shape; }
  int64_t rank(V v) const { return static_cast<int64_t>(shape(v).size()); }
  /// The least size of a dim over all runs.
  int64_t least(const Expr& dim) const;
  int64_t least(V v, int64_t axis) const { return least(shape(v)[static_cast<size_t>(axis)]); }
  /// No NaN and no infinity in any run.
  bool is_finite(V v);
  /// The same number in all runs.
  bool is_static(V v) const { return reprise::is_static(shape(v)); }
  int64_t most_elements(const Shape& s) const;

  // --- operands ---
  /// A value that exists, or a new input.
  V any();
  /// One with this rank, of floats (f16, bf16, f32) or of the dtype.
  V of_rank(int64_t low, int64_t high);
  V floats(int64_t low_rank = 0, int64_t high_rank = 6);
  V typed(DType t, int64_t low_rank = 0, int64_t high_rank = 6);
  /// A new input or constant.
  V fresh(DType t, const Shape& s, test::Values values);
  V fresh(DType t, const Shape& s) { return fresh(t, s, some_values(t)); }
  V constant(HostTensor t);
  V ints(const std::vector<int64_t>& v, DType t = DType::I64);
  V scalar(DType t, double v);
  /// One of these types and shapes: a value that exists where there is one.
  V operand(DType t, const Shape& s);
  /// One that broadcasts with v, of its dtype or of another.
  V partner(V v) { return partner(v, dtype(v)); }
  V partner(V v, DType t);
  /// A shape that broadcasts with s; `to`: it does not widen s.
  Shape broadcast_shape(const Shape& s, bool to);
  Shape random_shape(int64_t low_rank, int64_t high_rank);
  Expr random_dim();
  DType random_dtype();
  DType random_float();
  test::Values some_values(DType t);
  /// Values that any number can be divided by: not 0, and not -1 for signed integers.
  test::Values divisors(DType t);
  int64_t axis(V v) { return rng.in(-rank(v), rank(v) - 1); }
  std::vector<int64_t> some_axes(int64_t rank, bool negative = true);

  // --- nodes ---
  /// Adds a node if its operator's inference accepts it and no result is too large; what it made is
  /// in last().
  bool add(std::string_view op, std::vector<V> inputs, AttrMap attrs = {}, size_t outputs = 1,
           int64_t opset = kOpset);
  V last(size_t output = 0) const { return last_[output]; }
  /// add(), for chains: kNone where it failed, or where an input is kNone.
  V chain(std::string_view op, std::vector<V> inputs, AttrMap attrs = {}, int64_t opset = kOpset);

  // --- bodies ---
  /// How many bodies this one is in.
  int depth() const { return depth_; }
  /// A value that the operator passes to this body: in the first iteration, these.
  V passed(DType t, const Shape& s, std::vector<HostTensor> values, graph::Items items = {});
  /// The values of a tensor in each run.
  std::vector<HostTensor> values_of(V v);
  /// A value of `outer` in this body; kNone if bodies cannot name its dims.
  V capture(V outer);
  /// A value with this type: one that exists, or a new one.
  V like(DType t, const Shape& s);
  /// A symbol for a dim that changes from one iteration to the next; at first it is v's.
  Expr varying_dim(V v, size_t axis);
  /// Whether this graph's bodies and types can name the dims.
  bool is_nameable(const Shape& s) const;
  /// Adds a node with bodies, whose last inputs are what these capture. `types`: of its outputs,
  /// with a null expression where only a run determines a dim.
  struct Type {
    DType dtype;
    std::vector<std::optional<Expr>> dims;
    graph::Items items = {};
  };
  struct BodyOf {
    std::string label;
    Maker* maker;
    std::vector<V> outputs;
  };
  bool add_with_bodies(std::string_view op, std::vector<V> inputs, AttrMap attrs,
                       const std::vector<BodyOf>& bodies, const std::vector<Type>& types);
  /// What this graph can say of a dim of a body's result.
  std::optional<Expr> dim_outside(const Maker& body, const Expr& dim) const;

  /// Ends the graph: what has no user, and some of the rest, become its outputs.
  Result<Program> finish();
  size_t runs() const { return sizes_.size(); }
  size_t nodes() const { return g_->nodes().size(); }
  /// Any of them; null where there are none.
  const graph::Node* some_node();

 private:
  /// Makes it a value that any() may give, unless it is a sequence or an optional.
  void offer(V v);
  bool acceptable(V v) const;
  void define_symbols();
  void attempt(const graph::Node& n);
  bool computable_with_bodies(const graph::Node& n);
  std::string symbol_name();
  std::shared_ptr<graph::Graph> end_body(const std::vector<V>& outputs);
  /// Sizes of symbols that inference has made.
  void add_sizes();
  const HostTensor& held(V v, size_t run);
  bool sizes_are_as_computed() const;
  /// Runs the node on the host with the values of each run; false where its kernel refuses.
  bool computable(const graph::Node& n);
  Result<std::vector<HostTensor>> run_alone(const Evaluation& e, const graph::Node& n, size_t run);
  bool large_enough(size_t guards) const;
  void retract(graph::Node* n, size_t guards, size_t symbols);

  std::function<void(const Program&)> on_attempt_;
  std::unique_ptr<graph::Graph> g_;
  test::Heading heading_;
  size_t model_symbols_ = 0;                   // the others are of results
  std::vector<std::vector<int64_t>> sizes_;    // a run's sizes of all symbols
  std::vector<IdVector<V, HostTensor>> held_;  // a run's values, by their ids
  std::vector<int64_t> palette_;               // sizes that this graph prefers
  DType favourite_;
  std::vector<V> pool_;
  std::vector<V> last_;
  bool wild_ = false;  // inputs hold special values
  Maker* outer_ = nullptr;
  int depth_ = 0;
  std::set<SymbolId> declared_;            // of nodes with bodies
  std::set<SymbolId> varying_;             // of these, those that iterations of a node change
  std::vector<std::pair<V, V>> captured_;  // in `outer_`, and here
  int named_ = 0;                          // symbols, of bodies too
};

struct GeneratorOptions {
  std::vector<std::string> ops;      // only these, where there are any
  std::vector<std::string> without;  // none of these
  int most_nodes = 12;
  /// Called with each node, and what it needs, before its host kernel runs: to see what crashes.
  std::function<void(const Program&)> on_attempt;
};

/// The same program for the same seed and options.
Result<Program> generate(uint64_t seed, const GeneratorOptions& options = {});

}  // namespace reprise::fuzz
