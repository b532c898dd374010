#include "tests/ptx/machine/cluster.h"

#include "tests/ptx/machine/warp.h"

namespace reprise::test::ptx {

void Cluster::start(std::array<uint32_t, 3> first, uint32_t shared_bytes) {
  const auto count = static_cast<uint32_t>(groups.size());
  const uint32_t warps = count * groups[0]->warps();
  components_ = static_cast<uint16_t>(warps);
  barrier = {};
  barrier.arrived.assign(warps, false);
  barrier.ended.assign(warps, false);
  events_.clear();
  for (uint32_t rank = 0; rank < count; ++rank) {
    Group& g = *groups[rank];
    g.rank = rank;
    g.id = {first[0] + rank % dims[0], first[1] + rank / dims[0] % dims[1],
            first[2] + rank / (dims[0] * dims[1])};
    g.start(shared_bytes);
  }
}

void Cluster::complete_barrier() {
  bool any = false;
  for (size_t n = 0; n < barrier.arrived.size(); ++n) {
    if (!barrier.arrived[n] && !barrier.ended[n]) return;
    any |= barrier.arrived[n];
  }
  if (!any) return;
  ++barrier.phase;
  barrier.arrived.assign(barrier.arrived.size(), false);
  barrier.completed = std::exchange(barrier.collected, {});
  ++activity;
}

void Cluster::arrive(const Warp& w, const View& told) {
  barrier.collected.join(told);
  barrier.arrived[w.component()] = true;
  ++activity;
  complete_barrier();
}

/// What has ended has run, but does not tell what it wrote.
void Cluster::leave(const Warp& w) {
  if (!is_one_group()) barrier.collected.join(w.ran());
  barrier.ended[w.component()] = true;
  ++activity;
  complete_barrier();
}

void Cluster::later(std::function<void()> event) {
  const bool now = options.copies == Completion::Early ||
                   (options.copies == Completion::Random && random() % 4 == 0);
  if (now)
    event();
  else
    events_.push_back(std::move(event));
}

void Cluster::some_events() {
  if (options.copies != Completion::Random) return;
  while (!events_.empty() && problem.ok() && random() % 3 != 0) one_event();
}

void Cluster::one_event() {
  const auto at =
      events_.begin() +
      static_cast<ptrdiff_t>(options.copies == Completion::Late ? 0 : random() % events_.size());
  const std::function<void()> event = std::move(*at);
  events_.erase(at);
  ++activity;
  event();
}

}  // namespace reprise::test::ptx
