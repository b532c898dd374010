#include <algorithm>

#include "codegen/lower/lower.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;

namespace {

constexpr uint32_t kWorkgroup = 64;

struct Schedule {
  int lanes = 1;             // consecutive elements computed as one vector
  int vectors = 1;           // vectors per invocation
  bool whole_words = false;  // lanes past the end are computed at the last element: an invocation
                             // owns whole 32-bit words of a narrow output
};

uint32_t flops(const Group& group) {
  uint32_t sum = 0;
  for (const graph::Node* n : group.nodes) {
    const ops::OpDef* def = def_of(*n);
    if (def != nullptr && def->row) sum += kernel::row(*def->row).cost;
  }
  return sum;
}

/// Pure function of the shapes and the target; tests read it through Lowered::schedule.
Schedule choose(const graph::Graph& g, const Group& group, const Target& target) {
  Schedule s;
  const Expr total = element_count(group.domain);
  const bool divisible = total.known_divisor(g.symbols) % 4 == 0;
  size_t narrowest = 4;
  for (ValueId v : group.outputs) narrowest = std::min(narrowest, size_of(g.value(v).dtype));
  const bool needs_words = (narrowest == 1 && !target.predicate.needs_storage8) ||
                           (narrowest == 2 && !target.predicate.needs_storage16);
  bool loops = group.kind == GroupKind::Contraction || group.kind == GroupKind::Row;
  for (const graph::Node* n : group.nodes) {
    const ops::OpDef* def = def_of(*n);
    loops |= def != nullptr && def->reads_per_element != nullptr;
  }
  if (divisible && (!loops || needs_words)) {
    s.lanes = 4;
  } else if (needs_words) {
    s.lanes = 4;
    s.whole_words = true;
  }
  // A CPU-type device gathers per lane: consecutive memory per invocation is what it caches well.
  if (target.cpu_type() && s.lanes == 4 && !loops) {
    const bool large = !total.is_const() || total.value() >= (int64_t{1} << 16);
    s.vectors = large ? (flops(group) > 64 ? 4 : 8) : 1;
  }
  return s;
}

/// Stores the lanes of the last vector that exist, in whole 32-bit words.
Status store_words(Evaluator& ev, ValueId v, const Expr& first, const Expr& total,
                   kernel::Val val) {
  kernel::Builder& b = ev.builder();
  const int size = static_cast<int>(size_of(ev.graph().value(v).dtype));
  const int chunk = std::max(1, 4 / size);
  Status status;
  for (int at = 0; at < 4 && status.ok(); at += chunk) {
    std::vector<kernel::Val> lanes;
    for (int l = at; l < at + chunk; ++l) lanes.push_back(b.extract(val, l));
    const kernel::Val part = chunk > 1 ? b.compose(lanes) : lanes[0];
    const Expr position = first + Expr(at) + (chunk > 1 ? ev.lane() : Expr(0));
    b.if_then(b.lt(ev.value(first + Expr(at)), ev.value(total)), [&] {
      ev.push_scope();
      status = ev.store_at(v, position, part, chunk);
      ev.pop_scope();
    });
  }
  return status;
}

/// Computes and stores all outputs at vector `i` of `lanes` elements.
Status emit_vector(Evaluator& ev, const Group& group, const Schedule& s, const Expr& i,
                   const Expr& total) {
  const Expr first = Expr(s.lanes) * i;
  const Expr linear = s.lanes > 1 ? first + ev.lane() : first;
  const Expr read = s.whole_words ? Expr::min(linear, total - Expr(1)) : linear;
  for (ValueId v : group.outputs) {
    const Shape& shape = ev.graph().value(v).shape;
    RP_ASSIGN(const kernel::Val val, ev.eval(v, ev.unflatten(read, shape), s.lanes));
    RP_TRY(s.whole_words ? store_words(ev, v, first, total, val)
                         : ev.store_at(v, linear, val, s.lanes));
  }
  return {};
}

}  // namespace

Result<Lowered> lower_pointwise(const graph::Graph& g, const Group& group, const Target& target) {
  Builder b(kernel_name(group));
  b.set_workgroup(kWorkgroup);
  Evaluator ev(g, group, b);
  const Schedule s = choose(g, group, target);
  const Expr total = element_count(group.domain);
  const Expr vectors = Expr::ceildiv(total, s.lanes);
  const Expr invocations = Expr::ceildiv(vectors, s.vectors);
  const Expr groups = Expr::ceildiv(invocations, kWorkgroup);
  const kernel::Val id = linear_invocation(b, groups, kWorkgroup);
  Status status;
  auto guarded = [&](kernel::Val i) {
    b.if_then(b.lt(i, ev.value(vectors)), [&] {
      ev.push_scope();
      status = emit_vector(ev, group, s, ev.symbol(i, vectors), total);
      ev.pop_scope();
    });
  };
  if (s.vectors == 1) {
    guarded(id);
  } else {
    const kernel::Val first = b.mul(id, b.i32(s.vectors));
    ev.for_loop(b.i32(0), b.i32(s.vectors), b.i32(1), s.vectors,
                [&](kernel::Val u) { guarded(b.add(first, u)); });
  }
  RP_TRY(status);
  std::string name = "pointwise v" + std::to_string(s.lanes) + " x" + std::to_string(s.vectors);
  if (s.whole_words) name += " words";
  if (group.kind != GroupKind::Pointwise) name = "direct";
  return finish(ev, b, group, groups, target, name);
}

}  // namespace reprise::lower
