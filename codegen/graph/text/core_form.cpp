#include "codegen/graph/text/core_form.h"

#include <string_view>

#include "codegen/ops/row/op.h"

namespace reprise::graph {

namespace {

using ops::CoreForm;

bool distinct_axes(const std::vector<int64_t>* axes, size_t rank) {
  if (!axes) return false;
  std::vector<bool> seen(rank);
  for (int64_t a : *axes) {
    if (a < 0 || static_cast<size_t>(a) >= rank || seen[static_cast<size_t>(a)]) return false;
    seen[static_cast<size_t>(a)] = true;
  }
  return true;
}

size_t rank_of(const Graph& g, const std::vector<ValueId>& list) {
  return list.empty() || list[0] == kNone ? size_t{0} : g.value(list[0]).shape.size();
}

bool has_form(const Graph& g, const Node& n, const ops::AttrDecl& decl) {
  const size_t rank = rank_of(g, n.inputs);
  const size_t spatial = rank < 2 ? 0 : rank - 2;
  const auto* i = n.attrs.get<int64_t>(decl.name);
  const auto* ints = n.attrs.get<std::vector<int64_t>>(decl.name);
  const auto* floats = n.attrs.get<std::vector<float>>(decl.name);
  const auto* exprs = n.attrs.get<std::vector<Expr>>(decl.name);
  switch (decl.core) {
    case CoreForm::AsGiven:
      return true;
    case CoreForm::Absent:
      return !n.attrs.has(decl.name);
    case CoreForm::Int:
      return i;
    case CoreForm::Flag:
      return i && (*i == 0 || *i == 1);
    case CoreForm::String:
      return n.attrs.get<std::string>(decl.name);
    case CoreForm::Axis:
      return i && *i >= 0 && static_cast<size_t>(*i) < rank;
    case CoreForm::Axes:
      return distinct_axes(ints, rank);
    case CoreForm::Permutation:
      return distinct_axes(ints, rank) && ints->size() == rank;
    case CoreForm::Scales:
      return floats && floats->size() == rank;
    case CoreForm::Sizes:
      return exprs && exprs->size() == rank_of(g, n.outputs);
    case CoreForm::PerAxis:
      return exprs && exprs->size() == rank;
    case CoreForm::Pads:
      return exprs && exprs->size() == 2 * rank;
    case CoreForm::Exprs:
      return exprs;
    case CoreForm::Spatial:
      return ints && ints->size() == spatial;
    case CoreForm::SpatialPads:
      return (ints && ints->size() == 2 * spatial) || (exprs && exprs->size() == 2 * spatial);
    case CoreForm::StaticPads:
      return ints && ints->size() == 2 * spatial;
  }
  return false;
}

}  // namespace

Status check_core_form(const Graph& g, const Node& n) {
  const ops::OpDef* def = ops::find(n);
  if (def == nullptr) return internal_error("the operator is not in the registry");
  for (const auto& [name, attr] : n.attrs) {
    if (!ops::Attributes(n).declares(name))
      return internal_error("the operator does not declare attribute '" + name + "'");
  }
  for (const ops::AttrDecl& decl : def->attributes) {
    if ((decl.core_optional && !n.attrs.has(decl.name)) || has_form(g, n, decl)) continue;
    return internal_error("attribute '" + std::string(decl.name) +
                          (decl.core == CoreForm::Absent ? "' is not part of the core form"
                                                         : "' is missing or not in core form"));
  }
  return def->check_core == nullptr ? Status{} : def->check_core(g, n);
}

}  // namespace reprise::graph
