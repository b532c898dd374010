// Slice, Split and Concat.
#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

// --- Slice ---------------------------------------------------------------------------------------

/// One start and step per axis of the input, and the sizes of the result.
struct SliceForm {
  std::vector<Expr> starts;
  std::vector<Expr> steps;
  Shape sizes;
};

std::optional<std::vector<Expr>> slice_argument(const InferContext& ctx, const char* attr,
                                                size_t input) {
  if (const auto* v = ctx.attrs().get<std::vector<int64_t>>(attr)) return exprs_of(*v);
  return ctx.elements(input);
}

/// Nothing if starts, ends, axes or steps depend on data.
Result<std::optional<SliceForm>> slice_form(const InferContext& ctx,
                                            std::span<const Symbol> table) {
  if (depends_on_data(ctx, "axes", 3)) return std::optional<SliceForm>{};
  const auto starts = slice_argument(ctx, "starts", 1);
  const auto ends = slice_argument(ctx, "ends", 2);
  RP_ASSIGN(const auto given, ints_attr_or_input(ctx, "axes", 3));
  const auto steps =
      ctx.has_input(4) ? ctx.constant_ints(4) : std::optional<std::vector<int64_t>>{};
  if (!starts || !ends || (ctx.has_input(4) && !steps)) return std::optional<SliceForm>{};
  const size_t n = starts->size();
  RP_ASSIGN(const auto axes,
            ctx.axes(given ? *given : iota(0, static_cast<int64_t>(n)), ctx.rank(0)));
  if (ends->size() != n || axes.size() != n || (steps && steps->size() != n)) {
    return ctx.invalid("starts, ends, axes and steps differ in length");
  }
  SliceForm f;
  f.sizes = ctx.shape(0);
  f.starts.assign(f.sizes.size(), Expr(0));
  f.steps.assign(f.sizes.size(), Expr(1));
  for (size_t i = 0; i < n; ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    const int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) return ctx.invalid("a step is 0, must be nonzero");
    const SliceRange r = slice_range((*starts)[i], (*ends)[i], step, f.sizes[a], table);
    f.starts[a] = r.start;
    f.steps[a] = Expr(r.step);
    f.sizes[a] = r.size;
  }
  return std::optional(std::move(f));
}

void sliced_contents(ContentsContext& ctx, const SliceForm& f) {
  const auto e = ctx.elements(0);
  const Shape& in = ctx.shape(0);
  if (!e || !is_static(f.sizes) || !is_static(in)) return;
  const Expr count = element_count(f.sizes);
  std::vector<Expr> out;
  for (int64_t linear = 0; linear < count.value(); ++linear) {
    auto at = delinearize(Expr(linear), f.sizes);
    for (size_t d = 0; d < at.size(); ++d) at[d] = f.starts[d] + at[d] * f.steps[d];
    const Expr from = linearize(at, in);
    if (!from.is_const() || from.value() < 0 || from.value() >= static_cast<int64_t>(e->size())) {
      return;
    }
    out.push_back((*e)[static_cast<size_t>(from.value())]);
  }
  ctx.set_elements(0, std::move(out));
}

/// In core form, the sizes are the output's shape.
SliceForm core_form(const InferContext& ctx, const graph::Value& out) {
  return {ctx.attrs().get_exprs("starts"), ctx.attrs().get_exprs("steps"), out.shape};
}

bool is_core_form(const InferContext& ctx) {
  return ctx.attrs().get<std::vector<Expr>>("starts") != nullptr;
}

void slice_contents(ContentsContext& ctx) {
  if (is_core_form(ctx)) return sliced_contents(ctx, core_form(ctx, ctx.output(0)));
  const auto form = slice_form(ctx, ctx.graph_symbols());
  if (form.ok() && *form) sliced_contents(ctx, **form);
}

Status infer_core_slice(InferContext& ctx) {
  const graph::Value& out = ctx.graph().value(ctx.node().outputs[0]);
  const SliceForm f = core_form(ctx, out);
  const size_t rank = ctx.shape(0).size();
  if (!out.has_shape || f.starts.size() != rank || f.steps.size() != rank ||
      f.sizes.size() != rank) {
    return ctx.error(Code::Internal, "core form needs starts, steps and an output shape of rank " +
                                         std::to_string(rank));
  }
  // Kernels do not check their reads, so a decomposition must not read what does not exist.
  const auto range = [&](const Expr& e) { return bounds(e, ctx.graph_symbols()); };
  for (size_t d = 0; d < rank; ++d) {
    if (range(f.sizes[d]).lo < 1) continue;
    const Expr last = f.starts[d] + (f.sizes[d] - 1) * f.steps[d];
    for (const Expr& e : {f.starts[d], last}) {
      if (range(e).hi < 0 || range(ctx.shape(0)[d] - e - 1).hi < 0)
        return ctx.error(Code::InvalidModel,
                         "element " + e.str(ctx.graph_symbols()) + " of axis " + std::to_string(d) +
                             " of " + ctx.str(ctx.shape(0)) + " is read, which does not exist");
    }
  }
  ctx.set_output(0, ctx.dtype(0), f.sizes);
  return {};
}

