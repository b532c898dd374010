// Transpose, Expand, DepthToSpace and SpaceToDepth: index arithmetic that moves elements without
// changing them.
#include <algorithm>

#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/permutation.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

// --- Transpose -----------------------------------------------------------------------------------

std::vector<int64_t> permutation(const Attributes& attrs, size_t rank) {
  std::vector<int64_t> perm = attrs.get_ints("perm");
  if (attrs.has("perm")) return perm;
  for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(rank - 1 - i));
  return perm;
}

Status infer_transpose(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  const std::vector<int64_t> perm = permutation(ctx.attrs(), in.size());
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != iota(0, ctx.rank(0))) {
    return ctx.invalid("perm is not a permutation of the " + std::to_string(in.size()) +
                       " axes of shape " + ctx.str(in));
  }
  Shape out;
  for (int64_t p : perm) out.push_back(in[static_cast<size_t>(p)]);
  ctx.set_output(0, ctx.dtype(0), out);
  return {};
}

/// Exporters transpose a matrix of pads. Its known contents are reordered.
void transposed_contents(ContentsContext& ctx) {
  const auto e = ctx.elements(0);
  const Shape& in = ctx.shape(0);
  const Shape& out = ctx.output(0).shape;
  if (!e || !is_static(out)) return;
  const std::vector<int64_t> perm = permutation(ctx.attrs(), in.size());
  std::vector<Expr> moved;
  for (size_t linear = 0; linear < e->size(); ++linear) {
    const auto at = delinearize(Expr(static_cast<int64_t>(linear)), out);
    std::vector<Expr> from(at.size(), Expr(0));
    for (size_t d = 0; d < at.size(); ++d) from[static_cast<size_t>(perm[d])] = at[d];
    moved.push_back((*e)[static_cast<size_t>(linearize(from, in).value())]);
  }
  ctx.set_elements(0, std::move(moved));
}

Result<bool> transpose(Rewriter& rw) {
  rw.node().attrs.set("perm", permutation(Attributes(rw.node()), rw.input(0).shape.size()));
  return mark_core(rw);
}

Status transpose_element(ElementContext& ctx) {
  const std::vector<int64_t> perm = Attributes(ctx.node()).get_ints("perm");
  Index index(perm.size(), Expr(0));
  for (size_t d = 0; d < perm.size(); ++d) index[static_cast<size_t>(perm[d])] = ctx.index()[d];
  RP_ASSIGN(const kernel::Val v, ctx.input(0, index));
  ctx.set(v);
  return {};
}

bool transpose_is_reshape(const graph::Graph& g, const graph::Node& n) {
  const graph::Value& in = g.value(n.inputs[0]);
  return in.has_shape && keeps_order(Attributes(n).get_ints("perm"), in.shape);
}

bool transpose_is_identity(const graph::Node& n) {
  const std::vector<int64_t> perm = Attributes(n).get_ints("perm");
  return std::is_sorted(perm.begin(), perm.end());
}

void merge_transposes(graph::Node& n, const graph::Node& producer) {
  n.attrs.set("perm",
              permuted(Attributes(producer).get_ints("perm"), Attributes(n).get_ints("perm")));
}

// --- Expand --------------------------------------------------------------------------------------

/// The elements of a list of sizes that the compiler knows, although others depend on data: those
/// of a Concat. Empty if it knows none.
std::vector<std::optional<Expr>> known_sizes(InferContext& ctx, size_t i) {
  graph::Node* n = ctx.input(i).producer;
  std::vector<std::optional<Expr>> out;
  if (n == nullptr || n->op != "Concat" || !n->domain.empty()) return out;
  const InferContext concat(ctx.graph(), *n);
  for (size_t k = 0; k < n->inputs.size(); ++k) {
    const Shape& s = concat.shape(k);
    if (const auto known = concat.elements(k)) {
      out.insert(out.end(), known->begin(), known->end());
    } else if (s.size() == 1 && s[0].is_const()) {
      out.resize(out.size() + static_cast<size_t>(s[0].value()));
    } else {
      return {};
    }
  }
  return out;
}

