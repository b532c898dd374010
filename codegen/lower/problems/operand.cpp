#include "codegen/lower/problems/operand.h"

#include <algorithm>
#include <numeric>

#include "codegen/lower/evaluate/stored_element.h"

namespace reprise::lower {

using graph::ValueId;

std::optional<OperandLayout> layout_of(ResultKernel& kernel, ValueId v, const OperandIndex& index) {
  Evaluator& ev = kernel.evaluator();
  // Symbols that stand for any row and any k; no instruction uses their values.
  const Value some = shaders::local_index(kernel.builder());
  const Expr i = ev.symbol(some, index.count), k = ev.symbol(some, index.depth);
  const auto found = stored_element(ev, kernel.group(), v, index.at(i, k));
  if (!found) return std::nullopt;
  const auto position = [&](const Expr& row, const Expr& depth) {
    return ev.simplify(found->position.substitute([&](SymbolId id) -> std::optional<Expr> {
      if (i.as_symbol() == id) return row;
      if (k.as_symbol() == id) return depth;
      return std::nullopt;
    }));
  };
  const Expr here = position(i, k);
  OperandLayout out{found->value, position(0, 0), ev.simplify(position(i + 1, k) - here),
                    ev.simplify(position(i, k + 1) - here)};
  const auto varies = [&](const Expr& e) {
    return std::ranges::any_of(
        e.symbols(), [&](SymbolId id) { return i.as_symbol() == id || k.as_symbol() == id; });
  };
  if (varies(out.across) || varies(out.along)) return std::nullopt;
  return out;
}

shaders::Operand operand_of(ResultKernel& kernel, ValueId v, const OperandIndex& index) {
  Evaluator& ev = kernel.evaluator();
  const graph::Graph& g = kernel.graph();
  shaders::Operand out{graph::storage_of(g.value(v))};
  const auto found = layout_of(kernel, v, index);
  if (!found) return out;
  const auto& [value, first, across, along] = *found;
  shaders::PlainOperand plain;
  plain.buffer = ev.buffer(value);
  plain.type = kernel::storage_type(graph::storage_of(g.value(value)));
  plain.first = ev.value(first);
  plain.across = ev.value(across);
  plain.along = ev.value(along);
  plain.contiguous_across = across.is_const(1);
  plain.contiguous_along = along.is_const(1);
  plain.divisor = first.known_divisor(g.symbols);
  for (const Expr* distance : {&across, &along})
    if (!distance->is_const(1))
      plain.divisor = std::gcd(plain.divisor, distance->known_divisor(g.symbols));
  out.dtype = graph::storage_of(g.value(value));
  out.plain = plain;
  return out;
}

}  // namespace reprise::lower
