// Operators whose results depend on shapes only: Shape, Size, ShapeValue.
#include <algorithm>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

/// The dims that a Shape node returns.
Shape measured(const InferContext& ctx) {
  const int64_t rank = ctx.rank(0);
  const auto position = [rank](int64_t a) {
    return std::clamp(a < 0 ? a + rank : a, int64_t{0}, rank);
  };
  const int64_t start = position(ctx.attrs().get_int("start"));
  const int64_t end = std::max(start, position(ctx.attrs().get_or("end", rank)));
  return {ctx.shape(0).begin() + start, ctx.shape(0).begin() + end};
}

Status infer_shape(InferContext& ctx) {
  ctx.set_output(0, DType::I64, {Expr(static_cast<int64_t>(measured(ctx).size()))});
  return {};
}
void shape_contents(ContentsContext& ctx) {
  ctx.set_elements(0, measured(ctx));
}

Status infer_size(InferContext& ctx) {
  ctx.set_output(0, DType::I64, {});
  return {};
}
void size_contents(ContentsContext& ctx) {
  ctx.set_elements(0, {element_count(ctx.shape(0))});
}

AttrMap shape_value_attrs(const graph::Value& v) {
  AttrMap a;
  a.set("elements", *v.elements);
  a.set("dtype", dtype_to_onnx(v.dtype));
  a.set("scalar", static_cast<int64_t>(v.shape.empty()));
  return a;
}

/// Stores the contents as attributes, so that the node no longer reads the tensor.
Result<bool> to_shape_value(Rewriter& rw) {
  const graph::Value out = rw.graph().value(rw.node().outputs[0]);
  if (!out.elements) return false;
  RP_ASSIGN(const graph::ValueId v, rw.emit("ShapeValue", {}, shape_value_attrs(out)));
  RP_TRY(rw.replace(0, v));
  return true;
}

Status infer_shape_value(InferContext& ctx) {
  const auto* elements = ctx.attrs().get<std::vector<Expr>>("elements");
  if (elements == nullptr) return ctx.error(Code::Internal, "attribute 'elements' is missing");
  RP_ASSIGN(const DType dtype, dtype_attr(ctx, "dtype"));
  const bool scalar = ctx.attrs().get_int("scalar") != 0;
  if ((dtype != DType::I64 && dtype != DType::I32) || (scalar && elements->size() != 1)) {
    return ctx.error(Code::Internal, "a ShapeValue has malformed attributes");
  }
  ctx.set_output(0, dtype, scalar ? Shape{} : Shape{Expr(static_cast<int64_t>(elements->size()))});
  return {};
}
void shape_value_contents(ContentsContext& ctx) {
  ctx.set_elements(0, ctx.attrs().get_exprs("elements"));
}

Status shape_value_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const auto elements = Attributes(ctx.node()).get_exprs("elements");
  const kernel::Type t = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  const auto as_output = [&](kernel::Val v) { return b.type(v) == t ? v : b.convert(v, t.ty); };
  if (elements.empty()) {
    ctx.set(b.constant(t, 0));
    return {};
  }
  kernel::Val v = as_output(ctx.number(elements[0]));
  for (size_t i = 1; i < elements.size(); ++i) {
    const kernel::Val here = b.eq(ctx.value(ctx.index()[0]), b.i32(static_cast<int64_t>(i)));
    v = b.select(here, as_output(ctx.number(elements[i])), v);
  }
  ctx.set(v);
  return {};
}

constexpr AttrDecl kShapeAttrs[] = {int_attr("start", 0), optional_attr("end", AttrType::Int)};
constexpr AttrDecl kShapeValueAttrs[] = {
    core_attr("elements", CoreForm::Exprs),
    {.name = "dtype", .fallback = int64_t{7}, .core = CoreForm::Int, .internal = true},
    core_flag("scalar")};

}  // namespace

void become_shape_value(graph::Graph& g, graph::Node& n) {
  n.op = "ShapeValue";
  n.origin_op = {};
  n.domain.clear();
  n.opset = 0;
  g.set_inputs(n, {});
  n.subgraphs.clear();
  n.attrs = shape_value_attrs(g.value(n.outputs[0]));
}

std::span<const OpDef> shape_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Shape",
       .infer = infer_shape,
       .contents = shape_contents,
       .decompose = to_shape_value,
       .attributes = kShapeAttrs,
       .low_bit = true},
      {.name = "Size",
       .infer = infer_size,
       .contents = size_contents,
       .decompose = to_shape_value,
       .low_bit = true},
      {.name = "ShapeValue",
       .infer = infer_shape_value,
       .contents = shape_value_contents,
       .lowering = Lowering::Element,
       .element = shape_value_element,
       .min_inputs = 0,
       .max_inputs = 0,
       .attributes = kShapeValueAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .dims_only = true},
  };
  return kOps;
}

}  // namespace reprise::ops
