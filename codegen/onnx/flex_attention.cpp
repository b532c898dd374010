// FlexAttention: attention whose scores and probabilities are changed by bodies, which become part
// of the graph.
#include <array>
#include <cmath>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/import.h"
#include "codegen/onnx/rewrites.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"

namespace reprise::onnx {

namespace {

constexpr int64_t kOpset = 23;  // of the nodes that are written here

struct Options {
  double scale = 1;
  DType precision = DType::F32;  // of the scores, the bodies and the softmax
  const wire::Graph* score_mod = nullptr;
  const wire::Graph* prob_mod = nullptr;
};

Result<Options> options_of(const std::map<std::string, const wire::Attribute*>& attributes, DType t,
                           int64_t size) {
  Options o;
  o.scale = 1 / std::sqrt(static_cast<double>(size));
  if (t == DType::F64) o.precision = t;
  for (const auto& [name, a] : attributes) {
    if (name == "scale") {
      o.scale = static_cast<double>(a->f());
    } else if (name == "softmax_precision") {
      o.precision = ops::dtype_from_onnx(a->i());
    } else if (name == "score_mod" && a->has_g()) {
      o.score_mod = &a->g();
    } else if (name == "prob_mod" && a->has_g()) {
      o.prob_mod = &a->g();
    } else {
      return unsupported("attribute " + shown(name) + " is unknown, or has another type");
    }
  }
  if (!is_float(o.precision)) return invalid_model("softmax_precision must be a type of floats");
  return o;
}

/// Adds nodes in front of the bodies and between them.
class Writer {
 public:
  Writer(Graph& g, std::string name) : g_(g), name_(std::move(name)) {}

  Result<ValueId> node(const std::string& op, std::vector<ValueId> inputs, AttrMap attrs = {},
                       int64_t opset = kOpset) {
    graph::NodeSpec n;
    n.op = op;
    n.opset = opset;
    n.name = name_ + "/" + op;
    n.origins = {name_};
    n.inputs = std::move(inputs);
    n.outputs = {g_.add_unknown(n.name)};
    n.attrs = std::move(attrs);
    const ValueId result = n.outputs[0];
    RP_TRY(ops::infer(g_, *g_.add_node(std::move(n))));
    return result;
  }

  /// In core form, whose shape is a list of expressions.
  Result<ValueId> reshape(ValueId v, Shape to) {
    AttrMap a;
    a.set("shape", std::vector<Expr>(std::move(to)));
    return node("Reshape", {v}, std::move(a), 0);
  }

  Result<ValueId> cast(ValueId v, DType to) {
    AttrMap a;
    a.set("to", ops::dtype_to_onnx(to));
    return g_.value(v).dtype == to ? Result<ValueId>(v) : node("Cast", {v}, std::move(a));
  }

  Result<ValueId> scaled(ValueId v, double factor) {
    const HostTensor t = ops::float_tensor(g_.value(v).dtype, {}, {factor});
    return node("Mul", {v, g_.add_constant(name_ + "/scale", t)});
  }

  Graph& graph() { return g_; }

 private:
  Graph& g_;
  std::string name_;
};

/// [batch, heads, rows, size] of the query, and [.., heads, keys, size] of the key and value.
struct Sizes {
  Expr batch, rows, keys, value_size;
  int64_t heads = 0, kv_heads = 0, size = 0;

