// Executes roles, signals, copies of boxes and the products of teams.
//
// The invocations of a role are in lockstep; roles take turns. One runs until it has to wait, or as
// far as a random number says. Copies land as late as they may, or at random. What a program may
// rely on does not depend on that: races are found by clocks (clocks.h).
#include "codegen/interpreter/roles.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/interpreter/native_error.h"
#include "codegen/interpreter/run.h"
#include "runtime/base/random.h"

namespace reprise::kernel {
namespace {

constexpr size_t kUnit =
    8;  // elements of swizzled arrays, which boxes and products access in lines

uint32_t counters_of(const Kernel& k) {
  uint32_t n = 0;
  for (const Signal& s : k.signals) n += s.count;
  return n;
}

}  // namespace

RoleState::RoleState(const Kernel& k, uint32_t each)
    : cluster(k.cluster),
      subgroups(each),
      counters(counters_of(k)),
      shared(static_cast<uint32_t>(k.shared.size())),
      clocks(cluster * subgroups, cluster * counters),
      signals(size_t{cluster} * counters),
      visits(size_t{cluster} * subgroups * cluster),
      teams(size_t{cluster} * subgroups / kTeamSubgroups),
      subgroup_stores(size_t{cluster} * subgroups) {
  arrays.reserve(size_t{cluster} * shared);
  for (uint32_t rank = 0; rank < cluster; ++rank)
    for (const SharedArray& s : k.shared)
      arrays.emplace_back(s.count, s.swizzle == Swizzle::None ? 1 : kUnit);
  uint32_t first = 0;
  for (const Signal& s : k.signals) {
    first_counter.push_back(first);
    first += s.count;
  }
  for (TeamState& t : teams) t.matrices.resize(k.matrices.size());
}

bool Interpreter::suspends(size_t block) const {
  return std::ranges::any_of(k_.blocks[block].insts, [this](int32_t id) {
    const Inst& i = k_.insts[static_cast<size_t>(id)];
    return waits_in_turns(i) || std::ranges::any_of(i.blocks, [this](int32_t b) {
             return suspends(static_cast<size_t>(b));
           });
  });
}

/// Whether other roles, or those of other workgroups, run while an instruction waits.
bool Interpreter::waits_in_turns(const Inst& i) const {
  const bool meets = i.op == Op::Barrier && i.imm == static_cast<uint64_t>(BarrierScope::Cluster);
  return i.op == Op::Await || meets;
}

void Interpreter::roles(const Step& s, const Active& active) {
  if (active.list.size() != size_)
    return violate(s.id, active.list[0], "divides a workgroup that is not whole");
  std::vector<RoleTurns>& all = turns_;
  all.resize(k_.roles.size());
  uint32_t first = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Role& role = k_.roles[r];
    all[r].owner = this;
    all[r].name = role.name;
    for (uint32_t n = 0; n < role.subgroups * subgroup_size_; ++n) all[r].list.push_back(first + n);
    all[r].active = {all[r].list, false, all[r].list.size()};
    all[r].frames.push_back({static_cast<size_t>(s.inst->blocks[r])});
    first += role.teams * kTeamSubgroups * subgroup_size_;
  }
}

/// Runs a role until it waits or ends, but for at most so many steps.
void Interpreter::run_turn(RoleTurns& r, uint64_t steps) {
  while (!r.frames.empty() && !failed_ && steps-- > 0) {
    RoleTurns::Frame& f = r.frames.back();
    const std::vector<Step>& list = steps_[f.block];
    if (f.step == list.size()) {
      if (f.loop != nullptr && f.at + f.by < f.end) {
        f.at += f.by;
        f.step = 0;
        std::fill_n(f.loop->out.u32, stride_, static_cast<uint32_t>(f.at));
        count_block(f.block, r.active);
      } else {
        r.frames.pop_back();
      }
      continue;
    }
    const Step& s = list[f.step];
    if (s.function != nullptr) {
      s.function(s.rows);
      for (size_t run = 1; run < s.runs; ++run) s.function(s.rows.from(run * stride_));
      ++f.step;
      continue;
    }
    ++f.step;
    const bool passes = s.inst->op == Op::Await && may_pass(s, r.active);
    if (waits_in_turns(*s.inst) && !passes) {
      r.waits = &s;  // take_turns() says when it goes on
      return;
    }
    if (!enter(s, r)) (this->*s.execute)(s, r.active);
  }
}

