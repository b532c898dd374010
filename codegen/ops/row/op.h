// The operator registry. Each operator is one row in the table of its family (codegen/ops/*.cpp),
// and registry.cpp lists the tables. To add an operator, add a row.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/kernel/ir/scalar_ops.h"
#include "codegen/ops/row/attribute.h"

namespace reprise::ops {

class ElementContext;  // codegen/ops/row/element.h

/// Contents of tensors with up to this many elements are tracked as expressions.
inline constexpr int64_t kMaxElements = 512;
/// Longer constants are not read as the sizes, axes or positions of an operator.
inline constexpr int64_t kMaxConstantElements = int64_t{1} << 16;

/// Shape and dtype inference of one node. infer() returns the first error.
class InferContext {
 public:
  InferContext(graph::Graph& g, graph::Node& n) : g_(g), n_(n) {}
  graph::Graph& graph() const { return g_; }
  graph::Node& node() { return n_; }
  const graph::Node& node() const { return n_; }
  Attributes attrs() const { return Attributes(n_, &status_); }
  std::span<const Symbol> graph_symbols() const { return g_.symbols; }
  /// The version of the attributes. The core form counts as the newest one.
  int64_t opset() const;
  int64_t node_opset() const { return n_.opset; }
  size_t input_count() const { return n_.inputs.size(); }
  bool has_input(size_t i) const { return i < n_.inputs.size() && n_.inputs[i] != graph::kNone; }
  const graph::Value& input(size_t i) const { return g_.value(n_.inputs[i]); }
  const Shape& shape(size_t i) const { return input(i).shape; }
  DType dtype(size_t i) const { return input(i).dtype; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// The contents of an integer input as expressions: constants and shape arithmetic. Nothing if
  /// they depend on data.
  std::optional<std::vector<Expr>> elements(size_t i) const;
  /// The contents of an input if it is a constant of integers.
  std::optional<std::vector<int64_t>> constant_ints(size_t i) const;
  void set_output(size_t i, DType dtype, Shape shape);
  /// The same for a sequence, an optional or a map.
  void set_container(size_t i, DType dtype, graph::Items items);
  /// A new symbol for dim `axis` of output `output`, which only a run can determine (NonZero, a
  /// Reshape that depends on data). If a node is inferred again, the same dim gets the same symbol.
  Expr fresh_symbol(size_t output, size_t axis, int64_t max = (int64_t{1} << 31) - 1);
  /// `rank` fresh symbols.
  Shape fresh_shape(size_t output, size_t rank);
  /// Requires two dims to be equal and returns the simpler one. If equality cannot be decided, it
  /// becomes a guard of the graph. Different constants are InvalidModel.
  Result<Expr> unify(const Expr& a, const Expr& b, const std::string& what) const;
  /// Numpy broadcasting. Incompatible dims are InvalidModel, and the message names both inputs. If
  /// a dim may be 1 in some runs, a guard of the graph states the condition, and the resulting dim
  /// may be a new symbol.
  Result<Shape> broadcast(std::span<const Shape> shapes) const;
  /// The same in one direction: `from` must be equal to `to` or 1.
  Status broadcast_to(const Expr& from, const Expr& to, const std::string& what) const;
  /// Adds a guard that refuses runs in which `a` is smaller than `b`. `a_is` and `b_is` describe
  /// them in the message. Adds none for nodes in core form.
  void at_least(const Expr& a, const std::string& a_is, const Expr& b,
                const std::string& b_is) const;
  Result<int64_t> axis(int64_t axis, int64_t rank) const;
  /// Normalises axes to distinct non-negative ones, in the given order.
  Result<std::vector<int64_t>> axes(std::span<const int64_t> axes, int64_t rank) const;
  /// "node 'conv1' (Conv): " + message
  Status error(Code code, const std::string& message) const;
  Status invalid(const std::string& message) const { return error(Code::InvalidModel, message); }
  std::string str(const Shape& s) const { return shape_str(s, g_.symbols); }
  const Status& status() const { return status_; }

 protected:
  graph::Graph& g_;
  graph::Node& n_;
  /// Simplifies a size with the guards. A size that is too complex becomes a symbol.
  Expr size(const Expr& e) const;

 private:
  Shape sizes(Shape shape) const;
  Result<Expr> broadcast_dim(const Expr& left, const Expr& right) const;
  void add_guard(DimGuard::Kind kind, const Expr& a, const Expr& b, const Expr& result) const;

  mutable Status status_;
};

/// The argument of OpDef::contents. Shapes and dtypes of inputs and outputs are known.
class ContentsContext : public InferContext {
 public:
  using InferContext::InferContext;
  const graph::Value& output(size_t i) const { return g_.value(n_.outputs[i]); }
  bool has_output(size_t i) const { return i < n_.outputs.size() && n_.outputs[i] != graph::kNone; }
  /// Has no effect if the count does not match the output's shape or a value may overflow its
  /// dtype.
  void set_elements(size_t i, std::vector<Expr> e);
};

/// Rewrites one node into simpler ones. Functions insert nodes before it and infer their outputs.
class Rewriter {
 public:
  Rewriter(graph::Graph& g, graph::Node& n) : g_(g), n_(n) {}
  graph::Graph& graph() { return g_; }
  graph::Node& node() { return n_; }
  const graph::Value& input(size_t i) const { return g_.value(n_.inputs[i]); }
  bool has_input(size_t i) const { return i < n_.inputs.size() && n_.inputs[i] != graph::kNone; }
  /// Keeps the node as it is, so that the host runs it. `why` is for people: "its axis is known
  /// only in a run".
  Result<bool> keep(std::string why) {
    n_.host_reason = std::move(why);
    return false;
  }
  /// Adds a node in core form, infers it and returns its first output.
  Result<graph::ValueId> emit(graph::OpName op, std::vector<graph::ValueId> inputs,
                              AttrMap attrs = {});
  /// The same for an operator with several outputs; returns all of them.
  Result<std::vector<graph::ValueId>> emit_all(graph::OpName op, std::vector<graph::ValueId> inputs,
                                               AttrMap attrs, size_t outputs);
  /// The same for core operators whose sizes are in their output's shape (Slice, Range).
  Result<graph::ValueId> emit_shaped(graph::OpName op, std::vector<graph::ValueId> inputs,
                                     AttrMap attrs, DType dtype, Shape shape);
  graph::ValueId scalar_constant(DType dtype, double value);
  graph::ValueId int_constant(const std::vector<int64_t>& values);
  graph::ValueId constant(HostTensor t);
  Result<graph::ValueId> reshape(graph::ValueId v, Shape to);
  Result<graph::ValueId> transpose(graph::ValueId v, std::vector<int64_t> perm);
  /// Replaces output i of the node by v. Once all outputs are replaced, the pass erases the node. A
  /// graph output keeps its id and name.
  Status replace(size_t i, graph::ValueId v);