  /// Heads that share keys are rows of one product.
  Shape grouped(const Expr& last) const {
    return {batch, kv_heads, Expr(heads / kv_heads) * rows, last};
  }
  Shape split(const Expr& last) const { return {batch, heads, rows, last}; }
};

Result<Sizes> sizes_of(const Graph& g, const std::vector<ValueId>& in) {
  std::array<Shape, 3> s;
  for (size_t i = 0; i < 3; ++i) {
    const graph::Value& v = g.value(in[i]);
    s[i] = v.shape;
    if (s[i].size() != 4 || !is_float(v.dtype) || v.dtype != g.value(in[0]).dtype)
      return invalid_model("Q, K and V must be floats of one type and have rank 4");
  }
  if (!s[0][1].is_const() || !s[1][1].is_const() || !s[0][3].is_const())
    return unsupported("the numbers of heads and their size must be constant");
  Sizes z{s[0][0], s[0][2], s[1][2], s[2][3], s[0][1].value(), s[1][1].value(), s[0][3].value()};
  if (z.kv_heads < 1 || z.heads % z.kv_heads != 0 || !s[2][1].is_const(z.kv_heads))
    return invalid_model("K and V must have the same number of heads, which divides that of Q");
  return z;
}

/// Requires the dims of Q, K and V that must be equal to be so. `n` is for messages.
Status check_dims(Graph& g, graph::Node& n, const std::vector<ValueId>& in) {
  const ops::InferContext ctx(g, n);
  const auto dim = [&](size_t i, size_t d) { return g.value(in[i]).shape[d]; };
  RP_TRY(ctx.unify(dim(0, 0), dim(1, 0), "batches of Q and K").status());
  RP_TRY(ctx.unify(dim(0, 0), dim(2, 0), "batches of Q and V").status());
  RP_TRY(ctx.unify(dim(0, 3), dim(1, 3), "head sizes of Q and K").status());
  return ctx.unify(dim(1, 2), dim(2, 2), "lengths of K and V").status();
}

/// Q K^T * scale, [batch, heads, rows, keys].
Result<ValueId> scores_of(Writer& w, const std::vector<ValueId>& in, const Sizes& z, double scale) {
  RP_ASSIGN(const ValueId q, w.scaled(in[0], std::sqrt(scale)));
  RP_TRY(check_dims(w.graph(), *w.graph().value(q).producer, in));
  RP_ASSIGN(const ValueId k, w.scaled(in[1], std::sqrt(scale)));
  AttrMap order;
  order.set("perm", std::vector<int64_t>{0, 1, 3, 2});
  RP_ASSIGN(const ValueId columns, w.node("Transpose", {k}, std::move(order)));
  RP_ASSIGN(const ValueId rows, w.reshape(q, z.grouped(z.size)));
  RP_ASSIGN(const ValueId product, w.node("MatMul", {rows, columns}));
  return w.reshape(product, z.split(z.keys));
}

/// Writes the nodes of a body with one input, which is `v`, and returns its output.
Result<ValueId> apply_body(Import& import, Scope& scope, const wire::Node& n,
                           const wire::Graph& body, ValueId v) {
  if (body.input_size() != 1 || body.output_size() != 1)
    return invalid_model(node_text(n) + ": a body must have one input and one output");
  Scope inner = scope.nested();
  RP_TRY(import.names.define(inner, body.input(0).name(), v));
  RP_TRY(inline_body(import, inner, body));
  const auto result = import.names.resolve(inner, body.output(0).name());
  if (!result || *result == kNone)
    return invalid_model(node_text(n) + ": nothing defines the body's output " +
                         shown(body.output(0).name()));
  RP_TRY(import.refusals.omit_if_untyped(*scope.graph, {*result}));
  const graph::Value &from = scope.graph->value(v), &to = scope.graph->value(*result);
  bool same = from.dtype == to.dtype && from.shape.size() == to.shape.size();
  for (size_t d = 0; same && d < from.shape.size(); ++d) same = from.shape[d] == to.shape[d];
  if (same) return *result;
  return invalid_model(node_text(n) + ": a body gives " + std::string(name_of(to.dtype)) +
                       shape_str(to.shape, scope.graph->symbols) + ", expected " +
                       std::string(name_of(from.dtype)) +
                       shape_str(from.shape, scope.graph->symbols));
}

Result<std::map<std::string, const wire::Attribute*>> attributes_of(Import& import,
                                                                    const Scope& scope,
                                                                    const wire::Node& n) {
  std::map<std::string, const wire::Attribute*> out;
  for (const wire::Attribute& given : n.attribute()) {
    RP_ASSIGN(const wire::Attribute* a, import.nodes.actual(scope, given));
    if (a && !out.emplace(given.name(), a).second)
      return invalid_model("attribute " + shown(given.name()) + " is given twice");
  }
  return out;
}

}  // namespace

bool is_flex_attention(const wire::Node& n, const std::string& domain) {
  return domain == "ai.onnx.preview" && n.op_type() == "FlexAttention";
}

Status add_flex_attention(Import& import, Scope& scope, const wire::Node& n) {
  RP_ASSIGN(const std::vector<ValueId> in, import.nodes.inputs_of(scope, n));
  if (in.size() != 3 || in[0] == kNone || in[1] == kNone || n.output_size() != 1)
    return invalid_model(node_text(n) + " must have three inputs and one output");
  const auto attributes = attributes_of(import, scope, n);
  if (!attributes.ok()) return attributes.status().with_context(node_text(n));
  const auto sizes = sizes_of(*scope.graph, in);
  if (!sizes.ok()) return sizes.status().with_context(node_text(n));
  const auto read = options_of(*attributes, scope.graph->value(in[0]).dtype, sizes->size);
  if (!read.ok()) return read.status().with_context(node_text(n));
  const Options& options = *read;
  const std::string name = n.name().empty() ? "FlexAttention(" + n.output(0) + ")" : n.name();
  Writer w(*scope.graph, scope.frame->prefix + name);
  RP_ASSIGN(ValueId v, scores_of(w, in, *sizes, options.scale));
  RP_ASSIGN(v, w.cast(v, options.precision));
  if (options.score_mod) {
    RP_ASSIGN(v, apply_body(import, scope, n, *options.score_mod, v));
  }
  RP_ASSIGN(v, w.node("Softmax", {v}));
  if (options.prob_mod) {
    RP_ASSIGN(v, apply_body(import, scope, n, *options.prob_mod, v));
  }
  RP_ASSIGN(v, w.reshape(v, sizes->grouped(sizes->keys)));
  RP_ASSIGN(const ValueId values, w.cast(in[2], options.precision));
  RP_ASSIGN(v, w.node("MatMul", {v, values}));
  RP_ASSIGN(v, w.cast(v, scope.graph->value(in[0]).dtype));
  RP_ASSIGN(v, w.reshape(v, sizes->split(sizes->value_size)));
  RP_TRY(import.names.check_declared(scope, n.output(0), v, node_text(n)));
  scope.names.insert_or_assign(n.output(0), v);
  return {};
}

}  // namespace reprise::onnx
