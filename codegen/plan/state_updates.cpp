#include "codegen/plan/state_updates.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "codegen/kernel/build/guard.h"
#include "codegen/kernel/legal/in_place.h"
#include "runtime/plan/accesses.h"

namespace reprise {

namespace {

using plan::BufferId;
using plan::BufferKind;

class Updater {
 public:
  Updater(plan::Plan& p, std::vector<std::optional<PendingKernel>>& pending,
          std::span<const SymbolSource> sources, const kernel::LegalizeFor& target)
      : p_(p), pending_(pending), after_(p.steps.size()) {
    for (uint32_t s = 0; s < pending.size(); ++s)
      if (!pending[s] || kernel::may_record_errors(pending[s]->kernel, target))
        failing_.push_back(s);
    const plan::AccessTable table(p, sources);
    for (const plan::Step& step : p.steps) accesses_.push_back(table.of(step));
    plan::for_each_hazard(accesses_, table.resource_count(),
                          [this](uint32_t a, uint32_t b) { after_[a].push_back(b); });
  }

  std::vector<uint32_t> run() {
    std::vector<BufferId> states;
    for (const BufferId b : p_.buffers.ids()) {
      if (p_.buffers[b].kind != BufferKind::State) continue;
      const auto index = static_cast<size_t>(p_.buffers[b].index);
      states.resize(std::max(states.size(), index + 1));
      states[index] = b;
    }
    for (const BufferId next : p_.buffers.ids()) {
      if (p_.buffers[next].kind != BufferKind::NextState) continue;
      const BufferId current = states[static_cast<size_t>(p_.buffers[next].index)];
      if (!drop_unchanged(current, next)) update(current, next);
    }
    std::vector<uint32_t> position = reorder();
    remove_buffers();
    return position;
  }

 private:
  /// A state whose next value is its value needs no copy.
  bool drop_unchanged(BufferId current, BufferId next) {
    const auto same = [&](const plan::Plan::Alias& a) {
      return a.from == current && a.output == next;
    };
    if (std::erase_if(p_.aliases, same) == 0) return false;
    replaced_.emplace_back(next, current);
    return true;
  }

  void update(BufferId current, BufferId next) {
    std::vector<uint32_t> readers, writers;
    for (uint32_t s = 0; s < accesses_.size(); ++s) {
      if (accesses(accesses_[s].reads, current)) readers.push_back(s);
      if (accesses(accesses_[s].writes, next)) writers.push_back(s);
    }
    // A copy at the end of the run needs the old value.
    const bool copied = std::ranges::any_of(
        p_.aliases, [&](const auto& a) { return a.from == current || a.output == next; });
    if (copied || writers.size() != 1 || !pending_[writers[0]]) return;
    const uint32_t writer = writers[0];
    std::erase(readers, writer);
    if (reaches(writer, readers)) return;
    // What fails later, or in the update itself, could not be undone.
    if (std::ranges::binary_search(failing_, writer) || reaches(writer, failing_)) return;
    if (!merge(writer, current, next)) return;
    for (const uint32_t reader : readers) after_[reader].push_back(writer);
    if (!failing_.empty()) commit(writer);
    replaced_.emplace_back(next, current);
  }

  void commit(uint32_t writer) {
    if (std::exchange(pending_[writer]->commits, true)) return;
    pending_[writer]->number.reset();
    for (const uint32_t s : failing_) after_[s].push_back(writer);
  }

  static bool accesses(const std::vector<uint32_t>& list, BufferId b) {
    return std::ranges::binary_search(list, static_cast<uint32_t>(b.index()));
  }

  /// Whether one of `targets` waits for the step.
  bool reaches(uint32_t step, const std::vector<uint32_t>& targets) const {
    std::vector<bool> seen(p_.steps.size(), false);
    std::vector<uint32_t> todo{step};
    while (!todo.empty()) {
      const uint32_t s = todo.back();
      todo.pop_back();
      for (const uint32_t next : after_[s]) {
        if (seen[next]) continue;
        seen[next] = true;
        todo.push_back(next);
      }
    }
    return std::ranges::any_of(targets, [&](uint32_t t) { return seen[t]; });
  }