/// Enters an If or For with instructions that wait. False for any other instruction.
bool Interpreter::enter(const Step& s, RoleTurns& r) {
  const Inst& i = *s.inst;
  const bool waits =
      std::ranges::any_of(i.blocks, [this](int32_t b) { return suspends(static_cast<size_t>(b)); });
  if (!waits) return false;
  const uint32_t first = r.active.list[0];
  for (size_t a = 0; a < i.args.size(); ++a) {
    const uint32_t* values = s.in[a].u32;
    const uint32_t other = find(r.active, [&](uint32_t n) { return values[n] != values[first]; });
    if (other == kNoInvocation) continue;
    violate(s.id, other, "differs from others of its role where they wait");
    return true;
  }
  const auto value = [&](size_t a) { return int64_t{static_cast<int32_t>(s.in[a].u32[first])}; };
  if (i.op == Op::If) {
    const size_t taken = s.in[0].u32[first] != 0 ? 0 : 1;
    if (taken < i.blocks.size()) {
      r.frames.push_back({static_cast<size_t>(i.blocks[taken])});
      count_block(r.frames.back().block, r.active);
    }
  } else if (value(2) <= 0) {
    violate(s.id, first, "loops with a step that is not positive");
  } else if (value(0) < value(1)) {
    r.frames.push_back({static_cast<size_t>(i.blocks[0]), 0, &s, value(0), value(1), value(2)});
    std::fill_n(s.out.u32, stride_, s.in[0].u32[first]);
    count_block(r.frames.back().block, r.active);
  }
  return true;
}

void Interpreter::count_block(size_t block, const Active& active) {
  instructions_ += k_.blocks[block].insts.size() * active.list.size();
  if (instructions_ >= launch_.limit) exceed_limit();
}

// --- Signals

std::optional<uint32_t> Interpreter::counter_of(const Step& s, size_t signal, size_t arg,
                                                uint32_t n, uint32_t rank) {
  const uint32_t index = s.in[arg].u32[n];
  const Signal& g = k_.signals[signal];
  for (uint32_t l = n; l < n + subgroup_size_; ++l) {
    if (s.in[arg].u32[l] == index) continue;
    violate(s.id, l, "has another index of a signal than others of its subgroup");
    return std::nullopt;
  }
  if (index < g.count) return roles_->counter(rank, signal, index);
  violate(s.id, n,
          "names " + g.name + "[" + std::to_string(integer_of(index, Ty::I32)) + "], of " +
              std::to_string(g.count));
  return std::nullopt;
}

bool Interpreter::may_pass(const Step& s, const Active& active) {
  for (size_t i = 0; i < active.list.size(); i += subgroup_size_) {
    const uint32_t n = active.list[i];
    const auto counter = counter_of(s, s.inst->imm, 0, n);
    // A wrong index fails when it is executed.
    if (counter && roles_->signals[*counter].phase % 2 == (s.in[1].u32[n] & 1U)) return false;
  }
  return true;
}

void Interpreter::await(const Step& s, const Active& active) {
  if (!roles_) return violate(s.id, active.list[0], "waits in no role");
  for (size_t i = 0; i < active.list.size() && !failed_; i += subgroup_size_) {
    const uint32_t n = active.list[i];
    if (s.in[1].u32[n] > 1) return violate(s.id, n, "waits for a parity that is neither 0 nor 1");
    const auto counter = counter_of(s, s.inst->imm, 0, n);
    if (counter) roles_->clocks.await(subgroup_of(n), *counter);
  }
}

