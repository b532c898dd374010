// Reshape, and operators that become one because elements keep their order.
#include <algorithm>

#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

// --- Reshape -------------------------------------------------------------------------------------

/// The dim that -1 stands for: `total` divided by `known`.
Result<Expr> remaining_dim(InferContext& ctx, const Expr& total, const Expr& known) {
  if (known.is_const(0)) return ctx.invalid("-1 next to a dim of size 0 is ambiguous");
  if (const auto exact = Expr::divide_exact(total, known)) return *exact;
  const Expr q = Expr::floordiv(total, known);
  RP_ASSIGN([[maybe_unused]] const Expr same, ctx.unify(q * known, total, "element counts"));
  return q;
}

Result<Shape> reshaped(InferContext& ctx, const std::vector<Expr>& wanted, bool allow_zero) {
  const Shape& in = ctx.shape(0);
  const Expr total = element_count(in);
  Shape out;
  Expr known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Expr d = wanted[i];
    if (d.is_const(0) && !allow_zero) {
      if (i >= in.size()) {
        return ctx.invalid("shape " + ctx.str(wanted) + " copies dim " + std::to_string(i) +
                           " of a tensor of rank " + std::to_string(in.size()));
      }
      d = in[i];
    }
    if (d.is_const(-1)) {
      if (open) return ctx.invalid("shape " + ctx.str(wanted) + " has more than one -1");
      open = i;
      d = 1;
    }
    if (d.is_overflow() || bounds(d, ctx.graph_symbols()).hi < 0) {
      return ctx.invalid("shape " + ctx.str(wanted) + " has a negative dim");
    }
    known *= d;
    out.push_back(d);
  }
  if (open) {
    RP_ASSIGN(out[*open], remaining_dim(ctx, total, known));
    return out;
  }
  const auto same = ctx.unify(known, total, "element counts");
  if (!same.ok()) {
    return ctx.invalid("cannot reshape " + ctx.str(in) + " to " + ctx.str(wanted) + ": " +
                       total.str(ctx.graph_symbols()) + " elements against " +
                       known.str(ctx.graph_symbols()));
  }
  return out;
}

Status infer_reshape(InferContext& ctx) {
  std::optional<std::vector<Expr>> wanted;
  bool allow_zero = ctx.attrs().get_int("allowzero") != 0;
  if (const auto* exprs = ctx.attrs().get<std::vector<Expr>>("shape")) {
    wanted = *exprs;
    allow_zero = true;
  } else if (const auto* ints = ctx.attrs().get<std::vector<int64_t>>("shape")) {
    wanted = exprs_of(*ints);
  } else if (ctx.has_input(1)) {
    wanted = ctx.elements(1);
  } else {
    return ctx.invalid("input 'shape' is missing");
  }
  if (wanted) {
    RP_ASSIGN(Shape out, reshaped(ctx, *wanted, allow_zero));
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    return {};
  }
  RP_ASSIGN(const int64_t rank, static_length(ctx, 1));
  ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(0, static_cast<size_t>(rank)));
  return {};
}

/// Turns a view that keeps the order of elements into a Reshape to its output's shape.
Result<bool> to_reshape(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.reshape(c.in(0), c.shape(rw.node().outputs[0])));
  return c.finish();
}

Result<bool> squeeze(Rewriter& rw) {
  if (depends_on_data(InferContext(rw.graph(), rw.node()), "axes", 1)) return false;
  return to_reshape(rw);
}

Result<bool> reshape(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto* ints = ctx.attrs().get<std::vector<int64_t>>("shape");
  if (ctx.input_count() > 1 && !ctx.elements(1)) return false;  // the sizes depend on data
  if (ctx.input_count() == 1 && ints == nullptr) return mark_core(rw);
  return to_reshape(rw);
}

/// A group of dims with equal products in both shapes. Cutting the shapes into groups from the left
/// keeps index arithmetic within a group.
struct DimGroup {
  size_t in_begin, in_end, out_begin, out_end;
};
std::vector<DimGroup> matching_groups(const Shape& in, const Shape& out) {
  std::vector<DimGroup> groups;
  size_t i = 0;
  size_t j = 0;
  while (i < in.size() && j < out.size()) {
    DimGroup g{i, i + 1, j, j + 1};
    Expr a = in[i];
    Expr b = out[j];
    while (a != b) {
      const bool b_divides = Expr::divide_exact(a, b).has_value();
      if (b_divides && g.out_end < out.size()) {
        b *= out[g.out_end++];
      } else if (!b_divides && Expr::divide_exact(b, a) && g.in_end < in.size()) {
        a *= in[g.in_end++];
      } else {
        g.in_end = in.size();
        g.out_end = out.size();
        break;
      }
    }
    groups.push_back(g);
    i = g.in_end;
    j = g.out_end;
  }
  return groups;  // the remaining dims are 1
}

