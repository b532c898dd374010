// Executes the workgroups of a cluster side by side: their roles take turns. A kernel without
// clusters has clusters of one workgroup.
#include <algorithm>

#include "codegen/interpreter/run.h"
#include "runtime/base/random.h"

namespace reprise::kernel {

bool Interpreter::any_failed() const {
  return std::ranges::any_of(cluster_, [](const Interpreter* m) { return m->failed_; });
}

/// What precedes the roles communicates with nobody, so that one workgroup after another does it.
void Interpreter::run_cluster() {
  role_state_.emplace(k_, size_ / subgroup_size_);
  role_state_->random = options_at(0).schedule_seed;
  std::vector<RoleTurns*> all;
  for (Interpreter* const member : cluster_) {
    member->roles_ = &*role_state_;
    member->turns_.clear();
    member->workgroups();
    for (RoleTurns& r : member->turns_) all.push_back(&r);
  }
  if (!any_failed()) take_turns(all);
  for (Interpreter* const member : cluster_)
    if (!any_failed() && !member->turns_.empty()) member->expect_all_awaited();
  if (!any_failed()) report_visits();
}

void Interpreter::take_turns(const std::vector<RoleTurns*>& all) {
  RoleState& state = *roles_;
  const bool at_random = options_at(0).schedule_seed != 0;
  while (!any_failed()) {
    std::vector<RoleTurns*> ready;
    ready.reserve(all.size());
    bool done = true;
    for (RoleTurns* const r : all) {
      done = done && r->frames.empty();
      if (!r->frames.empty() && r->owner->may_continue(*r)) ready.push_back(r);
    }
    if (done) return;
    const bool land = at_random && splitmix64(state.random) % 2 == 0;
    if (!state.boxes.empty() && (ready.empty() || land)) {
      land_box(at_random ? splitmix64(state.random) % state.boxes.size() : 0);
      continue;
    }
    if (!state.stores.empty() && at_random && splitmix64(state.random) % 4 == 0) {
      const size_t which = splitmix64(state.random) % state.stores.size();
      cluster_[state.stores[which].rank]->finish_store(which);
    }
    const auto meets = [](const RoleTurns* r) { return r->frames.empty() || r->meets(); };
    if (ready.empty() && std::ranges::all_of(all, meets)) {
      meet(all);
      continue;
    }
    if (ready.empty()) return report_deadlock(all);
    RoleTurns& next = *ready[at_random ? splitmix64(state.random) % ready.size() : 0];
    const Step* const passed = next.waits;
    next.waits = nullptr;
    if (passed != nullptr) next.owner->await(*passed, next.active);
    next.owner->run_turn(next, at_random ? 1 + splitmix64(state.random) % 64 : ~uint64_t{0});
  }
}

/// Whether a role has nothing to wait for.
bool Interpreter::may_continue(RoleTurns& r) {
  return r.waits == nullptr || (!r.meets() && may_pass(*r.waits, r.active));
}

/// All roles that have not ended are at a barrier of the cluster.
void Interpreter::meet(const std::vector<RoleTurns*>& all) {
  std::vector<uint32_t> subgroups;
  RoleState* state = nullptr;
  for (RoleTurns* const r : all) {
    if (!r->meets()) continue;
    const Interpreter& owner = *r->owner;
    state = owner.roles_;
    for (size_t i = 0; i < r->list.size(); i += owner.subgroup_size_)
      subgroups.push_back(owner.subgroup_of(r->list[i]));
    r->waits = nullptr;
  }
  state->clocks.meet(subgroups);
}

std::string Interpreter::where_it_waits(const RoleTurns& r) {
  if (r.meets()) return "; role " + r.name + " waits for the cluster";
  const uint32_t n = r.active.list[0];
  const auto counter = counter_of(*r.waits, r.waits->inst->imm, 0, n);
  if (!counter) return "";
  const Signal& g = k_.signals[r.waits->inst->imm];
  const SignalState& state = roles_->signals[*counter];
  return "; role " + r.name + " waits for parity " + std::to_string(r.waits->in[1].u32[n]) +
         " of " + g.name + "[" + std::to_string(r.waits->in[0].u32[n]) + "], which is in phase " +
         std::to_string(state.phase) + " with " + std::to_string(state.arrived) + " of " +
         std::to_string(g.arrivals) + " arrivals";
}

void Interpreter::report_deadlock(const std::vector<RoleTurns*>& all) {
  std::string who;
  const RoleTurns* first = nullptr;
  for (const RoleTurns* const r : all) {
    if (r->waits == nullptr) continue;
    who += r->owner->where_it_waits(*r);
    if (r->owner->failed_) return;
    if (first == nullptr) first = r;
  }
  first->owner->violate(first->waits->id, first->active.list[0], "waits for ever" + who);
}

/// After all roles have ended: somebody of the workgroup has waited for each copy, each product and
/// each store.
void Interpreter::expect_all_awaited() {
  const uint32_t subgroups = roles_->subgroups, first = first_subgroup(rank_);
  for (uint32_t c = rank_ * roles_->counters; c < (rank_ + 1) * roles_->counters; ++c) {
    const SignalState& s = roles_->signals[c];
    const uint32_t copies = roles_->clocks.copies(c);
    if (s.copied != 0 && !roles_->clocks.anyone_knows(copies, s.copied - 1, first, subgroups))
      return violate(s.copier, s.where, "never waits for this copy of a box");
  }
  for (uint32_t g = first; g < first + subgroups; ++g) {
    const uint32_t n = (g - first) * subgroup_size_;
    const TeamState& team = roles_->teams[g / kTeamSubgroups];
    if (g % kTeamSubgroups == 0 && team.used > team.finished)
      return violate(team.last, n, "never waits for this product");
    const BoxStores& stores = roles_->subgroup_stores[g];
    if (stores.drained < stores.begun)
      return violate(stores.last, n, "never waits for this store of a box");
  }
}

// --- Other workgroups of the cluster

std::optional<uint32_t> Interpreter::rank_of(const Step& s, uint32_t n) {
  if (!is_remote(*s.inst)) return rank_;
  const uint32_t rank = s.in[kRemoteRank].u32[n];
  if (rank < k_.cluster) return rank;
  violate(s.id, n,
          "accesses workgroup " + std::to_string(integer_of(rank, Ty::I32)) + " of a cluster of " +
              std::to_string(k_.cluster));
  return std::nullopt;
}

void Interpreter::note_visit(const Step& s, uint32_t n, uint32_t rank) {
  if (rank == rank_) return;
  const uint32_t subgroup = subgroup_of(n);
  roles_->visit(subgroup, rank) = {true, roles_->clocks.now(subgroup, Clocks::kAnyLane), s.id, n};
}

/// A workgroup must not end while others access its shared memory: one of its subgroups has to know
/// that they have.
void Interpreter::report_visits() {
  for (Interpreter* const from : cluster_) {
    for (uint32_t g = first_subgroup(from->rank_); g < first_subgroup(from->rank_ + 1); ++g) {
      for (uint32_t rank = 0; rank < k_.cluster; ++rank) {
        const Visit& v = roles_->visit(g, rank);
        if (!v.exists || roles_->clocks.anyone_knows(v.stamp.agent, v.stamp.time,
                                                     first_subgroup(rank), roles_->subgroups))
          continue;
        return from->violate(
            v.instruction, v.where,
            "accesses workgroup " + std::to_string(rank) + " of its cluster, which may have ended");
      }
    }
  }
}

}  // namespace reprise::kernel