void Interpreter::arrive(const Step& s, const Active& active) {
  for (size_t i = 0; i < active.list.size() && !failed_; i += subgroup_size_) {
    const uint32_t n = active.list[i];
    const auto rank = rank_of(s, n);
    if (!rank) return;
    const auto counter = counter_of(s, s.inst->imm, 0, n, *rank);
    if (!counter) return;
    note_visit(s, n, *rank);
    SignalState& state = roles_->signals[*counter];
    const Signal& g = k_.signals[s.inst->imm];
    if (++state.arrived > g.arrivals) {
      return violate(s.id, n,
                     "arrives at " + g.name + "[" + std::to_string(s.in[0].u32[n]) +
                         "] more often in a phase than " + std::to_string(g.arrivals));
    }
    roles_->clocks.arrive(subgroup_of(n), *counter);
    complete_phase(*counter);
  }
}

uint32_t Interpreter::signal_of(uint32_t counter) const {
  const auto& first = roles_->first_counter;
  const uint32_t own = counter % roles_->counters;  // counted in its workgroup
  return static_cast<uint32_t>(std::ranges::upper_bound(first, own) - first.begin() - 1);
}

void Interpreter::complete_phase(uint32_t counter) {
  SignalState& state = roles_->signals[counter];
  if (state.bytes != 0 || state.arrived != k_.signals[signal_of(counter)].arrivals) return;
  const auto untold = [&](const Stamp& s) { return !roles_->clocks.is_told(counter, s); };
  if (std::ranges::any_of(state.copiers, untold))
    return violate(state.copier, state.where,
                   "copies a box for a phase that may complete before the copy begins: an arrival "
                   "in this phase has to follow");
  state.copiers.clear();
  state.arrived = 0;
  ++state.phase;
  roles_->clocks.complete(counter);
}

// --- Copies of boxes

/// Calls f with the position in the box and the coordinates of each of its elements, the innermost
/// first.
template <typename F>
void Interpreter::each_of_box(const TensorView& v, const F& f) {
  std::array<uint32_t, TensorView::kMostRank> at{};
  for (uint64_t n = 0; n < v.box_elements(); ++n) {
    f(n, at);
    for (size_t d = 0; d < v.rank() && ++at[d] == v.box[d]; ++d) at[d] = 0;
  }
}

void Interpreter::box_copy(const Step& s, const Active& active) {
  for (size_t i = 0; i < active.list.size() && !failed_; i += subgroup_size_)
    begin_box(s, active.list[i]);
}

/// Whether the subgroup whose first invocation is n may access the box in shared memory.
bool Interpreter::may_access_box(const Step& s, uint32_t n) {
  const BoxAccess a = BoxAccess::of(s.inst->imm);
  const SharedArray& array = k_.shared[a.shared];
  const uint64_t elements = k_.views[a.view].tensor.box_elements();
  return may_access(s, n) &&
         indices_fit(s, {s.inst->args[0], elements, array.count, s.inst->align, array.name},
                     {{&n, 1}, false, 1});
}

void Interpreter::begin_box(const Step& s, uint32_t n) {
  if (!may_access_box(s, n)) return;
  const BoxAccess a = BoxAccess::of(s.inst->imm);
  const TensorView& v = k_.views[a.view].tensor;
  std::vector<uint64_t> values(v.box_elements());
  if (!load_box(s, n, values)) return;
  const uint32_t ranks = a.ranks == 0 ? 1U << rank_ : a.ranks;
  for (uint32_t rank = 0; ranks >> rank != 0; ++rank)
    if ((ranks >> rank & 1U) != 0 && !begin_box_at(s, n, rank, values)) return;
}

