// What a step reads and writes. Hazards and the verifier share this definition.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/plan/plan.h"

namespace reprise::plan {

/// The resources that a step accesses. Resources are buffers, numbered by id, followed by the
/// symbols whose values host calls provide: such a call writes the symbol, and steps whose sizes
/// depend on it read it. All buffers of a state that grows are the resource of its State.
struct Accesses {
  std::vector<uint32_t> reads, writes;  // sorted, unique
};

class AccessTable {
 public:
  /// Ids in the plan and symbols in the sources must be in range.
  AccessTable(const Plan& p, std::span<const SymbolSource> sources);
  Accesses of(const Step& step) const;
  size_t resource_count() const { return plan_.buffers.size() + symbols_.size(); }

 private:
  void collect_derived(std::vector<SymbolId>& used) const;
  uint32_t resource(BufferId id) const;

  const Plan& plan_;
  std::span<const SymbolSource> sources_;
  std::unordered_map<SymbolId, uint32_t> symbols_;  // the resources of data-dependent symbols
  std::unordered_map<SymbolId, const Step*> producer_;
  std::unordered_map<int32_t, uint32_t> states_;  // the State buffers, by the index of the state
};

/// Calls f(earlier, later) for each pair of steps in list order that has a hazard (read after
/// write, write after read, or write after write) with no conflicting access between the two.
template <typename F>
void for_each_hazard(const std::vector<Accesses>& accesses, size_t resources, F&& f) {
  constexpr uint32_t kNoStep = ~uint32_t{0};
  std::vector<uint32_t> writer(resources, kNoStep);
  std::vector<std::vector<uint32_t>> readers(resources);  // since the last write
  for (uint32_t s = 0; s < accesses.size(); ++s) {
    for (const uint32_t r : accesses[s].reads) {
      if (writer[r] != kNoStep) f(writer[r], s);
    }
    for (const uint32_t r : accesses[s].writes) {
      if (writer[r] != kNoStep) f(writer[r], s);
      for (const uint32_t reader : readers[r]) f(reader, s);
      readers[r].clear();
      writer[r] = s;
    }
    for (const uint32_t r : accesses[s].reads) {
      if (writer[r] != s) readers[r].push_back(s);
    }
  }
}

/// Whether a run may fail in the step.
bool may_fail(const Step& step);

/// Calls f(earlier, later) for each pair of a step that may fail and a later one that commits.
template <typename F>
void for_each_commit(const std::vector<Step>& steps, F&& f) {
  std::vector<uint32_t> failing;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const auto* launch = std::get_if<Launch>(&steps[s].what);
    if (launch && launch->commits)
      for (const uint32_t earlier : failing) f(earlier, s);
    if (may_fail(steps[s])) failing.push_back(s);
  }
}

}  // namespace reprise::plan