 private:
  /// Adds and infers the node that computes `results`.
  Status add(graph::OpName op, std::vector<graph::ValueId> inputs, AttrMap attrs,
             std::vector<graph::ValueId> results);

  graph::Graph& g_;
  graph::Node& n_;
};

/// How a core operator is lowered to a device.
enum class Lowering : uint8_t {
  None,     // decomposed, or runs on the host
  Scalar,   // one row of scalar_ops.def, elementwise with broadcasting
  View,     // index arithmetic only: element() reads exactly one input element, no flops
  Element,  // element(): any gather-like definition of one output element
  Reduce,   // reduction over trailing axes
  Scan,     // cumulative: along `axis`, each element combined with all before it
  MatMul,
  Conv,
  Kernel,  // kernels of its own, which OpDef::kernel names
};

/// How the operands and the result of a core operator depend on the layout: [N, C, spatial...], or
/// channels last. The pass `layout` reads this.
enum class LayoutRole : uint8_t {
  Undeclared,
  Fixed,        // reads and writes the model's layout
  Elementwise,  // operands broadcast to the result and have its layout
  Axes,         // input 0 has the result's layout; attributes that refer to axes follow it
  Regroup,      // the same if axes 0 and 1 stay: splits and merges the others
  Window,       // computes in either layout, by the attribute `channels_last`
  Permutation,  // a transpose, which changes the layout
};

/// How a large constant is rounded in the host plan of a package with low precision.
enum class HostRounding : uint8_t {
  Never,  // is not rounded: the device may need it in fp32
  Layer,  // is rounded, because the device rounds it
  Sum,    // is rounded if another operator moved it before
  Moves,  // is rounded if all readers of the result allow it
};

/// The axes of the output channels of a contraction.
struct ChannelAxes {
  size_t result = 0;  // of the result
  size_t weight = 0;  // of input 1
};

/// An operator: its name, its meaning, its requirements, and the traits that passes and lowering
/// read. A row whose `lowering` is not None must declare the traits `layout` and `sensitivity`; the
/// latter is omitted if the scalar operation in `row` declares it.
struct OpDef {
  std::string_view name;
  std::string_view domain = "";  // "": the default domain, ai.onnx
  /// The operator's name in models, if it is also that of another row: an operator of another
  /// domain, or a newer version. Names of rows are unique over all domains. "": `name`.
  std::string_view in_models = "";
  Status (*infer)(InferContext&) = nullptr;
  /// Computes the contents of integer outputs as expressions, if they follow from shapes and known
  /// contents of inputs. Called after `infer`. Null: unknown before a run. The result must match
  /// the host kernel (tests/ops/contents_test.cpp). See contents.h.
  void (*contents)(ContentsContext&) = nullptr;
  /// Rewrites the ONNX form of any supported opset into core form. Returns false if it keeps the
  /// node, because it is in core form or runs on the host. Null: the ONNX form is the core form.
  Result<bool> (*decompose)(Rewriter&) = nullptr;
  Lowering lowering = Lowering::None;
  std::optional<kernel::ScalarOp> row = std::nullopt;  // Lowering::Scalar
  /// Lowering::Kernel: the row of the table of lowerings (codegen/lower/group/group_lowering.h).
  std::string_view kernel = "";
  /// Computes the element of output `output` at ctx.index(). See element.h.
  Status (*element)(ElementContext&) = nullptr;
  int64_t min_opset = 1;  // older versions are refused
  /// The last version that the row describes: a later one is a row of its own. 0: the newest.
  int64_t max_opset = 0;
  int min_inputs = 1;  // the first min_inputs inputs may not be omitted
  int max_inputs = 1;
  bool list_may_omit = false;  // with kVariadic: inputs behind the first min_inputs may be omitted
  int max_outputs = 1;
  /// The attributes of all versions and of the core form.
  std::span<const AttrDecl> attributes = {};
  /// Checks further invariants of the core form. graph::verify() calls it.
  Status (*check_core)(const graph::Graph&, const graph::Node&) = nullptr;

