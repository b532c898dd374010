// StateAppend and StateRows: the rows that a run appends to a state that grows, and all of its rows
// afterwards. The pass grow-states makes them.
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status append_element(ElementContext& ctx) {
  RP_ASSIGN(const kernel::Val v, ctx.input(0, ctx.index()));
  ctx.set(v);
  return {};
}

/// The rows before the run, and those that it appends.
Status infer_rows(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  Shape out = ctx.shape(0);
  if (ctx.rank(1) != ctx.rank(0)) return ctx.invalid("the rows differ in rank");
  out[0] += ctx.shape(1)[0];
  for (size_t d = 1; d < out.size(); ++d) {
    RP_ASSIGN(out[d], ctx.unify(out[d], ctx.shape(1)[d], "dims"));
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

// Equal rows of two states are not one value: each has its place.
constexpr AttrDecl kStateAttrs[] = {required_attr("state", AttrType::Int)};

graph::NodeSpec state_node(const char* op, int64_t state) {
  graph::NodeSpec spec;
  spec.op = op;
  spec.attrs.set("state", state);
  return spec;
}

}  // namespace

graph::NodeSpec state_append_node(int64_t state) {
  return state_node("StateAppend", state);
}

graph::NodeSpec state_rows_node(int64_t state) {
  return state_node("StateRows", state);
}

std::span<const OpDef> state_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "StateAppend",
       .infer = infer_same,
       .lowering = Lowering::View,
       .element = append_element,
       .attributes = kStateAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .moves = true,
       .low_bit = true},
      {.name = "StateRows",
       .infer = infer_rows,
       .lowering = Lowering::View,
       .element = append_element,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kStateAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .low_bit = true,
       .is_memory = true},
  };
  return kOps;
}

}  // namespace reprise::ops
