#include "runtime/plan/order.h"

#include <algorithm>
#include <map>

#include "runtime/plan/accesses.h"
#include "runtime/plan/reducer.h"

namespace reprise::plan {
namespace {

using Kind = OrderNode::Kind;

class OrderBuilder {
 public:
  OrderBuilder(const Plan& plan, const Segment& segment, const ArenaReuse& reuse)
      : plan_(plan), segment_(segment), reuse_(reuse), lifetimes_(lifetimes(plan)) {}

  std::vector<OrderNode> build(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs);

 private:
  void add_nodes(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs);
  Accesses accesses_of(const OrderNode& node) const;
  Accesses slot_buffers(BufferKind kind, uint32_t index) const;
  void find_hazards();
  void find_commits();
  void find_placed_reuse();
  void reduce_level(size_t level);
  void release_before(size_t level);
  void wait_for_freed(uint32_t begin, uint32_t end);
  bool in_arena(BufferId buffer) const {
    return reuse_.kind != ArenaReuse::Kind::None && reuse_.placement->offsets[buffer] != kNone;
  }
  uint32_t level_of(size_t level) const {
    return plan_.steps[segment_.levels[level].front()].level;
  }
  std::vector<OrderNode> without_idle_joins();
  bool begins_early(const OrderNode& node) const;

  const Plan& plan_;
  const Segment& segment_;
  const ArenaReuse& reuse_;
  const Lifetimes lifetimes_;
  std::vector<OrderNode> nodes_;
  std::vector<std::vector<uint32_t>> predecessors_;  // per node, before reduction
  std::vector<uint32_t> level_begin_;                // per level: the node of its join
  // Of a buffer in the arena: the nodes of its last and of its first accesses.
  IdVector<BufferId, std::vector<uint32_t>> last_users_, first_users_;
  std::vector<std::vector<BufferId>> dying_;  // per level of the segment: buffers that end there
  std::vector<uint32_t> freed_;               // last users of the buffers that have ended so far
  std::vector<bool> takes_;                   // per node: it is a first user
  Reducer reducer_{0};
};

void OrderBuilder::add_nodes(std::span<const uint32_t> inputs, std::span<const uint32_t> outputs) {
  for (const uint32_t i : inputs) nodes_.push_back({Kind::CopyIn, i, {}});
  for (const auto& level : segment_.levels) {
    level_begin_.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back({Kind::Join, 0, {}});
    for (const uint32_t step : level) nodes_.push_back({Kind::Launch, step, {}});
  }
  level_begin_.push_back(static_cast<uint32_t>(nodes_.size()));
  for (const uint32_t o : outputs) nodes_.push_back({Kind::CopyOut, o, {}});
}

Accesses OrderBuilder::slot_buffers(BufferKind kind, uint32_t index) const {
  std::vector<uint32_t> buffers;
  for (const BufferId b : plan_.buffers.ids()) {
    if (plan_.buffers[b].kind == kind && plan_.buffers[b].index == static_cast<int32_t>(index))
      buffers.push_back(static_cast<uint32_t>(b.index()));
  }
  if (kind == BufferKind::Input) return {{}, std::move(buffers)};
  return {std::move(buffers), {}};
}

Accesses OrderBuilder::accesses_of(const OrderNode& node) const {
  switch (node.kind) {
    case Kind::CopyIn:
      return slot_buffers(BufferKind::Input, node.index);
    case Kind::CopyOut:
      return slot_buffers(BufferKind::Output, node.index);
    case Kind::Join:
      return {};
    case Kind::Launch:
      break;
  }
  const auto& launch = std::get<Launch>(plan_.steps[node.index].what);
  Accesses a;
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    (launch.writes[i] ? a.writes : a.reads)
        .push_back(static_cast<uint32_t>(launch.buffers[i].index()));
  for (auto* list : {&a.reads, &a.writes}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return a;
}

// Finds the hazards of tensors, and the first and last users of each arena buffer.
void OrderBuilder::find_hazards() {
  std::vector<Accesses> accesses;
  accesses.reserve(nodes_.size());
  for (const OrderNode& node : nodes_) accesses.push_back(accesses_of(node));
  predecessors_.resize(nodes_.size());
  for_each_hazard(accesses, plan_.buffers.size(), [&](uint32_t earlier, uint32_t later) {
    predecessors_[later].push_back(earlier);
  });
  last_users_.resize(plan_.buffers.size());
  first_users_.resize(plan_.buffers.size());
  IdVector<BufferId, bool> written_last(plan_.buffers.size(), false);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    for (const bool writes : {false, true}) {
      for (const uint32_t r : writes ? accesses[n].writes : accesses[n].reads) {
        const BufferId b(r);
        if (!in_arena(b)) continue;
        // A verified plan writes a buffer before it reads it, so the first user is a single writer.
        if (last_users_[b].empty()) first_users_[b].push_back(n);
        if (writes || written_last[b]) last_users_[b].clear();
        if (last_users_[b].empty() || last_users_[b].back() != n) last_users_[b].push_back(n);
        written_last[b] = writes;
      }
    }
  }
}

// Launches that commit follow those that may fail. Host calls are in other segments.
void OrderBuilder::find_commits() {
  std::vector<uint32_t> checks;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].kind != Kind::Launch) continue;
    const auto& launch = std::get<Launch>(plan_.steps[nodes_[n].index].what);
    if (launch.commits)
      predecessors_[n].insert(predecessors_[n].end(), checks.begin(), checks.end());
    if (launch.checks) checks.push_back(n);
  }
}