/// The box is on its way to one workgroup, whose signal counts it.
bool Interpreter::begin_box_at(const Step& s, uint32_t n, uint32_t rank,
                               const std::vector<uint64_t>& values) {
  const BoxAccess a = BoxAccess::of(s.inst->imm);
  const auto counter = counter_of(s, a.signal, 1, n, rank);
  if (!counter) return false;
  const BoxInFlight box{rank,           a.shared, *counter,
                        s.in[0].u32[n], values,   k_.views[a.view].tensor.box_bytes()};
  SignalState& signal = roles_->signals[*counter];
  const Stamp stamp{roles_->clocks.copies(*counter), Clocks::kAnyLane, signal.phase};
  AccessLog& log = roles_->log(rank, a.shared);
  for (size_t e = 0; e < box.values.size(); e += log.unit()) {
    if (log.begin(box.at + e, stamp, roles_->clocks, subgroup_of(n))) continue;
    violate(s.id, n,
            "copies to " + k_.shared[a.shared].name + "[" + std::to_string(box.at + e) + "]" +
                (rank == rank_ ? "" : " of workgroup " + std::to_string(rank)) +
                ", which others may still access");
    return false;
  }
  signal.copiers.push_back(roles_->clocks.now(subgroup_of(n), Clocks::kAnyLane));
  signal.bytes += box.bytes;
  signal.copied = signal.phase + 1;
  signal.copier = s.id;
  signal.where = n;
  roles_->boxes.push_back(box);
  return true;
}

/// Loads the elements of a box. False after a violation.
bool Interpreter::load_box(const Step& s, uint32_t n, std::vector<uint64_t>& values) {
  const TensorView& v = k_.views[BoxAccess::of(s.inst->imm).view].tensor;
  std::vector<uint32_t> element(stride_), value(stride_);
  MemoryRow row = memory_row(s, v.buffer, {{&n, 1}, false, 1});
  row.index = element.data();
  row.value.u32 = value.data();
  const std::array<int32_t, 4> coordinates = box_coordinates(s, 2, n);
  each_of_box(v, [&](uint64_t place, const auto& at) {
    const std::optional<int64_t> index = element_of_box(v, coordinates, at);
    if (!index || failed_) return;  // zero
    if (*index < 0 || static_cast<uint64_t>(*index) >= memory_.elements(v.buffer)) {
      return violate(s.id, n,
                     "copies " + k_.buffers[v.buffer].name + "[" + std::to_string(*index) +
                         "], of " + std::to_string(memory_.elements(v.buffer)));
    }
    element[n] = row.largest = static_cast<uint32_t>(*index);
    if (memory_.load(row))
      return violate(s.id, n, "races with another invocation on " + k_.buffers[v.buffer].name);
    values[place] = value[n];
  });
  return !failed_;
}

void Interpreter::land_box(size_t which) {
  const BoxInFlight box = std::move(roles_->boxes[which]);
  roles_->boxes.erase(roles_->boxes.begin() + static_cast<ptrdiff_t>(which));
  for (size_t e = 0; e < box.values.size(); ++e) {
    cluster_[box.rank]->shared_[box.shared].row.set(box.at + e, box.values[e]);
    roles_->log(box.rank, box.shared).land(box.at + e);
  }
  roles_->signals[box.signal].bytes -= box.bytes;
  complete_phase(box.signal);
}

std::array<int32_t, 4> Interpreter::box_coordinates(const Step& s, size_t arg, uint32_t n) const {
  std::array<int32_t, 4> out{};
  for (size_t d = 0; d < std::min<size_t>(type(s.inst->args[arg]).lanes, out.size()); ++d)
    out[d] = static_cast<int32_t>(s.in[arg].u32[d * stride_ + n]);
  return out;
}

std::optional<int64_t> Interpreter::element_of_box(
    const TensorView& v, const std::array<int32_t, 4>& coordinates,
    const std::array<uint32_t, TensorView::kMostRank>& at) const {
  const auto scalar = [&](uint32_t i) { return int64_t{static_cast<int32_t>(launch_.scalars[i])}; };
  int64_t index = scalar(v.first);
  for (size_t d = 0; d < v.rank(); ++d) {
    const int64_t c = coordinates[d] + int64_t{at[d]};
    if (c < 0 || c >= scalar(v.dims[d])) return std::nullopt;
    index += c * (d == 0 ? 1 : scalar(v.strides[d - 1]));
  }
  return index;
}

// --- Stores of boxes

void Interpreter::box_store(const Step& s, const Active& active) {
  if (!roles_) return violate(s.id, active.list[0], "stores a box in no role");
  for (size_t i = 0; i < active.list.size() && !failed_; i += subgroup_size_)
    begin_store(s, active.list[i]);
}

