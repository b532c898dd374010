#include "codegen/lower/contraction.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Val;

std::optional<ConstantMatrix> constant_matrix(const graph::Graph& g, ValueId b) {
  ConstantMatrix m{b, false};
  const graph::Node* p = g.value(b).producer;
  if (p != nullptr && p->op == "Transpose" && p->opset == 0 &&
      p->attrs.get_ints("perm") == std::vector<int64_t>{1, 0}) {
    m = {p->inputs[0], true};
  }
  const graph::Value& v = g.value(m.value);
  if (!v.constant || v.dtype != DType::F32 || v.shape.size() != 2) return std::nullopt;
  return m;
}

Status guard(Evaluator& ev, Val condition, const std::function<Status()>& body) {
  Status status;
  auto scoped = [&] {
    ev.push_scope();
    status = body();
    ev.pop_scope();
  };
  if (condition) {
    ev.builder().if_then(condition, scoped);
  } else {
    scoped();
  }
  return status;
}

Status store_outputs(Evaluator& ev, const Group& group, const Index& index, Val result, int lanes) {
  const graph::Graph& g = ev.graph();
  const ValueId anchor = group.anchor->outputs[0];
  const kernel::Type type = ev.compute(g.value(anchor).dtype);
  if (ev.builder().type(result).ty != type.ty) result = ev.builder().convert(result, type.ty);
  ev.bind(anchor, index, result);
  for (ValueId v : group.outputs) {
    const Shape& shape = g.value(v).shape;
    const Index at =
        shape == group.domain ? index : ev.unflatten(ev.flatten(index, group.domain), shape);
    RP_ASSIGN(const Val val, ev.eval(v, at, lanes));
    RP_TRY(ev.store(v, at, val, lanes));
  }
  return {};
}

Coordinate clamped(Evaluator& ev, Val v, const Expr& end, bool exact) {
  kernel::Builder& b = ev.builder();
  if (exact) return {ev.symbol(v, end), Val{}};
  const Val limit = ev.value(end);
  const Val safe = b.min(v, b.sub(limit, b.i32(1)));
  return {ev.symbol(safe, end), b.lt(v, limit)};
}

}  // namespace reprise::lower
