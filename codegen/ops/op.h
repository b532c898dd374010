// The operator registry: one entry per operator, in one file per family (codegen/ops/*.cpp), joined
// by the explicit table in registry.cpp. THE place to add an operator.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/kernel/scalar_ops.h"

namespace reprise::ops {

class ElementContext;  // codegen/ops/element.h

/// Contents of tensors up to this many elements are followed as expressions.
inline constexpr int64_t kMaxElements = 512;

/// Shape and dtype inference of one node. The first error sticks: infer() returns it.
class InferContext {
 public:
  InferContext(graph::Graph& g, graph::Node& n) : g_(g), n_(n) {}
  graph::Graph& graph() { return g_; }
  graph::Node& node() { return n_; }
  const graph::Node& node() const { return n_; }
  const AttrMap& attrs() const { return n_.attrs; }
  std::span<const Symbol> graph_symbols() const { return g_.symbols; }
  /// Version of the attributes; core form counts as the newest.
  int64_t opset() const;
  int64_t node_opset() const { return n_.opset; }
  size_t input_count() const { return n_.inputs.size(); }
  bool has_input(size_t i) const { return i < n_.inputs.size() && n_.inputs[i] != graph::kNone; }
  const graph::Value& input(size_t i) const { return g_.value(n_.inputs[i]); }
  const Shape& shape(size_t i) const { return input(i).shape; }
  DType dtype(size_t i) const { return input(i).dtype; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// Contents of an integer input as expressions: constants and shape arithmetic. Nothing when they
  /// depend on data.
  std::optional<std::vector<Expr>> elements(size_t i) const;
  /// Contents when constant integers.
  std::optional<std::vector<int64_t>> constant_ints(size_t i) const;
  void set_output(size_t i, DType dtype, Shape shape);
  /// A new symbol for a dimension that only the run can tell (NonZero, data-dependent Reshape): dim
  /// `axis` of output `output`. The same dim gets the same symbol when a node is inferred again.
  Expr fresh_symbol(size_t output, size_t axis, int64_t max = (int64_t{1} << 31) - 1);
  /// `rank` fresh symbols.
  Shape fresh_shape(size_t output, size_t rank);
  /// One dim of two that must be equal: the simpler of the two. Undecided ones become a guard of
  /// the graph; different constants are InvalidModel.
  Result<Expr> unify(const Expr& a, const Expr& b, const std::string& what) const;
  /// numpy broadcasting; clashing dims are InvalidModel naming both inputs. Where a dim may be 1 in
  /// some runs, a guard of the graph says what must hold, and the result may be a symbol of its
  /// own.
  Result<Shape> broadcast(std::span<const Shape> shapes) const;
  /// The same in one direction: `from` is `to` or 1.
  Status broadcast_to(const Expr& from, const Expr& to, const std::string& what) const;
  /// A run is refused in which `a` is smaller than `b`. The texts say what the two numbers are. Not
  /// asked of nodes in core form.
  void at_least(const Expr& a, const std::string& a_is, const Expr& b,
                const std::string& b_is) const;
  Result<int64_t> axis(int64_t axis, int64_t rank) const;
  /// Distinct, non-negative, in the given order.
  Result<std::vector<int64_t>> axes(std::span<const int64_t> axes, int64_t rank) const;
  /// "node 'conv1' (Conv): " + message
  Status error(Code code, const std::string& message) const;
  Status invalid(const std::string& message) const { return error(Code::InvalidModel, message); }
  std::string str(const Shape& s) const { return shape_str(s, g_.symbols); }
  const Status& status() const { return status_; }

 protected:
  graph::Graph& g_;
  graph::Node& n_;
  /// What the guards leave of a size; one that is too complex for further arithmetic is a symbol.
  Expr size(const Expr& e) const;

 private:
  Shape sizes(Shape shape) const;
  Result<Expr> broadcast_dim(const Expr& left, const Expr& right) const;
  void add_guard(DimGuard::Kind kind, const Expr& a, const Expr& b, const Expr& result) const;

  Status status_;
};

/// What OpDef::contents works on: the inputs and outputs have their shapes and dtypes.
class ContentsContext : public InferContext {
 public:
  using InferContext::InferContext;
  const graph::Value& output(size_t i) const { return g_.value(n_.outputs[i]); }
  bool has_output(size_t i) const { return i < n_.outputs.size() && n_.outputs[i] != graph::kNone; }
  /// Ignored when the count does not fit the output's shape or a value may leave its dtype.
  void set_elements(size_t i, std::vector<Expr> e);
};

/// Rewrites one node into simpler ones. Helpers add nodes before it with inferred outputs.
class Rewriter {
 public:
  Rewriter(graph::Graph& g, graph::Node& n) : g_(g), n_(n) {}
  graph::Graph& graph() { return g_; }
  graph::Node& node() { return n_; }
  const graph::Value& input(size_t i) const { return g_.value(n_.inputs[i]); }
  bool has_input(size_t i) const { return i < n_.inputs.size() && n_.inputs[i] != graph::kNone; }
  /// Adds a core-form node and infers it; returns its first output.
  Result<graph::ValueId> emit(std::string op, std::vector<graph::ValueId> inputs,
                              AttrMap attrs = {});
  /// For core operators whose sizes are their output's shape (Slice, Range).
  Result<graph::ValueId> emit_shaped(std::string op, std::vector<graph::ValueId> inputs,
                                     AttrMap attrs, DType dtype, Shape shape);
  graph::ValueId scalar_constant(DType dtype, double value);
  graph::ValueId int_constant(const std::vector<int64_t>& values);
  graph::ValueId constant(HostTensor t);
  Result<graph::ValueId> reshape(graph::ValueId v, Shape to);
  Result<graph::ValueId> transpose(graph::ValueId v, std::vector<int64_t> perm);
  /// The node's output i is replaced by v; after all outputs are replaced the driver erases the
  /// node. A graph output keeps its id and name.
  Status replace(size_t i, graph::ValueId v);

