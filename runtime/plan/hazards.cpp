#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/plan/accesses.h"
#include "runtime/plan/reducer.h"

namespace reprise::plan {
namespace {

void sort_unique(std::vector<uint32_t>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

void collect(const Shape& shape, std::vector<SymbolId>& out) {
  for (const Expr& e : shape) e.collect_symbols(out);
}

void collect(const Launch& launch, std::vector<SymbolId>& out) {
  for (const Expr& e : launch.grid) e.collect_symbols(out);
  launch.iterations.collect_symbols(out);
  collect(launch.scalars, out);
}

void collect(const HostCall& call, std::vector<SymbolId>& out) {
  for (const auto& [name, value] : call.attrs) {
    if (const auto* shape = std::get_if<Shape>(&value)) collect(*shape, out);
  }
}

bool is_derived(std::span<const SymbolSource> sources, SymbolId id) {
  return static_cast<size_t>(id) < sources.size() &&
         sources[static_cast<size_t>(id)].kind == SymbolSource::Kind::Derived;
}

template <typename F>
void for_each_access(const Step& step, F&& f) {  // f(id, writes)
  if (const auto* launch = std::get_if<Launch>(&step.what)) {
    for (size_t i = 0; i < launch->buffers.size(); ++i) f(launch->buffers[i], launch->writes[i]);
    return;
  }
  const auto& call = std::get<HostCall>(step.what);
  for (const BufferId b : call.inputs) {
    if (!b.is_none()) f(b, false);
  }
  for (const BufferId b : call.outputs) {
    if (!b.is_none()) f(b, true);
  }
}

/// Returns the index of each step after sorting.
std::vector<uint32_t> sort_by_level(Plan& p) {
  std::vector<uint32_t> order(p.steps.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return p.steps[a].level < p.steps[b].level; });
  std::vector<uint32_t> position(order.size());
  std::vector<Step> sorted;
  sorted.reserve(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    position[order[i]] = i;
    sorted.push_back(std::move(p.steps[order[i]]));
  }
  for (Step& step : sorted) {
    for (uint32_t& a : step.after) a = position[a];
    std::sort(step.after.begin(), step.after.end());
  }
  p.steps = std::move(sorted);
  return position;
}

}  // namespace

AccessTable::AccessTable(const Plan& p, std::span<const SymbolSource> sources)
    : plan_(p), sources_(sources) {
  std::set<SymbolId> known;
  for (const BufferId at : p.buffers.ids()) {
    const Buffer& b = p.buffers[at];
    if (b.kind == BufferKind::State) states_.emplace(b.index, static_cast<uint32_t>(at.index()));
    if (b.kind != BufferKind::Input && b.kind != BufferKind::State) continue;
    for (const Expr& dim : b.shape) {
      if (const auto id = dim.as_symbol()) known.insert(*id);
    }
  }
  for (const Step& step : p.steps) {
    const auto* call = std::get_if<HostCall>(&step.what);
    if (!call) continue;
    for (const BufferId b : call->outputs) {
      if (b.is_none()) continue;
      for (const Expr& dim : p.buffers[b].shape) {
        const auto id = dim.as_symbol();
        if (!id || is_derived(sources, *id) || !known.insert(*id).second) continue;
        symbols_.emplace(*id, static_cast<uint32_t>(p.buffers.size() + symbols_.size()));
        producer_.emplace(*id, &step);
      }
    }
  }
}

uint32_t AccessTable::resource(BufferId id) const {
  const Buffer& b = plan_.buffers[id];
  if (b.kind == BufferKind::NewRows || b.kind == BufferKind::AllRows)
    if (const auto state = states_.find(b.index); state != states_.end()) return state->second;
  return static_cast<uint32_t>(id.index());
}

/// Adds the symbols from which derived symbols are computed.
void AccessTable::collect_derived(std::vector<SymbolId>& used) const {
  std::set<SymbolId> seen(used.begin(), used.end());
  for (size_t i = 0; i < used.size(); ++i) {
    if (!is_derived(sources_, used[i])) continue;
    std::vector<SymbolId> from;
    sources_[static_cast<size_t>(used[i])].value.collect_symbols(from);
    for (const SymbolId id : from) {
      if (seen.insert(id).second) used.push_back(id);
    }
  }
}

Accesses AccessTable::of(const Step& step) const {
  Accesses a;
  std::vector<SymbolId> used;
  for_each_access(step, [&](BufferId b, bool writes) {
    (writes ? a.writes : a.reads).push_back(resource(b));
    if (!symbols_.empty()) collect(plan_.buffers[b].shape, used);
  });
  if (!symbols_.empty()) {
    std::visit([&used](const auto& what) { collect(what, used); }, step.what);
    collect_derived(used);
    for (const SymbolId id : used) {
      const auto it = symbols_.find(id);
      if (it == symbols_.end()) continue;
      const bool produces = producer_.at(id) == &step;
      (produces ? a.writes : a.reads).push_back(it->second);
    }
  }
  sort_unique(a.reads);
  sort_unique(a.writes);
  return a;
}

bool may_fail(const Step& step) {
  const auto* launch = std::get_if<Launch>(&step.what);
  return launch == nullptr || launch->checks;
}

std::vector<uint32_t> compute_hazards(Plan& p, std::span<const SymbolSource> sources) {
  const AccessTable table(p, sources);
  std::vector<Accesses> accesses;
  accesses.reserve(p.steps.size());
  for (const Step& step : p.steps) accesses.push_back(table.of(step));
  std::vector<std::vector<uint32_t>> predecessors(p.steps.size());
  for_each_hazard(accesses, table.resource_count(), [&](uint32_t earlier, uint32_t later) {
    predecessors[later].push_back(earlier);
  });
  for_each_commit(
      p.steps, [&](uint32_t earlier, uint32_t later) { predecessors[later].push_back(earlier); });
  Reducer reducer(p.steps.size());
  for (uint32_t s = 0; s < p.steps.size(); ++s) {
    Step& step = p.steps[s];
    step.after = reducer.reduce(s, std::move(predecessors[s]));
    step.level = 0;
    for (const uint32_t a : step.after) {
      step.level = std::max(step.level, p.steps[a].level + 1);
    }
  }
  return sort_by_level(p);
}

}  // namespace reprise::plan