/// The subgroup's store reads shared memory from now on until it is drained.
void Interpreter::begin_store(const Step& s, uint32_t n) {
  if (!may_access_box(s, n)) return;
  const BoxAccess a = BoxAccess::of(s.inst->imm);
  const TensorView& v = k_.views[a.view].tensor;
  const SharedArray& array = k_.shared[a.shared];
  const StoreInFlight store{rank_, s.id, n, s.in[0].u32[n], box_coordinates(s, 1, n)};
  if (std::ranges::any_of(store.coordinates, [](int32_t c) { return c < 0; }))
    return violate(s.id, n, "stores a box that begins before its view");
  const uint32_t subgroup = subgroup_of(n);
  BoxStores& stores = roles_->subgroup_stores[subgroup];
  const Stamp stamp{roles_->clocks.stores(subgroup), Clocks::kAnyLane, stores.begun};
  AccessLog& log = log_of(a.shared);
  each_of_box(v, [&](uint64_t place, const auto& at) {
    if (failed_ || !element_of_box(v, store.coordinates, at)) return;
    const size_t element = store.at + place;
    const bool written = log.is_written(element);
    if (written && log.read(element, stamp, roles_->clocks, subgroup, Clocks::kAnyLane)) return;
    violate(s.id, n,
            "stores " + array.name + "[" + std::to_string(element) + "]" +
                (written ? ", which another may still write" : " before it is written"));
  });
  ++stores.begun;
  stores.last = s.id;
  roles_->stores.push_back(store);
}

/// The oldest stores of a subgroup happen, as late as they may.
void Interpreter::box_drain(const Step& s, const Active& active) {
  if (!roles_) return violate(s.id, active.list[0], "waits in no role");
  const auto unfinished = static_cast<uint32_t>(s.inst->imm);
  for (size_t i = 0; i < active.list.size() && !failed_; i += subgroup_size_) {
    const uint32_t first = active.list[i], subgroup = subgroup_of(first);
    const auto own = [&](const StoreInFlight& f) { return f.rank == rank_ && f.where == first; };
    auto left = static_cast<uint32_t>(std::ranges::count_if(roles_->stores, own));
    for (; left > unfinished && !failed_; --left)
      finish_store(
          static_cast<size_t>(std::ranges::find_if(roles_->stores, own) - roles_->stores.begin()));
    BoxStores& stores = roles_->subgroup_stores[subgroup];
    if (stores.begun > unfinished)
      stores.drained = std::max(stores.drained, stores.begun - unfinished);
    roles_->clocks.learn(subgroup, roles_->clocks.stores(subgroup), stores.drained);
  }
}

void Interpreter::finish_store(size_t which) {
  const StoreInFlight store = roles_->stores[which];
  roles_->stores.erase(roles_->stores.begin() + static_cast<ptrdiff_t>(which));
  const BoxAccess a = BoxAccess::of(k_.insts[static_cast<size_t>(store.instruction)].imm);
  const TensorView& v = k_.views[a.view].tensor;
  const std::string& name = k_.buffers[v.buffer].name;
  Step step;  // as the interpreter's memory knows instructions
  step.id = store.instruction;
  std::vector<uint32_t> element(stride_), value(stride_);
  MemoryRow row = memory_row(step, v.buffer, {{&store.where, 1}, false, 1});
  row.index = element.data();
  row.value.u32 = value.data();
  // A drain waits until the box has been read, so nothing orders its writes within the launch.
  row.box = Touch::kMany - ++stored_boxes_;
  each_of_box(v, [&](uint64_t place, const auto& at) {
    const std::optional<int64_t> index = element_of_box(v, store.coordinates, at);
    if (!index || failed_) return;
    if (*index < 0 || static_cast<uint64_t>(*index) >= memory_.elements(v.buffer)) {
      return violate(store.instruction, store.where,
                     "stores to " + name + "[" + std::to_string(*index) + "], of " +
                         std::to_string(memory_.elements(v.buffer)));
    }
    element[store.where] = row.largest = static_cast<uint32_t>(*index);
    value[store.where] = static_cast<uint32_t>(shared_[a.shared].row.get(store.at + place));
    if (memory_.store(row))
      violate(store.instruction, store.where,
              "stores a box that races with another store on " + name + "[" +
                  std::to_string(*index) + "]");
  });
}

