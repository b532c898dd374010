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
  const uint32_t warps = (threads + 31) / 32;
  shared.reset(shared_bytes);
  signals.reset();
  views.assign(threads, {});
  barriers = {};
  teams.assign((warps + 3) / 4, {});
  components = static_cast<uint16_t>(warps);
  for (Team& t : teams) t.component = new_component();
  free_registers = 0;
  events_.clear();
  released_.clear();
}

std::string Group::arrive(Warp& w, uint32_t which, uint32_t count, bool waits) {
  const uint32_t all = (threads + 31) / 32 * 32;
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
  ++activity;
  if (waits) {
    w.wait_at_barrier(which);
    b.waiting.push_back(&w);
  }
  if (b.arrived < count) return "";
  const auto told = std::make_shared<const View>(b.collected);
  for (Warp* waiting : b.waiting) released_.emplace_back(waiting, told);
  const uint32_t phase = b.phase + 1;
  b = {};
  b.phase = phase;
  b.completed = *told;
  return "";
}

void Group::release() {
  for (const auto& [w, told] : std::exchange(released_, {})) w->leave_barrier(*told);
}

void Group::later(std::function<void()> event) {
  const bool now = options.copies == Completion::Early ||
                   (options.copies == Completion::Random && random() % 4 == 0);
  if (now)
    event();
  else
    events_.push_back(std::move(event));
}

void Group::some_events() {
  if (options.copies != Completion::Random) return;
  while (!events_.empty() && problem.ok() && random() % 3 != 0) one_event();
}

void Group::one_event() {
  const auto at =
      events_.begin() +
      static_cast<ptrdiff_t>(options.copies == Completion::Late ? 0 : random() % events_.size());
  const std::function<void()> event = std::move(*at);
  events_.erase(at);
  ++activity;
  event();
}

}  // namespace reprise::test::ptx
