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
#include "codegen/ops/attribute.h"

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
  Attributes attrs() const { return Attributes(n_, &status_); }
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

  mutable Status status_;
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
  Result<graph::ValueId> emit(graph::OpName op, std::vector<graph::ValueId> inputs,
                              AttrMap attrs = {});
  /// For core operators whose sizes are their output's shape (Slice, Range).
  Result<graph::ValueId> emit_shaped(graph::OpName op, std::vector<graph::ValueId> inputs,
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
  /// Adds the node that computes `result`, and infers it.
  Result<graph::ValueId> add(graph::OpName op, std::vector<graph::ValueId> inputs, AttrMap attrs,
                             graph::ValueId result);

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

/// What an operator in core form is to the layout of its operands and result: [N, C, spatial...],
/// or channels last. The pass `layout` asks.
enum class LayoutRole : uint8_t {
  Undeclared,
  Fixed,        // reads and writes what the model says
  Elementwise,  // its operands broadcast to the result and are in the layout of it
  Axes,         // so is input 0; attributes whose CoreForm is about axes follow the layout
  Regroup,      // the same where axes 0 and 1 stay: splits and merges the others
  Window,       // computes in either layout: see `channels_last`
  Permutation,  // a transpose: changes the layout itself
};

/// What becomes of a large constant in the host plan of a package of low precision.
enum class HostRounding : uint8_t {
  Never,  // stays as it is: the device may need it in fp32
  Layer,  // is rounded, as the device stores it
  Sum,    // is rounded if it was moved before
  Moves,  // as the readers of the result say
};

/// The axes of a product's output channels.
struct ChannelAxes {
  size_t result = 0;  // of the result
  size_t weight = 0;  // of input 1
};

/// An operator: what it is called, means and needs, and the traits that passes and lowering ask.
/// Rows whose `lowering` is not None must give the traits `layout` and, unless the scalar operation
/// in `row` has it, `sensitivity`.
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
  int min_inputs = 1;     // the first min_inputs inputs may not be omitted
  int max_inputs = 1;
  int max_outputs = 1;
  /// Of all versions and of the core form.
  std::span<const AttrDecl> attributes = {};
  /// What else nodes in core form keep to; graph::verify() asks.
  Status (*check_core)(const graph::Graph&, const graph::Node&) = nullptr;

  // Precision.
  /// Why rounding ruins results: see sensitivity_of().
  std::optional<kernel::Sensitivity> sensitivity = std::nullopt;
  HostRounding host_rounding = HostRounding::Never;
  /// The input that kernels read as a constant of 8 bits with scales; -1: none.
  int narrow_input = -1;

  // Layout.
  LayoutRole layout = LayoutRole::Undeclared;

  // Cost.
  /// How often an element() reads each input element on average: >1 forbids inlining a producer
  /// with flops into that input (Pool, Resize). Null: 1.
  double (*reads_per_element)(const graph::Graph&, const graph::Node&) = nullptr;
  /// The result is the operands side by side: each is read for its own part.
  bool joins = false;
  /// The dims that one element of a product sums over; of Lowering::MatMul and Conv.
  Shape (*contracted)(const graph::Graph&, const graph::Node&) = nullptr;

  // Algebra.
  /// Lowering::Reduce: what combines two elements. Its identity: reduction_identity().
  std::optional<kernel::ScalarOp> combine = std::nullopt;
  /// Of operators that are linear in input 1: where its channels are. Null: others.
  ChannelAxes (*channels)(const graph::Graph&, const graph::Node&) = nullptr;
  /// Results are elements of inputs, in other places: see moves_elements().
  bool moves = false;
  /// Results are the operand's numbers in another dtype.
  bool converts = false;
  /// Made of dims alone, which kernels read from their parameter block.
  bool dims_only = false;
  bool random = false;  // equal inputs may give different results
  /// Whether the result is input 0 under other dims, its elements in the same row-major order.
  bool (*renames)(const graph::Graph&, const graph::Node&) = nullptr;
  /// Whether the result is input 0, given that dtypes and shapes are equal.
  bool (*is_identity)(const graph::Node&) = nullptr;
  /// Gives the node the meaning of itself after `producer`, a node of the same operator. Null: two
  /// such nodes are not one.
  void (*merge)(graph::Node& n, const graph::Node& producer) = nullptr;
};

/// An element() that reads at most so many elements writes its reads out, without a loop.
inline constexpr double kMaxWrittenReads = 16;

inline constexpr int kVariadic = 1 << 20;

/// The row of a node in core form; null for others, which run on the host.
const OpDef* core_def(const graph::Node& n);
inline bool is_core(const graph::Node& n) {
  return core_def(n) != nullptr;
}
/// The scalar operation that the node applies to each element; nothing where it is another
/// operator.
std::optional<kernel::ScalarOp> scalar_op(const graph::Node& n);
/// The same of nodes in core form.
bool is_core(const graph::Node& n, kernel::ScalarOp op);
/// What rounding does to the operator: autocast asks.
kernel::Sensitivity sensitivity_of(const graph::Node& n);
/// Views, and operators that read elements without changing them.
bool moves_elements(const graph::Node& n);
/// Whether equal inputs may give different results.
bool is_random(const graph::Node& n);
/// A core node whose result is its input under other dims, in the same order.
bool renames(const graph::Graph& g, const graph::Node& n);
/// Whether the result is input 0, given that dtypes and shapes are equal.
bool is_identity(const graph::Node& n);
/// A core node that only changes the dtype.
bool converts(const graph::Node& n);
/// The order of axes of a transpose in core form; nothing for other nodes.
std::optional<std::vector<int64_t>> permutation_of(const graph::Node& n);
/// Fixed for nodes that are not in core form.
LayoutRole layout_of(const graph::Node& n);

/// Null when unknown: the importer's error then names the operator, its node and what to do.
const OpDef* find(std::string_view domain, std::string_view op);
/// The row of the node's operator, in whatever form the node is. Takes constant time.
const OpDef* find(const graph::NodeInfo& n);
std::vector<const OpDef*> all();
/// Adds operators of the application's own, whose rows have static storage. Code::Usage where a
/// name is taken, and once an operator has been looked up: all compilations know the same
/// operators.
Status add_operators(std::span<const OpDef> rows);
/// Infers one node (used by the importer, passes and Rewriter).
Status infer(graph::Graph& g, graph::Node& n);

}  // namespace reprise::ops
