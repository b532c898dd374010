#include "codegen/compile/growing_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "codegen/ops/row/op.h"

namespace reprise {
namespace {

using graph::Graph;
using graph::ValueId;

constexpr int64_t kRowAlignment = 16;  // bytes, of the vectors that kernels load and store

/// Whether the name fits a pattern in which * stands for any text and ? for any character.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches_any(const std::string& patterns, const std::string& name) {
  std::istringstream list(patterns);
  for (std::string one; std::getline(list, one, ',');)
    if (matches(one, name)) return true;
  return false;
}

/// Operators that put new rows at positions that depend on data put them behind the cache if their
/// row declares this attribute, and fail the run if the positions differ.
constexpr std::string_view kAppendRows = "append_rows";

/// Lets operators append rows to the caches among the inputs `chosen`.
Status append_rows(Graph& g, const std::set<ValueId>& chosen) {
  for (const auto& n : g.nodes()) {
    const bool takes =
        std::ranges::any_of(n->inputs, [&](ValueId v) { return chosen.contains(v); });
    if (!takes || ops::find(*n) == nullptr || !ops::Attributes(*n).declares(kAppendRows)) continue;
    n->attrs.set(std::string(kAppendRows), int64_t{1});
    RP_TRY(ops::infer(g, *n).about(n->origins));
  }
  return {};
}

size_t place_of(const Graph& g, ValueId v) {
  return static_cast<size_t>(std::ranges::find(g.inputs, v) - g.inputs.begin());
}

/// Finds caches in a graph in core form.
class Caches {
 public:
  Caches(const Graph& g, const CompileOptions& options) : g_(g) {
    for (const StateOption& s : options.states) taken_.insert(s.input);
  }

  /// All that are recognised; the others with the reason.
  void find() {
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      const ValueId v = passes::grown_input(g_, g_.outputs[o]);
      if (v == graph::kNone || taken_.contains(g_.value(v).name)) continue;
      const size_t input = place_of(g_, v);
      if (found.contains(input)) continue;
      StateOption s{.input = g_.value(v).name, .output = g_.output_name(o)};
      const std::string why = examine(v, g_.outputs[o], s);
      if (why.empty()) {
        found.emplace(input, std::move(s));
      } else {
        refused[g_.value(v).name] = why;
      }
    }
    // Sizes that only caches have cannot be read off anything else.
    std::erase_if(found, [&](const auto& f) {
      const std::string why = unknown_size(f.first, f.second);
      if (!why.empty()) refused[f.second.input] = why;
      return !why.empty();
    });
  }

  std::map<size_t, StateOption> found;  // by input
  std::map<std::string, std::string> refused;

 private:
  /// Sets the axis. Returns why the input cannot grow, or nothing.
  std::string examine(ValueId v, ValueId o, StateOption& s) const {
    const graph::Value& in = g_.value(v);
    const graph::Node& joins = *passes::appending_node(g_, v, o);
    s.axis = static_cast<int32_t>(ops::Attributes(joins).get_int("axis"));
    const auto axis = static_cast<size_t>(s.axis);
    if (is_host_only(in.dtype)) return "it is no tensor of numbers";
    if (in.dtype == DType::F64) return "its elements are float64, which some devices lack";
    if (!is_read(o)) return "no node reads its rows together with the new ones";
    if (!in.shape[axis].as_symbol())
      return "its length, dimension " + std::to_string(axis) + ", is not a size of its own";
    const Expr added = g_.value(o).shape[axis] - in.shape[axis];
    const std::vector<bool> known = known_from_inputs(g_.symbol_sources);
    for (const SymbolId id : added.symbols())
      if (!known[static_cast<size_t>(id)])
        return "the number of new rows is not known before a run";
    int64_t bytes = static_cast<int64_t>(size_of(in.dtype));
    for (size_t a = 0; a < in.shape.size(); ++a)
      if (a != axis && in.shape[a].is_const()) bytes *= in.shape[a].value();
    if (bytes % kRowAlignment != 0)
      return "a row has " + std::to_string(bytes) + " bytes, which is no multiple of 16";
    return {};
  }

  bool is_read(ValueId v) const {
    return std::ranges::any_of(g_.nodes(), [&](const auto& n) {
      return std::ranges::find(n->inputs, v) != n->inputs.end();
    });
  }

  std::string unknown_size(size_t input, const StateOption& s) const {
    const Shape& shape = g_.value(g_.inputs[input]).shape;
    for (size_t a = 0; a < shape.size(); ++a) {
      if (static_cast<int32_t>(a) == s.axis) continue;
      for (const SymbolId id : shape[a].symbols())
        if (!is_of_other_input(id))
          return "its dimension " + std::to_string(a) + ", '" +
                 g_.symbols[static_cast<size_t>(id)].name + "', is that of no other input";
    }
    return {};
  }

