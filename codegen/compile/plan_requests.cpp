#include "codegen/compile/plan_requests.h"

#include <algorithm>
#include <utility>

#include "codegen/ops/row/dims.h"

namespace reprise {
namespace {

using package::SymbolValues;

Status refused(const std::string& name, const Interval& range, const std::string& why) {
  return {Code::Usage,
          "--plan " + package::describe_sizes(name, range.min, range.max) + ": " + why};
}

/// The symbol of an input's dim.
Result<SymbolId> find_symbol(const graph::Graph& g, const std::string& name,
                             const Interval& range) {
  std::string known;
  for (size_t i = 0; i < g.symbols.size(); ++i) {
    if (g.symbol_sources[i].kind != SymbolSource::Kind::InputDim) continue;
    if (g.symbols[i].name == name) return static_cast<SymbolId>(i);
    known += (known.empty() ? "'" : ", '") + g.symbols[i].name + "'";
  }
  return refused(name, range,
                 "the model has no such size; the sizes that its inputs decide are " +
                     (known.empty() ? "none" : known));
}

Result<SymbolValues> values_of(const graph::Graph& g, const std::string& name,
                               const Interval& range) {
  if (range.min > range.max) return refused(name, range, "no size is between them");
  RP_ASSIGN(const SymbolId id, find_symbol(g, name, range));
  const Symbol& s = g.symbols[static_cast<size_t>(id)];
  // A model rarely runs without rows, and then any plan is fast.
  const int64_t least = std::max<int64_t>({range.min, s.min, 1});
  const int64_t max = std::min(range.max, s.max) / s.divisor * s.divisor;
  if (least > max) return refused(name, range, "the model takes no size of 1 or more between them");
  const int64_t excess = least % s.divisor;  // `max` is a multiple, so the sum is at most `max`
  return SymbolValues{id, excess == 0 ? least : least + (s.divisor - excess), max};
}

const SymbolValues* find(const PlanRequest& in, SymbolId id) {
  const auto at = std::ranges::find(in.sizes, id, &SymbolValues::symbol);
  return at == in.sizes.end() ? nullptr : &*at;
}

/// Whether a plan serves all sizes that another one does.
bool contains(const PlanRequest& outer, const PlanRequest& inner) {
  return std::ranges::all_of(outer.sizes, [&](const SymbolValues& o) {
    const SymbolValues* i = find(inner, o.symbol);
    return i != nullptr && o.min <= i->min && i->max <= o.max;
  });
}

/// Whether both plans serve some sizes.
bool overlap(const PlanRequest& a, const PlanRequest& b) {
  return std::ranges::all_of(a.sizes, [&](const SymbolValues& x) {
    const SymbolValues* y = find(b, x.symbol);
    return y == nullptr || (x.min <= y->max && y->min <= x.max);
  });
}

/// Whether no size of the plan has an upper end but the model's.
bool is_open(const graph::Graph& g, const PlanRequest& request) {
  return std::ranges::all_of(request.sizes, [&](const SymbolValues& v) {
    const Symbol& s = g.symbols[static_cast<size_t>(v.symbol)];
    return v.max >= s.max / s.divisor * s.divisor;
  });
}

}  // namespace

Result<PlanRequests> requested_plans(const graph::Graph& g, const PlanChoice& choice) {
  PlanRequests out;
  if (choice.plans.size() > package::kMostPlans)
    return Status(Code::Usage, "--plan: there are " + std::to_string(choice.plans.size()) +
                                   " plans; a package has at most " +
                                   std::to_string(package::kMostPlans));
  for (const SizeRanges& ranges : choice.plans) {
    PlanRequest request{{}, "asked for"};
    for (const auto& [name, range] : ranges) {
      RP_ASSIGN(const SymbolValues values, values_of(g, name, range));
      request.sizes.push_back(values);
    }
    for (const PlanRequest& earlier : out.plans)
      if (contains(earlier, request))
        return Status(Code::Usage, "--plan " + package::describe_sizes(request.sizes, g.symbols) +
                                       ": no size is left for it after --plan " +
                                       package::describe_sizes(earlier.sizes, g.symbols));
    out.plans.push_back(std::move(request));
  }
  // The plan for all other sizes is made for those of the last plan without an upper end.
  const auto open = std::find_if(out.plans.rbegin(), out.plans.rend(),
                                 [&](const PlanRequest& r) { return is_open(g, r); });
  if (open == out.plans.rend()) return out;
  // Sessions try that plan last, so a plan after it would take sizes from it.
  for (auto later = open.base(); later != out.plans.end(); ++later)
    if (overlap(*open, *later))
      return Status(Code::Usage,
                    "--plan " + package::describe_sizes(later->sizes, g.symbols) + ": --plan " +
                        package::describe_sizes(open->sizes, g.symbols) +
                        " serves some of these sizes, and sessions try it last, because it has no "
                        "upper end; put it after this option, or limit the sizes of this one");
  out.others.resize(g.symbols.size());
  for (const SymbolValues& v : open->sizes)
    out.others[static_cast<size_t>(v.symbol)] = {v.min, v.max};
  out.plans.erase(std::next(open).base());
  return out;
}

namespace {

constexpr int64_t kFewRows = 16;

/// Whether a size may be the length of a sequence: 1 or many, and not the first of several dims,
/// which is a batch.
bool is_length(const graph::Graph& g, size_t symbol) {
  const SymbolSource& source = g.symbol_sources[symbol];
  const Symbol& s = g.symbols[symbol];
  if (source.kind != SymbolSource::Kind::InputDim || s.min > 1 || s.max <= kFewRows ||
      s.divisor != 1)
    return false;
  const size_t rank = g.value(g.inputs[static_cast<size_t>(source.index)]).shape.size();
  return source.axis > 0 || rank == 1;
}

/// Whether `result` has the shape of `cache`, with `length` more elements along one axis.
bool is_longer(const Shape& result, const Shape& cache, const Expr& length) {
  if (result.size() != cache.size()) return false;
  bool longer = false;
  for (size_t a = 0; a < cache.size(); ++a) {
    // A size of the cache itself is not that of its new rows.
    if (cache[a] == length) return false;
    if (cache[a].as_symbol() && result[a] - cache[a] == length) {
      longer = true;
    } else if (result[a] != cache[a] && (result[a].is_const() || cache[a].is_const())) {
      return false;
    }
  }
  return longer;
}

/// Whether a result is an input with `length` more rows: a cache with new rows. The sum of the two
/// sizes does not say which of them is the length, but the shape of the input does.
bool extends_cache(const graph::Graph& g, const Expr& length) {
  return std::ranges::any_of(g.outputs, [&](graph::ValueId result) {
    return std::ranges::any_of(g.inputs, [&](graph::ValueId cache) {
      return is_longer(g.value(result).shape, g.value(cache).shape, length);
    });
  });
}

/// Whether there are `length` rows, or as many for each of several heads: those that share keys are
/// rows of one product.
bool is_of_heads(const Expr& rows, const Expr& length) {
  const Expr heads = rows.substitute([&](SymbolId id) {
    return length.as_symbol() == id ? std::optional<Expr>(1) : std::nullopt;
  });
  return heads.is_const() && rows == heads * length;
}

/// Whether `length` queries attend to other keys than their own: those of a cache, or of an
/// encoder.
bool attends_elsewhere(const graph::Graph& g, const lower::Fusion& fusion, const Expr& length) {
  return std::ranges::any_of(fusion.groups, [&](const lower::Group& group) {
    if (group.attention.scores == nullptr) return false;
    const Shape& scores = g.value(group.attention.scores->outputs[0]).shape;
    return scores.size() >= 2 && is_of_heads(scores[scores.size() - 2], length) &&
           scores.back() != length;
  });
}

}  // namespace

std::vector<PlanRequest> automatic_plans(const graph::Graph& g, const lower::Fusion& fusion) {
  for (size_t s = 0; s < g.symbols.size(); ++s) {
    const auto id = static_cast<SymbolId>(s);
    const Expr length = Expr::symbol(id);
    if (!is_length(g, s) || !(extends_cache(g, length) || attends_elsewhere(g, fusion, length)))
      continue;
    return {{{{id, 1, 1}}, {}, true}, {{{id, 2, kFewRows}}, {}, true}};
  }
  return {};
}

std::unique_ptr<graph::Graph> with_sizes(const graph::Graph& g, const PlanRequest& request) {
  std::unique_ptr<graph::Graph> out = g.clone();
  for (auto from = g.nodes().begin(); const auto& n : out->nodes())
    n->subgraphs = (*from++)->subgraphs;
  out->likely_sizes.clear();
  out->equal_dims = g.equal_dims;
  for (const SymbolValues& v : request.sizes) {
    Symbol& s = out->symbols[static_cast<size_t>(v.symbol)];
    s.min = v.min, s.max = v.max;
    if (v.min == v.max) ops::fix_symbol(*out, v.symbol, v.min);
  }
  return out;
}

}  // namespace reprise