// --- Teams

/// Calls f with the number of each team in the cluster and its first invocation. Reports a team of
/// which only some invocations are active.
template <typename F>
void Interpreter::each_team(const Step& s, const Active& active, const F& f) {
  const size_t size = kTeamSubgroups * subgroup_size_;
  for (size_t i = 0; i < active.list.size() && !failed_; i += size) {
    const uint32_t n = active.list[i];
    const bool whole = n % size == 0 && i + size <= active.list.size() &&
                       active.list[i + size - 1] == n + size - 1;
    if (!whole) return violate(s.id, n, "does what its whole team has to do");
    f(subgroup_of(n) / kTeamSubgroups, n);
  }
}

void Interpreter::team_barrier(const Step& s, const Active& active) {
  each_team(s, active, [&](uint32_t team, uint32_t) {
    roles_->clocks.meet(team * kTeamSubgroups, kTeamSubgroups);
  });
}

void Interpreter::matrix_commit(const Step& s, const Active& active) {
  each_team(s, active, [&](uint32_t team, uint32_t) { ++roles_->teams[team].open; });
}

void Interpreter::matrix_await(const Step& s, const Active& active) {
  each_team(s, active, [&](uint32_t team, uint32_t) {
    TeamState& t = roles_->teams[team];
    const auto unfinished = static_cast<uint32_t>(s.inst->imm);
    if (t.open > unfinished) t.finished = std::max(t.finished, t.open - unfinished);
    for (uint32_t g = team * kTeamSubgroups; g < (team + 1) * kTeamSubgroups; ++g)
      roles_->clocks.learn(g, roles_->clocks.products(g), t.finished);
  });
}

void Interpreter::team_mul_add(const Step& s, const Active& active) {
  const TeamOperands p = TeamOperands::of(s.inst->imm);
  each_team(s, active, [&](uint32_t team, uint32_t n) {
    const uint32_t columns = k_.matrices[p.sum].columns * p.count;
    const size_t depth = TeamOperands::kBytes / byte_size(k_.shared[p.right.shared].type);
    const auto left =
        p.held ? held_operand(s, n) : team_operand(s, n, {p.left, 0, TeamOperands::kRows, true});
    const auto right = team_operand(s, n, {p.right, s.inst->args.size() - 1, columns, false});
    if (failed_) return;
    TeamState& t = roles_->teams[team];
    for (uint32_t m = 0; m < p.count && !failed_; ++m) {
      std::vector<double>& sum = matrices_.of(p.sum + m, n / subgroup_size_);
      if (sum.empty()) return violate(s.id, n, "multiplies a matrix before it is written");
      const uint32_t width = k_.matrices[p.sum].columns;
      multiply(sum, left, std::span(right).subspan(m * width * depth, width * depth), depth,
               options_at(n));
      t.matrices[p.sum + m] = t.open + 1;
    }
    if (p.held) t.matrices[p.left.shared] = t.open + 1;
    t.used = t.open + 1;
    t.last = s.id;
  });
}

/// The elements of a left operand that the team holds.
std::vector<double> Interpreter::held_operand(const Step& s, uint32_t n) {
  const size_t matrix = TeamOperands::of(s.inst->imm).left.shared;
  if (!is_finished(s, matrix, n)) return {};
  std::vector<double> out = matrices_.of(matrix, n / subgroup_size_);
  if (out.empty())
    violate(s.id, n, "multiplies " + k_.matrices[matrix].name + " before it is written");
  return out;
}