/// The shape of an Expand whose sizes depend on data.
Result<Shape> expanded_by_data(InferContext& ctx) {
  RP_ASSIGN(const int64_t length, static_length(ctx, 1));
  const auto count = static_cast<size_t>(length);
  const auto known = known_sizes(ctx, 1);
  Shape out = ctx.fresh_shape(0, std::max(count, ctx.shape(0).size()));
  // A size above 1 is that of the result, whatever the operand has there.
  for (size_t i = 0; i < known.size() && known.size() == count; ++i) {
    if (known[i] && known[i]->is_const() && known[i]->value() > 1)
      out[out.size() - count + i] = *known[i];
  }
  return out;
}

Status infer_expand(InferContext& ctx) {
  std::optional<std::vector<Expr>> wanted;
  if (const auto* exprs = ctx.attrs().get<std::vector<Expr>>("shape")) {
    wanted = *exprs;
  } else if (ctx.has_input(1)) {
    wanted = ctx.elements(1);
  } else {
    return ctx.invalid("input 'shape' is missing");
  }
  if (!wanted) {
    RP_ASSIGN(Shape out, expanded_by_data(ctx));
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    return {};
  }
  const Shape shapes[] = {ctx.shape(0), *wanted};
  RP_ASSIGN(const Shape out, ctx.broadcast(shapes));
  ctx.set_output(0, ctx.dtype(0), out);
  return {};
}

void expanded_contents(ContentsContext& ctx) {
  elementwise_contents(
      ctx, 1, [](const ContentsContext&, std::span<const Expr> x) { return std::optional(x[0]); });
}

Result<bool> expand(Rewriter& rw) {
  if (rw.node().inputs.size() == 1) return mark_core(rw);
  if (!InferContext(rw.graph(), rw.node()).elements(1)) return false;  // they depend on data
  OpBuilder c(rw);
  c.replace(0, c.expand(c.in(0), c.shape(rw.node().outputs[0])));
  return c.finish();
}

Status expand_element(ElementContext& ctx) {
  RP_ASSIGN(const kernel::Val v,
            ctx.input(0, broadcast_index(ctx.graph(), ctx.index(), ctx.input_shape(0),
                                         ctx.output_shape())));
  ctx.set(v);
  return {};
}

/// Whether the Expand only adds dims of size 1.
bool expand_is_reshape(const graph::Graph& g, const graph::Node& n) {
  const graph::Value& in = g.value(n.inputs[0]);
  const Shape& out = g.value(n.outputs[0]).shape;
  return in.has_shape && element_count(in.shape) == element_count(out) &&
         in.shape.size() <= out.size();
}

// --- DepthToSpace, SpaceToDepth ------------------------------------------------------------------

/// d / divisor, which must be exact.
Result<Expr> exact_part(InferContext& ctx, const Expr& d, int64_t divisor) {
  const Expr q = Expr::floordiv(d, Expr(divisor));
  RP_ASSIGN([[maybe_unused]] const Expr same,
            ctx.unify(q * Expr(divisor), d, "a multiple of the block size and the dim"));
  return q;
}

Result<int64_t> block_size(const InferContext& ctx) {
  const int64_t b = ctx.attrs().get_int("blocksize");
  if (ctx.rank(0) != 4) {
    return ctx.invalid("input must have rank 4, has shape " + ctx.str(ctx.shape(0)));
  }
  if (b < 1 || b > (1 << 15))
    return ctx.invalid("blocksize is " + std::to_string(b) + ", must be in [1, 2^15]");
  return b;
}

/// Whether the depth is the first part of a channel's number, before the place in the block (CRD),
/// and not the last (DCR).
Result<bool> depth_is_first(const InferContext& ctx) {
  const std::string mode = ctx.attrs().get_string("mode");
  if (mode == "DCR" || mode == "CRD") return mode == "CRD";
  return ctx.invalid("mode is '" + mode + "', must be 'DCR' or 'CRD'");
}