Status infer_slice(InferContext& ctx) {
  if (is_core_form(ctx)) return infer_core_slice(ctx);
  RP_ASSIGN(const auto form, slice_form(ctx, ctx.graph_symbols()));
  if (form) {
    ctx.set_output(0, ctx.dtype(0), form->sizes);
    return {};
  }
  Shape out = ctx.shape(0);
  std::vector<int64_t> axes = iota(0, ctx.rank(0));
  if (!depends_on_data(ctx, "axes", 3)) {
    RP_ASSIGN(const auto given, ints_attr_or_input(ctx, "axes", 3));
    if (given) {
      RP_ASSIGN(axes, ctx.axes(*given, ctx.rank(0)));
    }
  }
  for (int64_t a : axes) {
    out[static_cast<size_t>(a)] = ctx.fresh_symbol(0, static_cast<size_t>(a));
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Result<bool> slice(Rewriter& rw) {
  if (Attributes(rw.node()).get<std::vector<Expr>>("starts") != nullptr) return mark_core(rw);
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto form, slice_form(ctx, rw.graph().symbols));
  if (!form) return false;
  OpBuilder c(rw);
  c.replace(0, c.slice(c.in(0), form->starts, form->steps, c.shape(rw.node().outputs[0])));
  return c.finish();
}

Status slice_element(ElementContext& ctx) {
  const auto starts = Attributes(ctx.node()).get_exprs("starts");
  const auto steps = Attributes(ctx.node()).get_exprs("steps");
  Index index;
  for (size_t d = 0; d < starts.size(); ++d) {
    index.push_back(starts[d] + ctx.index()[d] * steps[d]);
  }
  RP_ASSIGN(const kernel::Val v, ctx.input(0, index));
  ctx.set(v);
  return {};
}

/// Whether the slice takes whole axes forwards. Its sizes are those of the input.
bool slice_is_identity(const graph::Node& n) {
  const auto all = [&](const char* name, int64_t value) {
    const auto exprs = Attributes(n).get_exprs(name);
    return std::ranges::all_of(exprs, [&](const Expr& e) { return e.is_const(value); });
  };
  return all("steps", 1) && all("starts", 0);
}

Status check_core_slice(const graph::Graph&, const graph::Node& n) {
  for (const Expr& step : Attributes(n).get_exprs("steps")) {
    if (!step.is_const() || step.value() == 0) {
      return internal_error("the steps of a core Slice must be nonzero constants");
    }
  }
  return {};
}

// --- Split ---------------------------------------------------------------------------------------

/// The sizes of the parts. Nothing if they depend on data.
Result<std::optional<std::vector<Expr>>> split_sizes(const InferContext& ctx, const Expr& dim,
                                                     size_t outputs, std::span<const Symbol> t) {
  std::optional<std::vector<Expr>> sizes;
  if (const auto* v = ctx.attrs().get<std::vector<int64_t>>("split")) sizes = exprs_of(*v);
  if (ctx.has_input(1)) {
    sizes = ctx.elements(1);
    if (!sizes) return sizes;
  }
  if (sizes) {
    if (sizes->size() != outputs) {
      return ctx.invalid("splits into " + std::to_string(sizes->size()) + " parts, but has " +
                         std::to_string(outputs) + " outputs");
    }
    Expr total = 0;
    for (const Expr& s : *sizes) total += s;
    RP_ASSIGN([[maybe_unused]] const Expr same,
              ctx.unify(total, dim, "the sum of the parts and the dim"));
    return sizes;
  }
  const auto n = static_cast<int64_t>(outputs);
  const int64_t wanted = ctx.attrs().get_or("num_outputs", n);
  if (wanted != n)
    return ctx.invalid("num_outputs is " + std::to_string(wanted) + ", but the node has " +
                       std::to_string(n) + " outputs");
  sizes.emplace();
  if (ctx.attrs().has("num_outputs")) {
    // Since opset 18, the last part may be smaller.
    const Expr part = Expr::ceildiv(dim, Expr(n));
    for (int64_t i = 0; i + 1 < n; ++i) {
      sizes->push_back(min_of(part, max_of(dim - part * Expr(i), 0, t), t));
    }
    sizes->push_back(max_of(dim - part * Expr(n - 1), 0, t));
    return sizes;
  }
  const Expr part = Expr::floordiv(dim, Expr(n));
  RP_ASSIGN([[maybe_unused]] const Expr same,
            ctx.unify(part * Expr(n), dim, "a multiple of the outputs and the dim"));
  sizes->assign(outputs, part);
  return sizes;
}

Status infer_split(InferContext& ctx) {
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  const auto a = static_cast<size_t>(axis);
  const size_t n = ctx.node().outputs.size();
  RP_ASSIGN(const auto sizes, split_sizes(ctx, ctx.shape(0)[a], n, ctx.graph_symbols()));
  const Shape in = ctx.shape(0);
  const DType t = ctx.dtype(0);
  for (size_t i = 0; i < n; ++i) {
    Shape out = in;
    out[a] = sizes ? (*sizes)[i] : ctx.fresh_symbol(i, a);
    ctx.set_output(i, t, out);
  }
  return {};
}

/// Contents for a vector.
void split_contents(ContentsContext& ctx) {
  const auto e = ctx.elements(0);
  const size_t n = ctx.node().outputs.size();
  if (!e || ctx.rank(0) != 1) return;
  const auto sizes = split_sizes(ctx, ctx.shape(0)[0], n, ctx.graph_symbols());
  if (!sizes.ok() || !*sizes) return;
  int64_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    const Expr& size = (**sizes)[i];
    const auto left = static_cast<int64_t>(e->size()) - begin;
    if (!size.is_const() || size.value() < 0 || size.value() > left) return;
    ctx.set_elements(i, {e->begin() + begin, e->begin() + begin + size.value()});
    begin += size.value();
  }
}