/// The elements of an operand, those of a row or column side by side. Logs the reads of the team's
/// subgroups: each reads all columns, and its own rows.
std::vector<double> Interpreter::team_operand(const Step& s, uint32_t n, const TeamSide& side) {
  const TeamOperand& o = side.operand;
  const SharedArray& array = k_.shared[o.shared];
  const auto size = static_cast<uint32_t>(byte_size(array.type));
  const uint32_t line = span_of(array.swizzle) / size, depth = TeamOperands::kBytes / size;
  const uint32_t first = s.in[side.arg].u32[n];
  for (uint32_t l = n; l < n + kTeamSubgroups * subgroup_size_; ++l) {
    if (s.in[side.arg].u32[l] == first) continue;
    violate(s.id, l, "has another index of an operand than others of its team");
    return {};
  }
  // The pattern of the swizzle begins with the operand, but for the values of k within a line.
  const uint32_t within = first % (8 * line);
  if (o.along_k ? within >= line || within % depth != 0 : within != 0) {
    violate(s.id, n,
            "multiplies " + array.name + "[" + std::to_string(first) +
                "], where no line of an operand begins");
    return {};
  }
  std::vector<double> out;
  out.reserve(size_t{side.elements} * depth);
  for (uint32_t i = 0; i < side.elements && !failed_; ++i) {
    for (uint32_t k = 0; k < depth && !failed_; ++k) {
      const uint64_t at =
          o.along_k ? uint64_t{first} + i * line + k
                    : uint64_t{first} + i / line * o.group * (1024 / size) + k * line + i % line;
      // Operands consist of whole units of the log.
      if (at % log_of(o.shared).unit() == 0) log_operand(s, n, side, i, at);
      if (failed_) return {};
      const uint64_t bits = shared_[o.shared].row.get(at);
      out.push_back(number_of(bits, compute_type(array.type)));
    }
  }
  return out;
}

/// Logs that the team's subgroups read elements from `at` on: all of them those of a column, one of
/// them those of row i.
void Interpreter::log_operand(const Step& s, uint32_t n, const TeamSide& side, uint32_t i,
                              uint64_t at) {
  const SharedArray& array = k_.shared[side.operand.shared];
  AccessLog& log = log_of(side.operand.shared);
  const auto refuse = [&](const std::string& why) {
    violate(s.id, n, "multiplies " + array.name + "[" + std::to_string(at) + "], " + why);
  };
  if (at + log.unit() > array.count) return refuse("of " + std::to_string(array.count));
  if (!log.is_written(at)) return refuse("before it is written");
  const uint32_t team = subgroup_of(n);  // its first subgroup
  const uint32_t own = team + (side.rows ? i / (side.elements / kTeamSubgroups) : 0);
  const uint32_t last = side.rows ? own : own + kTeamSubgroups - 1;
  for (uint32_t g = own; g <= last; ++g) {
    const Stamp stamp{roles_->clocks.products(g), Clocks::kAnyLane,
                      roles_->teams[team / kTeamSubgroups].open};
    if (!log.read(at, stamp, roles_->clocks, g, Clocks::kAnyLane))
      return refuse("which another may still write");
  }
}

/// Adds to a sum the products of rows and columns, whose values of k lie side by side.
void Interpreter::multiply(std::vector<double>& sum, std::span<const double> left,
                           std::span<const double> right, size_t depth,
                           const InterpretOptions& options) {
  const size_t columns = right.size() / depth;
  for (size_t r = 0; r < left.size() / depth; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      double& element = sum[r * columns + c];
      double total = element, magnitude = std::fabs(total);
      for (size_t d = 0; d < depth; ++d) {
        const double product = left[r * depth + d] * right[c * depth + d];
        total += product;
        magnitude += std::fabs(product);
      }
      total += reordering_error(magnitude, Ty::F32, std::bit_cast<uint64_t>(total), options);
      element = static_cast<double>(static_cast<float>(total));
    }
  }
}

/// Whether the team of an invocation may use a sum. Reports it if not.
bool Interpreter::is_finished(const Step& s, size_t matrix, uint32_t n) {
  const TeamState& t = roles_->teams[subgroup_of(n) / kTeamSubgroups];
  if (t.matrices[matrix] <= t.finished) return true;
  violate(s.id, n, "uses " + k_.matrices[matrix].name + " before its products are awaited");
  return false;
}