  // Precision.
  /// Why rounding makes results inaccurate. See sensitivity_of().
  std::optional<kernel::Sensitivity> sensitivity = std::nullopt;
  HostRounding host_rounding = HostRounding::Never;
  /// The input that kernels can read as a quantized weight: an integer constant of at most 8 bits
  /// with scales. -1: none.
  int quantized_input = -1;

  // Layout.
  LayoutRole layout = LayoutRole::Undeclared;

  // Cost.
  /// How often element() reads each input element on average. If it is more than once, fusion does
  /// not inline a producer with arithmetic into that input (Pool, Resize). Null: 1.
  double (*reads_per_element)(const graph::Graph&, const graph::Node&) = nullptr;
  /// The result consists of the operands side by side. Each operand is read only for its own part.
  bool concatenates = false;
  /// The dims that one element of a contraction sums over. For Lowering::MatMul and Conv.
  Shape (*contracted)(const graph::Graph&, const graph::Node&) = nullptr;

  // Algebra.
  /// Replaces a node in core form whose weight has more than `most` bytes by nodes that read parts
  /// of it. Returns false if its weight is small, or cannot be cut. Null: the operator cannot.
  Result<bool> (*split)(Rewriter&, int64_t most) = nullptr;
  /// For Lowering::Reduce and Scan: combines two elements. Its identity is reduction_identity().
  std::optional<kernel::ScalarOp> combine = std::nullopt;
  /// The axes of the channels, for operators that are linear in input 1. Null: other operators.
  ChannelAxes (*channels)(const graph::Graph&, const graph::Node&) = nullptr;
  /// The result consists of elements of inputs, at other positions. See moves_elements().
  bool moves = false;
  /// The result is a part of input 0: in core form, along each axis the elements from `starts` on,
  /// at distances of `steps`.
  bool slices = false;
  /// The result is the operand in another dtype.
  bool converts = false;
  /// The result is (input 0 - input 2) * input 1, where input 0 is an integer. In core form, input
  /// 0 is a quantized weight, which stays so in memory: kernels compute the result where they load
  /// it.
  bool dequantizes = false;
  /// Takes and returns low-bit types (is_low_bit()): the operator moves their elements, converts
  /// them, or does not look at them. Others refuse them.
  bool low_bit = false;
  /// The result depends on dims only, which kernels read from their parameter block.
  bool dims_only = false;
  /// The result is memory that has the elements once the inputs are computed: no kernel computes
  /// it, and it is that of the state which is input 0.
  bool is_memory = false;
  bool random = false;  // equal inputs may give different results
  /// Takes or returns sequences, optionals or maps. Others refuse them.
  bool containers = false;
  /// Whether the result is input 0 with other dims, its elements in the same row-major order.
  bool (*is_reshape)(const graph::Graph&, const graph::Node&) = nullptr;
  /// Whether the result is input 0, if dtypes and shapes are equal.
  bool (*is_identity)(const graph::Node&) = nullptr;
  /// Changes `n` to compute the composition of `producer`, a node of the same operator, and itself.
  /// Null: two such nodes cannot be merged.
  void (*merge)(graph::Node& n, const graph::Node& producer) = nullptr;
};

/// An element() unrolls its loop if it reads at most this many elements.
inline constexpr double kMaxUnrolledReads = 16;

inline constexpr int kVariadic = 1 << 20;

/// The row of a node in core form. Null for other nodes, which run on the host.
const OpDef* core_def(const graph::Node& n);
inline bool is_core(const graph::Node& n) {
  return core_def(n) != nullptr;
}
/// The scalar operation that the node applies to each element. Nothing for nodes of other
/// operators.
std::optional<kernel::ScalarOp> scalar_op(const graph::Node& n);
/// Whether the node is in core form and applies this scalar operation.
bool is_core(const graph::Node& n, kernel::ScalarOp op);
/// How rounding affects the operator, for autocast.
kernel::Sensitivity sensitivity_of(const graph::Node& n);
/// Whether the node is a view or reads elements without changing them.
bool moves_elements(const graph::Node& n);
/// Whether the result is memory of a state (OpDef::is_memory).
bool is_memory(const graph::Node& n);
/// Whether equal inputs may give different results.
bool is_random(const graph::Node& n);
/// Whether a node in core form only changes dims, with elements in the same order.
bool is_reshape(const graph::Graph& g, const graph::Node& n);
/// Whether the result is input 0, if dtypes and shapes are equal.
bool is_identity(const graph::Node& n);
/// Whether a node in core form only changes the dtype.
bool converts(const graph::Node& n);
/// Whether a node in core form dequantizes a weight.
bool dequantizes(const graph::Node& n);
/// The permutation of a transpose in core form. Nothing for other nodes.
std::optional<std::vector<int64_t>> permutation_of(const graph::Node& n);
/// LayoutRole::Fixed for nodes that are not in core form.
LayoutRole layout_of(const graph::Node& n);

/// The row of an operator by its name in models, for the newest version or for version `opset` of
/// the domain. Null if the operator is unknown; the importer then reports the operator and its
/// node.
const OpDef* find(std::string_view domain, std::string_view op);
const OpDef* find(std::string_view domain, std::string_view op, int64_t opset);
/// The row of the node's operator, whether or not the node is in core form. Takes constant time.
const OpDef* find(const graph::NodeInfo& n);
std::vector<const OpDef*> all();
/// Adds operators of an application. Their rows must have static storage. Returns Code::Usage if a
/// name is taken or an operator has been looked up already, because all compilations must know the
/// same operators.
Status add_operators(std::span<const OpDef> rows);
/// Infers one node.
Status infer(graph::Graph& g, graph::Node& n);

}  // namespace reprise::ops