Result<bool> split(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const size_t n = rw.node().outputs.size();
  const int64_t given = Attributes(rw.node()).get_int("axis");
  const int64_t axis = given < 0 ? given + ctx.rank(0) : given;
  const Expr dim = ctx.shape(0)[static_cast<size_t>(axis)];
  RP_ASSIGN(const auto sizes, split_sizes(ctx, dim, n, rw.graph().symbols));
  if (!sizes) return false;
  OpBuilder c(rw);
  Expr begin = 0;
  for (size_t i = 0; i < n; ++i) {
    if (rw.node().outputs[i] != graph::kNone) {
      c.replace(i, c.slice_axis(c.in(0), axis, begin, (*sizes)[i]));
    }
    begin += (*sizes)[i];
  }
  return c.finish();
}

// --- Concat --------------------------------------------------------------------------------------

Status infer_concat(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  Shape out = ctx.shape(0);
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    const Shape& s = ctx.shape(i);
    if (s.size() != out.size()) {
      return ctx.invalid("inputs '" + ctx.input(0).name + "' " + ctx.str(ctx.shape(0)) + " and '" +
                         ctx.input(i).name + "' " + ctx.str(s) + " differ in rank");
    }
    for (size_t d = 0; d < out.size(); ++d) {
      if (d == static_cast<size_t>(axis)) {
        out[d] += s[d];
        continue;
      }
      auto same = ctx.unify(out[d], s[d], "dims");
      if (!same.ok()) {
        return ctx.invalid("inputs '" + ctx.input(0).name + "' " + ctx.str(ctx.shape(0)) +
                           " and '" + ctx.input(i).name + "' " + ctx.str(s) + " differ in axis " +
                           std::to_string(d));
      }
      out[d] = *same;
    }
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Contents for vectors.
void concat_contents(ContentsContext& ctx) {
  if (ctx.rank(0) != 1) return;
  std::vector<Expr> all;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    const auto e = ctx.elements(i);
    if (!e) return;
    all.insert(all.end(), e->begin(), e->end());
  }
  ctx.set_elements(0, std::move(all));
}

/// The most operands of a Concat in core form. A kernel has a condition for each operand, and
/// drivers need more than linear time to compile these (docs/tuning.md).
constexpr std::ptrdiff_t kMaxSplitParts = 64;