Shape sub(const Shape& s, size_t begin, size_t end) {
  return Shape(s.begin() + static_cast<std::ptrdiff_t>(begin),
               s.begin() + static_cast<std::ptrdiff_t>(end));
}

Status reshape_element(ElementContext& ctx) {
  const Shape& in = ctx.input_shape(0);
  const Shape& out = ctx.output_shape();
  std::optional<Index> index = ctx.same_position(in);
  if (!index) {
    index.emplace(in.size(), Expr(0));
    for (const DimGroup& g : matching_groups(in, out)) {
      const Expr linear =
          linearize(sub(ctx.index(), g.out_begin, g.out_end), sub(out, g.out_begin, g.out_end));
      const auto part = delinearize(linear, sub(in, g.in_begin, g.in_end));
      std::copy(part.begin(), part.end(), index->begin() + static_cast<std::ptrdiff_t>(g.in_begin));
    }
  }
  RP_ASSIGN(const kernel::Val v, ctx.input(0, *index));
  ctx.set(v);
  return {};
}

bool always_reshape(const graph::Graph&, const graph::Node&) {
  return true;
}

// --- Squeeze, Unsqueeze, Flatten -----------------------------------------------------------------

/// If axes depend on data, only the rank is known, and the node runs on the host.
Status infer_unknown_axes(InferContext& ctx, int64_t sign) {
  RP_ASSIGN(const int64_t n, static_length(ctx, 1));
  const int64_t rank = ctx.rank(0) + sign * n;
  if (rank < 0) return ctx.invalid("has more axes than the tensor");
  ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(0, static_cast<size_t>(rank)));
  return {};
}

/// Whether only a run knows the size, so that no option can fix it.
bool is_known_from_calls(InferContext& ctx, const Expr& size) {
  const graph::Graph& g = ctx.graph();
  return std::ranges::all_of(size.symbols(), [&g](SymbolId s) {
    return g.symbol_sources[static_cast<size_t>(s)].known_from_call();
  });
}

/// Without axes, Squeeze removes the dims that are 1. Later nodes need one rank, so a dim that is
/// not 1 in every run is kept, and a guard refuses runs in which it is 1.
Shape squeezed(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  Shape out;
  for (size_t i = 0; i < in.size(); ++i) {
    const Expr& d = in[i];
    if (d.is_const(1)) continue;
    if (may_equal(d, 1, ctx.graph_symbols())) {
      const std::string fixed =
          is_known_from_calls(ctx, d)
              ? ""
              : "; if the model is compiled with --shape, sizes of 1 are removed";
      ctx.at_least(d, "dimension " + std::to_string(i) + " of '" + ctx.input(0).name + "'", 2,
                   "the least size that Squeeze without axes keeps (set its axes in the model" +
                       fixed + ")");
    }
    out.push_back(d);
  }
  return out;
}