Status infer_depth_to_space(InferContext& ctx) {
  RP_ASSIGN(const int64_t b, block_size(ctx));
  RP_TRY(depth_is_first(ctx).status());
  const Shape in = ctx.shape(0);
  RP_ASSIGN(const Expr channels, exact_part(ctx, in[1], b * b));
  ctx.set_output(0, ctx.dtype(0), {in[0], channels, in[2] * Expr(b), in[3] * Expr(b)});
  return {};
}

Status infer_space_to_depth(InferContext& ctx) {
  RP_ASSIGN(const int64_t b, block_size(ctx));
  RP_TRY(depth_is_first(ctx).status());
  const Shape in = ctx.shape(0);
  RP_ASSIGN(const Expr height, exact_part(ctx, in[2], b));
  RP_ASSIGN(const Expr width, exact_part(ctx, in[3], b));
  ctx.set_output(0, ctx.dtype(0), {in[0], in[1] * Expr(b * b), height, width});
  return {};
}

Result<bool> depth_to_space(Rewriter& rw) {
  OpBuilder c(rw);
  const Expr b = c.attrs().get_int("blocksize");
  const Shape in = c.shape(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const bool crd = c.attrs().get_string("mode") == "CRD";
  const Shape split =
      crd ? Shape{in[0], out[1], b, b, in[2], in[3]} : Shape{in[0], b, b, out[1], in[2], in[3]};
  const auto v =
      c.transpose(c.reshape(c.in(0), split), crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3}
                                                 : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  c.replace(0, c.reshape(v, out));
  return c.finish();
}

Result<bool> space_to_depth(Rewriter& rw) {
  OpBuilder c(rw);
  const Expr b = c.attrs().get_int("blocksize");
  const Shape in = c.shape(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const auto v = c.reshape(c.in(0), {in[0], in[1], out[2], b, out[3], b});
  const bool crd = c.attrs().get_string("mode") == "CRD";
  const auto moved = c.transpose(
      v, crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  c.replace(0, c.reshape(moved, out));
  return c.finish();
}

constexpr AttrDecl kTransposeAttrs[] = {
    optional_attr("perm", AttrType::Ints, CoreForm::Permutation)};
constexpr AttrDecl kExpandAttrs[] = {core_attr("shape", CoreForm::Sizes)};
constexpr AttrDecl kBlockAttrs[] = {required_attr("blocksize", AttrType::Int),
                                    string_attr("mode", "DCR")};

}  // namespace

graph::NodeSpec transpose_node(std::vector<int64_t> perm) {
  graph::NodeSpec n;
  n.op = "Transpose";
  n.attrs.set("perm", std::move(perm));
  return n;
}

std::span<const OpDef> view_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Transpose",
       .infer = infer_transpose,
       .contents = transposed_contents,
       .decompose = transpose,
       .lowering = Lowering::View,
       .element = transpose_element,
       .attributes = kTransposeAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Moves,
       .layout = LayoutRole::Permutation,
       .low_bit = true,
       .is_reshape = transpose_is_reshape,
       .is_identity = transpose_is_identity,
       .merge = merge_transposes},
      {.name = "Expand",
       .infer = infer_expand,
       .contents = expanded_contents,
       .decompose = expand,
       .lowering = Lowering::View,
       .element = expand_element,
       .max_inputs = 2,
       .attributes = kExpandAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Axes,
       .low_bit = true,
       .is_reshape = expand_is_reshape,
       .is_identity = always_identity,
       .merge = merge_into_last},
      {.name = "DepthToSpace",
       .infer = infer_depth_to_space,
       .decompose = depth_to_space,
       .attributes = kBlockAttrs,
       .low_bit = true},
      {.name = "SpaceToDepth",
       .infer = infer_space_to_depth,
       .decompose = space_to_depth,
       .attributes = kBlockAttrs,
       .low_bit = true},
  };
  return kOps;
}

}  // namespace reprise::ops