  /// Makes the launch use one parameter for the state and its next value, if it reads the state.
  bool merge(uint32_t step, BufferId current, BufferId next) {
    auto& launch = std::get<plan::Launch>(p_.steps[step].what);
    const auto once = [&](BufferId b) { return std::ranges::count(launch.buffers, b) == 1; };
    const auto place = [&](BufferId b) {
      return static_cast<size_t>(std::ranges::find(launch.buffers, b) - launch.buffers.begin());
    };
    if (!once(next)) return false;
    const size_t to = place(next), from = place(current);
    if (from == launch.buffers.size()) return true;
    if (!once(current) || !kernel::updates_in_place(pending_[step]->kernel, from, to)) return false;
    kernel::merge_buffers(pending_[step]->kernel, from, to);
    pending_[step]->number.reset();
    launch.writes[from] = true;
    launch.buffers.erase(launch.buffers.begin() + static_cast<ptrdiff_t>(to));
    launch.writes.erase(launch.writes.begin() + static_cast<ptrdiff_t>(to));
    return true;
  }

  /// Sorts the steps so that those that read old values precede those that replace them. Steps
  /// whose order does not matter keep it.
  std::vector<uint32_t> reorder() {
    std::vector<uint32_t> waits(p_.steps.size(), 0), position(p_.steps.size());
    for (const auto& list : after_)
      for (const uint32_t s : list) ++waits[s];
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t s = 0; s < waits.size(); ++s)
      if (waits[s] == 0) ready.push(s);
    std::vector<plan::Step> steps;
    std::vector<std::optional<PendingKernel>> pending;
    while (!ready.empty()) {
      const uint32_t s = ready.top();
      ready.pop();
      position[s] = static_cast<uint32_t>(steps.size());
      steps.push_back(std::move(p_.steps[s]));
      pending.push_back(std::move(pending_[s]));
      for (const uint32_t next : after_[s])
        if (--waits[next] == 0) ready.push(next);
    }
    p_.steps = std::move(steps);
    pending_ = std::move(pending);
    return position;
  }

  /// Removes next values that are the states themselves from the plan.
  void remove_buffers() {
    IdVector<BufferId, BufferId> becomes(p_.buffers.size());
    for (const BufferId b : p_.buffers.ids()) becomes[b] = b;
    for (const auto& [next, current] : replaced_) becomes[next] = current;
    IdVector<BufferId, plan::Buffer> kept;
    IdVector<BufferId, BufferId> moved(p_.buffers.size());
    for (const BufferId b : p_.buffers.ids())
      if (becomes[b] == b) moved[b] = kept.push_back(std::move(p_.buffers[b]));
    const auto rename = [&](BufferId& b) {
      if (!b.is_none()) b = moved[becomes[b]];
    };
    for (plan::Step& step : p_.steps) {
      if (auto* launch = std::get_if<plan::Launch>(&step.what)) {
        std::ranges::for_each(launch->buffers, rename);
        continue;
      }
      auto& call = std::get<plan::HostCall>(step.what);
      std::ranges::for_each(call.inputs, rename);
      std::ranges::for_each(call.outputs, rename);
    }
    for (plan::Plan::Alias& a : p_.aliases) {
      rename(a.from);
      rename(a.output);
    }
    p_.buffers = std::move(kept);
  }

  plan::Plan& p_;
  std::vector<std::optional<PendingKernel>>& pending_;
  std::vector<plan::Accesses> accesses_;                 // per step
  std::vector<std::vector<uint32_t>> after_;             // per step: those that wait for it
  std::vector<uint32_t> failing_;                        // steps that may fail
  std::vector<std::pair<BufferId, BufferId>> replaced_;  // next values, and their states
};

}  // namespace

std::vector<uint32_t> update_states_in_place(plan::Plan& p,
                                             std::vector<std::optional<PendingKernel>>& pending,
                                             std::span<const SymbolSource> sources,
                                             const kernel::LegalizeFor& target) {
  const bool any = std::ranges::any_of(
      p.buffers, [](const plan::Buffer& b) { return b.kind == BufferKind::NextState; });
  if (any) return Updater(p, pending, sources, target).run();
  std::vector<uint32_t> position(p.steps.size());
  std::iota(position.begin(), position.end(), 0U);
  return position;
}

}  // namespace reprise