 private:
  graph::Graph& g_;
  graph::Node& n_;
};

/// How a core operator reaches a device.
enum class Lowering : uint8_t {
  None,     // must be decomposed, or runs on the host
  Scalar,   // one row of scalar_ops.def, elementwise with broadcasting
  View,     // index arithmetic only: element() reads exactly one input element, no flops
  Element,  // element(): any gather-like definition of one output element
  Reduce,   // reduction over trailing axes
  MatMul,
  Conv,
};

struct OpDef {
  std::string_view name;
  Status (*infer)(InferContext&) = nullptr;
  /// What integers the outputs hold, as expressions, where that follows from shapes and from inputs
  /// whose contents are known; called after `infer`. Null: they are never known before a run. Must
  /// say what the host kernel computes (tests/ops/contents_test.cpp). See contents.h.
  void (*contents)(ContentsContext&) = nullptr;
  /// Turns the ONNX form (any supported opset) into core form; null when the ONNX form is core
  /// already. Returns false when the node is already core.
  Result<bool> (*decompose)(Rewriter&) = nullptr;
  Lowering lowering = Lowering::None;
  std::optional<kernel::ScalarOp> row = std::nullopt;  // Lowering::Scalar
  /// Value of output `output` at ctx.index(). See element.h.
  Status (*element)(ElementContext&) = nullptr;
  int64_t min_opset = 1;  // older attributes than these are refused by name
  /// How often an element() reads each input element on average: >1 forbids inlining a producer
  /// with flops into that input (Pool, Resize). Null: 1.
  double (*reads_per_element)(const graph::Graph&, const graph::Node&) = nullptr;
  /// Names of all attributes of all versions and of the core form, separated by spaces.
  std::string_view attributes = {};
  /// Those that a model must not have: compiler passes decide on them.
  std::string_view core_attributes = {};
  /// Lowering::Reduce: what combines two elements. Its identity: reduction_identity().
  std::optional<kernel::ScalarOp> combine = std::nullopt;
  /// Of operators that are not a scalar operation: see sensitivity_of().
  kernel::Sensitivity sensitivity = kernel::Sensitivity::None;
  /// Results are elements of inputs, in other places: see moves_elements().
  bool moves = false;
  bool random = false;  // equal inputs may give different results
  int min_inputs = 1;   // the first min_inputs inputs may not be omitted
  int max_inputs = 1;
  int max_outputs = 1;
};

/// An element() that reads at most so many elements writes its reads out, without a loop.
inline constexpr double kMaxWrittenReads = 16;

inline constexpr int kVariadic = 1 << 20;

/// What rounding does to the operator: autocast asks.
kernel::Sensitivity sensitivity_of(const graph::Node& n);
/// Views, and operators that read elements without changing them.
bool moves_elements(const graph::Node& n);
/// Whether equal inputs may give different results.
bool is_random(const graph::Node& n);

/// Whether the node is in core form, so that `lowering` applies. Others run on the host.
bool is_core(const graph::Node& n);
/// Null when unknown: the importer's error then names the operator, its node and what to do.
const OpDef* find(std::string_view domain, std::string_view op);
std::vector<const OpDef*> all();
/// Infers one node (used by the importer, passes and Rewriter).
Status infer(graph::Graph& g, graph::Node& n);

}  // namespace reprise::ops
