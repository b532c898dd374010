#include "tests/ptx/machine/group.h"

#include "tests/ptx/machine/warp.h"

namespace reprise::test::ptx {

std::string Team::step(const Warp& w, const Instruction& i, const std::vector<uint64_t>& operands) {
  if (w.number() / 4 * 4 + 4 > w.warps()) return "a warpgroup that is not whole";
  size_t& own = at[w.number() % 4];
  if (own == steps.size()) steps.push_back({&i, operands});
  const Step& first = steps[own++];
  if (first.instruction != &i)
    return "another instruction than the other warps of the warpgroup execute, at line " +
           std::to_string(first.instruction->line);
  if (first.operands != operands)
    return "other operands than the other warps of the warpgroup have";
  return "";
}

void Group::start(uint32_t shared_bytes) {
  shared.reset(shared_bytes, rank, cluster.is_one_group() ? 0 : warps());
  signals.reset();
  views.assign(threads, {});
  barriers = {};
  teams.assign((warps() + 3) / 4, {});
  for (Team& t : teams) t.component = cluster.new_component();
  free_registers = 0;
  released_.clear();
  touches_.clear();
  left_ = 0;
  ended = false;
  if (cluster.is_one_group()) return;
  begun = {cluster.new_component(), 0, 0};
  for (View& v : views) v.seen.raise(begun.component, begun.time + 1);
}

std::string Group::arrive(Warp& w, uint32_t which, uint32_t count, bool waits) {
  const uint32_t all = 32 * warps();
  if (which >= kBarriers) return "there is no barrier " + std::to_string(which);
  if (count == 0) count = all;
  if (count % 32 != 0 || count > all)
    return "a barrier of " + std::to_string(count) + " threads in a workgroup of " +
           std::to_string(threads);
  Barrier& b = barriers[which];
  if (b.expected != 0 && b.expected != count)
    return "a barrier of " + std::to_string(count) + " threads, to which others came that said " +
           std::to_string(b.expected);
  b.expected = count;
  b.arrived += 32;
  b.collected.join(w.tell(w.lanes()));
  ++cluster.activity;
  if (waits) {
    w.wait_at_barrier(which);
    b.waiting.push_back(&w);
  }
  if (b.arrived < count) return "";
  const auto told = std::make_shared<const View>(std::move(b.collected));
  for (Warp* waiting : b.waiting) released_.emplace_back(waiting, told);
  b = {};
  return "";
}

void Group::release() {
  for (const auto& [w, told] : std::exchange(released_, {})) w->leave_barrier(*told);
}

void Group::touched(const Stamp& by, uint32_t line) {
  Touch& last = touches_[{by.component, by.lanes}];
  if (last.line == 0 || by.time >= last.time) last = {by.time, line};
}

uint32_t Group::leave() {
  if (++left_ < warps()) return 0;
  ended = true;
  View all;
  if (!touches_.empty())
    for (const View& v : views) all.join(v);
  for (const auto& [who, touch] : touches_)
    if (!all.knows({who.first, who.second, touch.time})) return touch.line;
  return 0;
}

}  // namespace reprise::test::ptx
