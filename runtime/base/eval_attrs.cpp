#include "runtime/base/eval_attrs.h"

namespace reprise {

Result<AttrMap> eval_attrs(const AttrMap& attrs, std::span<const int64_t> symbols) {
  AttrMap out;
  for (const auto& [name, value] : attrs) {
    const auto* exprs = std::get_if<std::vector<Expr>>(&value);
    if (!exprs) {
      out.set(name, value);
      continue;
    }
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