// Tensors that share memory follow each other: each waits for the earlier ones whose bytes it
// reuses.
void OrderBuilder::find_placed_reuse() {
  struct Tenant {
    uint64_t end;
    BufferId buffer;
  };
  std::vector<BufferId> order;
  for (const BufferId b : plan_.buffers.ids())
    if (in_arena(b)) order.push_back(b);
  std::stable_sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    return lifetimes_.first[a] < lifetimes_.first[b];
  });
  std::vector<std::map<uint64_t, Tenant>> arenas(reuse_.placement->bytes.size());
  for (const BufferId b : order) {
    auto& tenants = arenas[reuse_.placement->arena[b]];
    const uint64_t begin = reuse_.placement->offsets[b];
    const uint64_t end = begin + std::max<uint64_t>((*reuse_.bytes)[b], 4);
    auto it = tenants.upper_bound(begin);
    if (it != tenants.begin() && std::prev(it)->second.end > begin) --it;
    while (it != tenants.end() && it->first < end) {
      const auto [start, old] = *it;
      for (const uint32_t user : first_users_[b])
        predecessors_[user].insert(predecessors_[user].end(), last_users_[old.buffer].begin(),
                                   last_users_[old.buffer].end());
      it = tenants.erase(it);
      if (start < begin) tenants.emplace(start, Tenant{begin, old.buffer});
      if (old.end > end) it = tenants.emplace(end, old).first;
    }
    tenants.emplace(begin, Tenant{end, b});
  }
}

// Adds the last users of the buffers that end in the previous level, without those for which
// another one waits.
void OrderBuilder::release_before(size_t level) {
  for (const BufferId b : dying_[level - 1])
    freed_.insert(freed_.end(), last_users_[b].begin(), last_users_[b].end());
  freed_ = reducer_.reduce(level_begin_[level], std::move(freed_));
}

// The launches [begin, end) of one level, whose predecessors are already reduced, wait for all
// freed buffers if they reuse memory: directly, or through the level's join if that needs fewer
// edges.
void OrderBuilder::wait_for_freed(uint32_t begin, uint32_t end) {
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> missing;
  std::vector<uint32_t> all;
  size_t direct = 0;
  for (uint32_t n = begin; n < end; ++n) {
    if (!takes_[n]) continue;
    std::vector<uint32_t> needed;
    for (const uint32_t f : freed_)
      if (!reducer_.precedes(f, n)) needed.push_back(f);
    // The row of the join is not in use yet, so it can be used to reduce these.
    const uint32_t join = begin - 1;
    needed = reducer_.reduce(join, std::move(needed));
    if (needed.empty()) continue;
    direct += needed.size();
    all.insert(all.end(), needed.begin(), needed.end());
    missing.emplace_back(n, std::move(needed));
  }
  if (missing.empty()) return;
  const uint32_t join = begin - 1;
  all = reducer_.reduce(join, std::move(all));
  const bool joined = direct > all.size() + missing.size();
  if (joined) nodes_[join].after = all;
  for (auto& [n, needed] : missing) {
    auto& before = predecessors_[n];
    if (joined) {
      before.push_back(join);
    } else {
      before.insert(before.end(), needed.begin(), needed.end());
    }
    nodes_[n].after = reducer_.reduce(n, before);
  }
}