  bool is_of_other_input(SymbolId id) const {
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (found.contains(i)) continue;
      for (const Expr& e : g_.value(g_.inputs[i]).shape)
        if (e.as_symbol() == id) return true;
    }
    return false;
  }

  const Graph& g_;
  std::set<std::string> taken_;
};

/// The input that grows along an axis of this length.
const std::pair<const size_t, StateOption>* grows_by(const Graph& g,
                                                     const std::map<size_t, StateOption>& growing,
                                                     SymbolId length) {
  for (const auto& state : growing) {
    const Shape& shape = g.value(g.inputs[state.first]).shape;
    if (shape[static_cast<size_t>(state.second.axis)].as_symbol() == length) return &state;
  }
  return nullptr;
}

/// Lets lengths be those of states, and other sizes those of other inputs, or what guards have
/// replaced them by.
void move_sources(Graph& g, const std::map<size_t, StateOption>& growing) {
  for (size_t s = 0; s < g.symbols.size(); ++s) {
    SymbolSource& source = g.symbol_sources[s];
    const auto id = static_cast<SymbolId>(s);
    if (source.kind != SymbolSource::Kind::InputDim) continue;
    if (const auto* state = grows_by(g, growing, id)) {
      source.index = static_cast<int32_t>(state->first);
      source.axis = state->second.axis;
      continue;
    }
    const auto index = static_cast<size_t>(source.index);
    if (!growing.contains(index)) continue;
    const Expr size = g.value(g.inputs[index]).shape[static_cast<size_t>(source.axis)];
    if (size.as_symbol() != id) {
      source = {};
      source.kind = SymbolSource::Kind::Derived;
      source.value = size;
      continue;
    }
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (growing.contains(i)) continue;
      const Shape& shape = g.value(g.inputs[i]).shape;
      for (size_t a = 0; a < shape.size(); ++a) {
        if (shape[a].as_symbol() != id) continue;
        source.index = static_cast<int32_t>(i);
        source.axis = static_cast<int32_t>(a);
      }
    }
  }
}

Status nothing_matches(const Graph& g, const std::string& patterns) {
  std::string names;
  for (const ValueId v : g.inputs) names += (names.empty() ? "'" : ", '") + g.value(v).name + "'";
  return {Code::Usage, "grow-states: no input matches '" + patterns + "'; the inputs are " +
                           (names.empty() ? "none" : names)};
}

}  // namespace

Result<std::vector<StateOption>> with_growing_states(Graph& g, const CompileOptions& options) {
  const std::string& wanted = options.grow_states;
  std::vector<StateOption> states = options.states;
  if (wanted.empty() || wanted == "none") return states;
  const std::unique_ptr<Graph> core = g.clone();
  RP_TRY(append_rows(*core, {g.inputs.begin(), g.inputs.end()}));
  RP_TRY(passes::decompose(*core));
  RP_TRY(passes::shape_values(*core));
  Caches caches(*core, options);
  caches.find();
  if (wanted != "auto") {
    bool any = false;
    for (const ValueId v : g.inputs) {
      const std::string& name = g.value(v).name;
      if (!matches_any(wanted, name)) continue;
      any = true;
      if (caches.found.contains(place_of(g, v))) continue;
      const auto why = caches.refused.find(name);
      return Status(Code::Usage,
                    "input '" + name + "' cannot be a state that grows: " +
                        (why == caches.refused.end() ? "no output is the input followed by new rows"
                                                     : why->second));
    }
    if (!any) return nothing_matches(g, wanted);
    std::erase_if(caches.found,
                  [&](const auto& f) { return !matches_any(wanted, f.second.input); });
  }
  std::set<ValueId> chosen;
  for (const auto& f : caches.found) chosen.insert(g.inputs[f.first]);
  RP_TRY(append_rows(g, chosen));
  move_sources(g, caches.found);
  for (auto& [input, state] : caches.found) states.push_back(std::move(state));
  return states;
}

std::vector<passes::GrowingState> growing_of(const Graph& g,
                                             const std::vector<StateOption>& states) {
  std::vector<passes::GrowingState> out;
  for (size_t s = 0; s < states.size(); ++s) {
    if (states[s].axis < 0) continue;
    out.push_back({g.inputs.size() - states.size() + s, g.outputs.size() - states.size() + s,
                   states[s].axis});
  }
  return out;
}

}  // namespace reprise
