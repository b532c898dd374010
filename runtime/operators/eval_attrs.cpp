#include "runtime/operators/eval_attrs.h"

#include <algorithm>

namespace reprise {

bool has_exprs(const AttrMap& attrs) {
  return std::any_of(attrs.begin(), attrs.end(), [](const auto& attr) {
    return std::holds_alternative<std::vector<Expr>>(attr.second);
  });
}

Result<AttrMap> eval_attrs(const AttrMap& attrs, std::span<const int64_t> symbols) {
  AttrMap out = attrs;
  if (!has_exprs(attrs)) return out;
  for (const auto& [name, value] : attrs) {
    const auto* exprs = std::get_if<std::vector<Expr>>(&value);
    if (!exprs) continue;
    std::vector<int64_t> ints;
    for (const Expr& e : *exprs) {
      auto v = e.eval(symbols);
      if (!v.ok()) return v.status().with_context("attribute '" + name + "'");
      ints.push_back(*v);
    }
    out.set(name, std::move(ints));
  }
  return out;
}

}  // namespace reprise
