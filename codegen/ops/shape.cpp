// Operators whose result depends on shapes only: Shape, Size, ShapeValue.
#include <algorithm>

#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/op_builder.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

/// The dims that a Shape node gives.
Shape measured(const InferContext& ctx) {
  const int64_t rank = ctx.rank(0);
  const auto position = [rank](int64_t a) {
    return std::clamp(a < 0 ? a + rank : a, int64_t{0}, rank);
  };
  const int64_t start = position(ctx.attrs().get_int("start", 0));
  const int64_t end = std::max(start, position(ctx.attrs().get_int("end", rank)));
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

/// The contents as attributes, without the tensor that was measured.
Result<bool> to_shape_value(Rewriter& rw) {
  const graph::Value out = rw.graph().value(rw.node().outputs[0]);
  if (!out.elements) return false;
  AttrMap a;
  a.set("elements", *out.elements);
  a.set("dtype", dtype_to_onnx(out.dtype));
  a.set("scalar", static_cast<int64_t>(out.shape.empty()));
  RP_ASSIGN(const graph::ValueId v, rw.emit("ShapeValue", {}, std::move(a)));
  RP_TRY(rw.replace(0, v));
  return true;
}

Status infer_shape_value(InferContext& ctx) {
  const auto* elements = ctx.attrs().get<std::vector<Expr>>("elements");
  if (elements == nullptr) return ctx.error(Code::Internal, "attribute 'elements' is missing");
  RP_ASSIGN(const DType dtype, dtype_attr(ctx, "dtype", DType::I64));
  const bool scalar = ctx.attrs().get_int("scalar", 0) != 0;
  if ((dtype != DType::I64 && dtype != DType::I32) || (scalar && elements->size() != 1)) {
    return ctx.error(Code::Internal, "malformed ShapeValue");
  }
  ctx.set_output(0, dtype, scalar ? Shape{} : Shape{Expr(static_cast<int64_t>(elements->size()))});
  return {};
}
void shape_value_contents(ContentsContext& ctx) {
  ctx.set_elements(0, ctx.attrs().get_exprs("elements"));
}

Status shape_value_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const auto elements = ctx.node().attrs.get_exprs("elements");
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

}  // namespace

std::span<const OpDef> shape_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Shape",
       .infer = infer_shape,
       .contents = shape_contents,
       .decompose = to_shape_value,
       .attributes = "start end"},
      {.name = "Size", .infer = infer_size, .contents = size_contents, .decompose = to_shape_value},
      {.name = "ShapeValue",
       .infer = infer_shape_value,
       .contents = shape_value_contents,
       .lowering = Lowering::Element,
       .element = shape_value_element,
       .attributes = "elements dtype scalar",
       .min_inputs = 0,
       .max_inputs = 0},
  };
  return kOps;
}

}  // namespace reprise::ops