/// Joins more operands in several steps.
Result<bool> concat(Rewriter& rw) {
  const auto rank = static_cast<int64_t>(rw.input(0).shape.size());
  int64_t axis = Attributes(rw.node()).get_int("axis");
  if (axis < 0) axis += rank;
  if (std::ssize(rw.node().inputs) <= kMaxSplitParts) {
    rw.node().attrs.set("axis", axis);
    return mark_core(rw);
  }
  OpBuilder c(rw);
  std::vector<graph::ValueId> parts = rw.node().inputs;
  while (parts.size() > 1) {
    std::vector<graph::ValueId> joined;
    for (auto at = parts.begin(); at != parts.end();) {
      const auto end = at + std::min<std::ptrdiff_t>(kMaxSplitParts, parts.end() - at);
      joined.push_back(c.concat({at, end}, axis));
      at = end;
    }
    parts = std::move(joined);
  }
  c.replace(0, parts[0]);
  return c.finish();
}

/// Tests the range of each part in turn. A part is loaded only if its range holds the position.
Status concat_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const auto axis = static_cast<size_t>(Attributes(ctx.node()).get_int("axis"));
  const size_t n = ctx.node().inputs.size();
  std::vector<Expr> begins{Expr(0)};
  for (size_t i = 0; i < n; ++i) begins.push_back(begins.back() + ctx.input_shape(i)[axis]);
  const auto load = [&](size_t i) {
    Index index = ctx.index();
    index[axis] = index[axis] - begins[i];
    return ctx.input(i, index);
  };
  const kernel::Val at = ctx.value(ctx.index()[axis]);
  const DType dtype = ctx.graph().value(ctx.node().outputs[0]).dtype;
  const kernel::Val zero = b.constant(ctx.compute(dtype), 0);
  std::optional<kernel::Val> result;
  for (size_t i = 0; i < n; ++i) {
    if (ctx.input_shape(i)[axis].is_const(0)) continue;
    if (n == 1) {
      RP_ASSIGN(result, load(i));
      break;
    }
    const kernel::Val inside =
        b.logical_and(b.ge(at, ctx.value(begins[i])), b.lt(at, ctx.value(begins[i + 1])));
    RP_ASSIGN(const kernel::Val v,
              ctx.guarded(inside, result ? *result : zero, [&] { return load(i); }));
    result = v;
  }
  ctx.set(result ? *result : zero);
  return {};
}

bool concat_is_identity(const graph::Node& n) {
  return n.inputs.size() == 1;
}

constexpr AttrDecl kSliceAttrs[] = {
    optional_attr("starts", AttrType::Ints, CoreForm::PerAxis),
    optional_attr("ends", AttrType::Ints),
    optional_attr("axes", AttrType::Ints),
    {.name = "steps", .type = AttrType::Ints, .core = CoreForm::PerAxis, .internal = true}};
constexpr AttrDecl kSplitAttrs[] = {int_attr("axis", 0), optional_attr("split", AttrType::Ints),
                                    optional_attr("num_outputs", AttrType::Int)};
constexpr AttrDecl kConcatAttrs[] = {int_attr("axis", 1, CoreForm::Axis)};

}  // namespace

graph::NodeSpec slice_node(std::vector<Expr> starts) {
  graph::NodeSpec n;
  n.op = "Slice";
  n.attrs.set("steps", std::vector<Expr>(starts.size(), Expr(1)));
  n.attrs.set("starts", std::move(starts));
  return n;
}

graph::NodeSpec concat_node(int64_t axis) {
  graph::NodeSpec n;
  n.op = "Concat";
  n.attrs.set("axis", axis);
  return n;
}

std::span<const OpDef> slice_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Slice",
       .infer = infer_slice,
       .contents = slice_contents,
       .decompose = slice,
       .lowering = Lowering::View,
       .element = slice_element,
       .max_inputs = 5,
       .attributes = kSliceAttrs,
       .check_core = check_core_slice,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Axes,
       .slices = true,
       .low_bit = true,
       .is_identity = slice_is_identity},
      {.name = "Split",
       .infer = infer_split,
       .contents = split_contents,
       .decompose = split,
       .max_inputs = 2,
       .max_outputs = kVariadic,
       .attributes = kSplitAttrs,
       .low_bit = true},
      {.name = "Concat",
       .infer = infer_concat,
       .contents = concat_contents,
       .decompose = concat,
       .lowering = Lowering::Element,
       .element = concat_element,
       .max_inputs = kVariadic,
       .attributes = kConcatAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Axes,
       .concatenates = true,
       .moves = true,
       .low_bit = true,
       .is_identity = concat_is_identity},
  };
  return kOps;
}

}  // namespace reprise::ops