void Interpreter::team_matrix(const Step& s, const Active& active) {
  const Inst& i = *s.inst;
  const size_t matrix = matrix_of(i);
  const MatrixVar& m = k_.matrices[matrix];
  each_team(s, active, [&](uint32_t, uint32_t n) {
    if (!is_finished(s, matrix, n)) return;
    if (i.op == Op::MatrixConvert) {
      // Products that read the operand before must be over.
      if (is_finished(s, MatrixConversion::of(i.imm).left, n)) convert_matrix(s, n);
    } else if (i.op == Op::MatrixZero) {
      matrices_.of(matrix, n / subgroup_size_).assign(size_t{m.rows} * m.columns, 0.0);
    } else {
      store_team_sum(s, n);
    }
  });
}

void Interpreter::store_team_sum(const Step& s, uint32_t n) {
  const MatrixAccess a = MatrixAccess::of(s.inst->imm);
  const MatrixVar& m = k_.matrices[a.matrix];
  const SharedArray& array = k_.shared[a.shared];
  const std::vector<double>& values = matrices_.of(a.matrix, n / subgroup_size_);
  if (values.empty()) return violate(s.id, n, "stores matrix " + m.name + " before it is written");
  const uint64_t lines = a.by_columns ? m.columns : m.rows;
  const uint64_t span = (lines - 1) * a.stride + (a.by_columns ? m.rows : m.columns);
  if (!indices_fit(s, {s.inst->args[0], span, array.count, s.inst->align, array.name},
                   {{&n, 1}, false, 1}))
    return;
  const uint32_t index = s.in[0].u32[n];
  for (uint32_t r = 0; r < m.rows; ++r) {
    // The device decides which invocation of the subgroup has an element.
    const uint32_t subgroup = subgroup_of(n) + r / (m.rows / kTeamSubgroups);
    const Stamp stamp = roles_->clocks.now(subgroup, Clocks::kAnyLane);
    for (uint32_t c = 0; c < m.columns; ++c) {
      const uint64_t at = index + (a.by_columns ? c * a.stride + r : r * a.stride + c);
      if (!log_of(a.shared).write(at, stamp, roles_->clocks, subgroup, Clocks::kAnyLane))
        return violate(
            s.id, n,
            "races with another invocation on " + array.name + "[" + std::to_string(at) + "]");
      const double value = rounded(values[r * m.columns + c], array.type);
      shared_[a.shared].row.set(at, bits_of(value, compute_type(array.type)));
    }
  }
}

/// A SharedLoad or SharedStore in a kernel with roles. Indices are in range.
void Interpreter::clocked_shared_access(const Step& s, std::span<const uint32_t> positions) {
  const Inst& i = *s.inst;
  const bool load = i.op == Op::SharedLoad;
  const uint32_t lanes = load ? i.type.lanes : type(i.args[1]).lanes;
  const Row value = load ? s.out : s.in[1];
  for (const uint32_t n : positions) {
    const auto rank = load ? rank_of(s, n) : rank_;
    if (!rank) return;
    if (load) note_visit(s, n, *rank);
    AccessLog& log = roles_->log(*rank, i.imm);
    const Row cells = cluster_[*rank]->shared_[i.imm].row;
    const uint32_t subgroup = subgroup_of(n), lane = n % subgroup_size_;
    const Stamp stamp = roles_->clocks.now(subgroup, lane);
    for (uint32_t l = 0; l < lanes; ++l) {
      const size_t at = s.in[0].u32[n] + l;
      // Stores to a swizzled array consist of whole units of the log.
      const bool logged = at % log.unit() == 0;
      const bool fails = load && !log.is_written(at);
      const bool alone = !logged || (load ? log.read(at, stamp, roles_->clocks, subgroup, lane)
                                          : log.write(at, stamp, roles_->clocks, subgroup, lane));
      if (fails || !alone) {
        const std::string element = shared_name(s, n, l);
        return violate(s.id, n,
                       fails ? "reads " + element + " before it is written"
                             : "races with another invocation on " + element);
      }
      if (load) {
        value.set(l * stride_ + n, cells.get(at));
      } else {
        cells.set(at, value.get(l * stride_ + n));
      }
    }
  }
}

}  // namespace reprise::kernel