void OrderBuilder::reduce_level(size_t level) {
  const uint32_t begin = level_begin_[level] + 1, end = level_begin_[level + 1];
  for (uint32_t n = begin; n < end; ++n) nodes_[n].after = reducer_.reduce(n, predecessors_[n]);
  if (reuse_.kind == ArenaReuse::Kind::AnyPlacement) wait_for_freed(begin, end);
}

// Every early kernel awaits the end of its predecessor before it ends itself. So what follows from
// several edges is as true as before, and only a launch's beginning is not ordered.
bool OrderBuilder::begins_early(const OrderNode& node) const {
  if (node.kind != Kind::Launch || node.after.size() != 1) return false;
  const auto& launch = std::get<Launch>(plan_.steps[node.index].what);
  const bool early = launch.kernel < plan_.kernels.size() && plan_.kernels[launch.kernel].early;
  return early && nodes_[node.after[0]].kind == Kind::Launch;
}

std::vector<OrderNode> OrderBuilder::without_idle_joins() {
  std::vector<uint32_t> position(nodes_.size());
  std::vector<OrderNode> kept;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    position[n] = static_cast<uint32_t>(kept.size());
    if (nodes_[n].kind == Kind::Join && nodes_[n].after.empty()) continue;
    nodes_[n].early = begins_early(nodes_[n]);
    kept.push_back(nodes_[n]);
    for (uint32_t& a : kept.back().after) a = position[a];
  }
  return kept;
}

std::vector<OrderNode> OrderBuilder::build(std::span<const uint32_t> inputs,
                                           std::span<const uint32_t> outputs) {
  add_nodes(inputs, outputs);
  find_hazards();
  find_commits();
  if (reuse_.kind == ArenaReuse::Kind::Placed) find_placed_reuse();
  reducer_ = Reducer(nodes_.size());
  takes_.assign(nodes_.size(), false);
  dying_.resize(segment_.levels.size());
  for (const BufferId b : plan_.buffers.ids()) {
    for (const uint32_t n : first_users_[b])
      takes_[n] = takes_[n] || plan_.steps[nodes_[n].index].level == lifetimes_.first[b];
    for (size_t l = 0; l < segment_.levels.size() && !last_users_[b].empty(); ++l)
      if (level_of(l) == lifetimes_.last[b]) dying_[l].push_back(b);
  }
  for (size_t l = 0; l < segment_.levels.size(); ++l) {
    if (l > 0) release_before(l);
    reduce_level(l);
  }
  for (uint32_t n = level_begin_.back(); n < nodes_.size(); ++n)
    nodes_[n].after = reducer_.reduce(n, predecessors_[n]);
  return without_idle_joins();
}

}  // namespace

std::vector<OrderNode> segment_nodes(const Segment& segment, std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs) {
  std::vector<OrderNode> nodes;
  for (const uint32_t i : inputs) nodes.push_back({Kind::CopyIn, i, {}});
  for (const auto& level : segment.levels)
    for (const uint32_t step : level) nodes.push_back({Kind::Launch, step, {}});
  for (const uint32_t o : outputs) nodes.push_back({Kind::CopyOut, o, {}});
  return nodes;
}

std::vector<OrderNode> segment_order(const Plan& plan, const Segment& segment,
                                     std::span<const uint32_t> inputs,
                                     std::span<const uint32_t> outputs, const ArenaReuse& reuse) {
  return OrderBuilder(plan, segment, reuse).build(inputs, outputs);
}

}  // namespace reprise::plan