Status infer_squeeze(InferContext& ctx) {
  if (depends_on_data(ctx, "axes", 1)) return infer_unknown_axes(ctx, -1);
  RP_ASSIGN(const auto given, ints_attr_or_input(ctx, "axes", 1));
  const Shape& in = ctx.shape(0);
  Shape out;
  if (given) {
    RP_ASSIGN(const auto axes, ctx.axes(*given, ctx.rank(0)));
    for (size_t i = 0; i < in.size(); ++i) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) {
        out.push_back(in[i]);
        continue;
      }
      RP_ASSIGN([[maybe_unused]] const Expr one, ctx.unify(in[i], 1, "squeezed dim and 1"));
    }
  } else {
    out = squeezed(ctx);
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_unsqueeze(InferContext& ctx) {
  if (depends_on_data(ctx, "axes", 1)) return infer_unknown_axes(ctx, 1);
  RP_ASSIGN(const auto given, ints_attr_or_input(ctx, "axes", 1));
  if (!given) return ctx.invalid("axes are missing");
  const int64_t rank = ctx.rank(0) + static_cast<int64_t>(given->size());
  RP_ASSIGN(const auto axes, ctx.axes(*given, rank));
  Shape out(static_cast<size_t>(rank), Expr(0));
  for (int64_t a : axes) out[static_cast<size_t>(a)] = 1;
  size_t next = 0;
  for (Expr& d : out) {
    if (d.is_const(0)) d = ctx.shape(0)[next++];
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_flatten(InferContext& ctx) {
  const int64_t rank = ctx.rank(0);
  int64_t axis = ctx.attrs().get_int("axis");
  if (axis != rank) {
    RP_ASSIGN(axis, ctx.axis(axis, rank));
  }
  const auto a = static_cast<size_t>(axis);
  const Shape& in = ctx.shape(0);
  ctx.set_output(0, ctx.dtype(0), {product(in, 0, a), product(in, a, in.size())});
  return {};
}

// --- Identity, Dropout ---------------------------------------------------------------------------

/// Whether a node keeps every element: outside of training, or with the ratio 0. Nothing if that
/// depends on data.
std::optional<bool> drops_nothing(const InferContext& ctx) {
  if (!ctx.has_input(2)) return true;
  const auto training = constant_numbers(ctx.input(2));
  if (training && training->size() == 1 && (*training)[0] == 0) return true;
  if (!ctx.has_input(1)) return training ? std::optional(false) : std::nullopt;
  const auto ratio = constant_numbers(ctx.input(1));
  if (ratio && ratio->size() == 1 && (*ratio)[0] == 0) return true;
  return training && ratio ? std::optional(false) : std::nullopt;
}

Status infer_dropout(InferContext& ctx) {
  RP_TRY(infer_same(ctx));
  ctx.set_output(1, ctx.opset() < 10 ? ctx.dtype(0) : DType::Bool, ctx.shape(0));
  return {};
}

/// The host drops elements.
Result<bool> dropout(Rewriter& rw) {
  if (drops_nothing(InferContext(rw.graph(), rw.node())) != true)
    return rw.keep("the host drops elements");
  OpBuilder c(rw);
  const graph::Node& n = rw.node();
  if (n.outputs.size() > 1 && n.outputs[1] != graph::kNone) {
    const Shape s = c.shape(n.outputs[1]);
    c.replace(1, c.expand(c.scalar(c.dtype(n.outputs[1]), 1), s));
  }
  c.replace(0, c.in(0));
  return c.finish();
}

Result<bool> identity(Rewriter& rw) {
  if (is_container_output(rw)) return false;
  RP_TRY(rw.replace(0, rw.node().inputs[0]));
  return true;
}

constexpr AttrDecl kReshapeAttrs[] = {optional_attr("shape", AttrType::Ints, CoreForm::Sizes),
                                      int_attr("allowzero", 0)};
constexpr AttrDecl kAxesAttrs[] = {optional_attr("axes", AttrType::Ints)};
constexpr AttrDecl kFlattenAttrs[] = {int_attr("axis", 1)};
constexpr AttrDecl kDropoutAttrs[] = {float_attr("ratio", 0.5F),
                                      optional_attr("seed", AttrType::Int)};

}  // namespace

graph::NodeSpec reshape_node(Shape to) {
  graph::NodeSpec n;
  n.op = "Reshape";
  n.attrs.set("shape", std::vector<Expr>(std::move(to)));
  return n;
}

void become_reshape(const graph::Graph& g, graph::Node& n) {
  if (n.op == "Reshape") return;
  graph::NodeSpec made = reshape_node(g.value(n.outputs[0]).shape);
  n.op = made.op;
  n.attrs = std::move(made.attrs);
}

std::span<const OpDef> reshape_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Reshape",
       .infer = infer_reshape,
       .contents = same_contents,
       .decompose = reshape,
       .lowering = Lowering::View,
       .element = reshape_element,
       .max_inputs = 2,
       .attributes = kReshapeAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Moves,
       .layout = LayoutRole::Regroup,
       .low_bit = true,
       .is_reshape = always_reshape,
       .is_identity = always_identity,
       .merge = merge_into_last},
      {.name = "Squeeze",
       .infer = infer_squeeze,
       .contents = same_contents,
       .decompose = squeeze,
       .max_inputs = 2,
       .attributes = kAxesAttrs,
       .host_rounding = HostRounding::Moves,
       .low_bit = true},
      {.name = "Unsqueeze",
       .infer = infer_unsqueeze,
       .contents = same_contents,
       .decompose = squeeze,
       .max_inputs = 2,
       .attributes = kAxesAttrs,
       .host_rounding = HostRounding::Moves,
       .low_bit = true},
      {.name = "Flatten",
       .infer = infer_flatten,
       .contents = same_contents,
       .decompose = to_reshape,
       .attributes = kFlattenAttrs,
       .host_rounding = HostRounding::Moves,
       .low_bit = true},
      {.name = "Identity",
       .infer = infer_same,
       .contents = same_contents,
       .decompose = identity,
       .host_rounding = HostRounding::Moves,
       .low_bit = true,
       .containers = true,
       .is_identity = always_identity},
      {.name = "Dropout",
       .infer = infer_dropout,
       .decompose = dropout,
       .min_opset = 7,
       .max_inputs = 3,
       .max_outputs = 2,
       .attributes = kDropoutAttrs,
       .random = true},
  };
  return kOps;
}

}  // namespace reprise::ops
