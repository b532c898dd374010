#include "tests/ptx/machine/warp.h"

#include <algorithm>

#include "tests/ptx/machine/tokens.h"

namespace reprise::test::ptx {
namespace {

constexpr uint64_t kPoison = 0xA5A5A5A5;  // what registers hold that have no value
constexpr uint64_t kMostSteps = uint64_t{1} << 26;

}  // namespace

Warp::Warp(Group& group, const Entry& entry, uint32_t number)
    : group_(group),
      entry_(entry),
      number_(number),
      registers_(size_t{entry.slots} * kLanes, kPoison),
      defined_(entry.slots) {
  const uint32_t first = kLanes * number;
  const uint32_t count = std::min(kLanes, group.threads - first);
  present_ = count == kLanes ? kAll : (1U << count) - 1;
  for (const Entry::Constant& c : entry.constants) std::fill_n(to(c.slot), kLanes, c.bits);
}

void Warp::fill_constants() {
  std::fill(defined_.begin(), defined_.end(), 0);
  for (const Entry::Constant& c : entry_.constants) defined_[c.slot] = kAll;
  const Cluster& c = group_.cluster;
  const auto& size = c.size;
  for (const Entry::SpecialSlot& s : entry_.specials) {
    defined_[s.slot] = kAll;
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t thread = kLanes * number_ + l, bit = 1U << l;
      const uint32_t tid[] = {thread % size[0], thread / size[0] % size[1],
                              thread / (size[0] * size[1])};
      const uint32_t values[] = {tid[s.component],
                                 size[s.component],
                                 group_.id[s.component],
                                 c.grid[s.component],
                                 l,
                                 number_,
                                 warps(),
                                 bit,
                                 bit - 1,
                                 bit - 1 + bit,
                                 ~(bit - 1 + bit),
                                 ~(bit - 1),
                                 group_.id[s.component] / c.dims[s.component],
                                 c.grid[s.component] / c.dims[s.component],
                                 group_.id[s.component] % c.dims[s.component],
                                 c.dims[s.component],
                                 group_.rank,
                                 static_cast<uint32_t>(c.groups.size()),
                                 entry_.cluster[0] != 0};
      to(s.slot)[l] = values[static_cast<size_t>(s.which)];
    }
  }
}

void Warp::start() {
  fill_constants();
  local_.assign(size_t{entry_.local_bytes} * kLanes, std::byte{0xA5});
  for (auto& c : copies_) c.assign(1, {});
  for (auto& c : bulk_) c.assign(1, {});
  bulk_components_.fill(0);
  bulk_groups_.fill(0);
  if (entry_.multiplies) busy_.start(entry_.slots);
  registers_of_thread_ = group_.registers_at_start;
  fragments_.assign(1, {0, present_, false, false, ""});
  state_ = State::Ready;
  exited_ = cluster_phase_ = awaited_ = 0;
  now_ = 1;
  gives_way_ = again_ = false;
  steps_ = 0;
}

void Warp::fail(const Instruction& i, const std::string& what) {
  if (failed()) return;
  const auto& id = group_.id;
  group_.cluster.problem =
      fault(i.line, entry_.name + ": " + what + " (workgroup " + std::to_string(id[0]) + ", " +
                        std::to_string(id[1]) + ", " + std::to_string(id[2]) + ", warp " +
                        std::to_string(number_) + ")");
}

void Warp::wait_at_barrier(uint32_t id) {
  barrier_ = id;
  state_ = State::AtBarrier;
}

void Warp::leave_barrier(const View& told) {
  hear(present_, told);
  state_ = State::Ready;
  ++fragments_[0].at;
}

std::string Warp::waits_for() const {
  std::string text;
  for (const Fragment& f : fragments_) {
    std::string why = f.why;
    if (state_ == State::AtBarrier) why = "barrier " + std::to_string(barrier_);
    if (why.empty()) why = "other lanes";
    text += (text.empty() ? "" : ", ") + ("warp " + std::to_string(number_)) +
            (group_.cluster.is_one_group() ? "" : " of rank " + std::to_string(group_.rank)) +
            " at line " + std::to_string(entry_.code[f.at].line) + " for " + why;
  }
  return text;
}

void Warp::give_way(bool again, const std::string& why) {
  gives_way_ = true;
  again_ = again;
  why_ = why;
}

/// After an instruction; moves on unless it is to be executed again.
bool Warp::gave_way(Fragment& f) {
  const bool gives_way = gives_way_;
  if (!gives_way || !again_) ++f.at;
  f.polls = gives_way;
  if (gives_way) f.why = why_;
  gives_way_ = again_ = false;
  return gives_way;
}

/// Joins fragments that are at the same instruction.
bool Warp::merge(size_t index) {
  for (size_t n = 0; n < fragments_.size(); ++n) {
    if (n == index || fragments_[n].at != fragments_[index].at) continue;
    fragments_[n].mask |= fragments_[index].mask;
    fragments_[n].waits = false;
    fragments_.erase(fragments_.begin() + static_cast<ptrdiff_t>(index));
    return true;
  }
  return false;
}

/// The lanes that are furthest behind in the text, of those that can go on; none is the number of
/// fragments.
size_t Warp::next_fragment() const {
  size_t first = fragments_.size();
  for (size_t n = 0; n < fragments_.size(); ++n) {
    if (fragments_[n].waits || fragments_[n].polls) continue;
    if (first == fragments_.size() || fragments_[n].at < fragments_[first].at) first = n;
  }
  return first;
}

/// The lanes that are furthest behind in the text go first, so that they catch up with the others.
void Warp::run() {
  for (Fragment& f : fragments_) f.polls = false;
  while (!failed() && state_ == State::Ready) {
    if (fragments_.empty()) {
      end();
      return;
    }
    const size_t first = next_fragment();
    if (first == fragments_.size()) {
      const bool polls = std::any_of(fragments_.begin(), fragments_.end(),
                                     [](const Fragment& f) { return f.polls; });
      if (!polls) stuck();
      return;
    }
    uint32_t limit = ~0U;
    for (size_t n = 0; n < fragments_.size(); ++n) {
      if (n != first && fragments_[n].at > fragments_[first].at)
        limit = std::min(limit, fragments_[n].at);
    }
    step_lanes(first, limit);
  }
}

void Warp::end() {
  state_ = State::Done;
  group_.cluster.leave(*this);
  const uint32_t line = group_.leave();
  if (line == 0) return;
  Instruction i;
  i.line = line;
  fail(i,
       "another workgroup of the cluster accesses its shared memory, and nothing says that it "
       "has not ended by then");
}

void Warp::stuck() {
  std::string lines;
  for (const Fragment& f : fragments_)
    lines += (lines.empty() ? "" : ", ") + std::to_string(entry_.code[f.at].line);
  fail(entry_.code[fragments_[0].at], "lanes wait for others that do not come, at lines " + lines);
}

/// Executes until the fragment changes its lanes, waits, or reaches instruction `limit`.
void Warp::step_lanes(size_t index, uint32_t limit) {
  while (!failed()) {
    Fragment& f = fragments_[index];
    if (f.at == limit) {
      merge(index);
      return;
    }
    const Instruction& i = entry_.code[f.at];
    uint32_t mask = f.mask;
    if (++steps_ > kMostSteps) return fail(i, "a warp that does not end");
    if (i.guard != Instruction::kNone) {
      if ((defined_[i.guard] & mask) != mask) return fail(i, "a guard without a value");
      const uint64_t* p = from(i.guard);
      uint32_t set = 0;
      for_lanes(mask, [&](uint32_t l) { set |= static_cast<uint32_t>(p[l] & 1) << l; });
      mask &= i.unless ? ~set : set;
    }
    if (i.flow == Flow::Plain || (mask == 0 && i.flow != Flow::Branch)) {
      if (mask != 0) execute(i, mask);
      if (gave_way(f)) return;
      continue;
    }
    if (i.flow == Flow::Branch) {
      const bool together = fragments_.size() == 1 && mask == f.mask;
      branch(index, i, mask);
      if (mask != 0 && !together) return;
      continue;
    }
    if (i.flow == Flow::Exit) {
      leave(i, mask);
      f.mask &= ~mask;
      ++f.at;
      if (f.mask == 0) fragments_.erase(fragments_.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    if (!meet(index, i, mask)) return;
  }
}

void Warp::branch(size_t index, const Instruction& i, uint32_t taken) {
  Fragment& f = fragments_[index];
  const uint32_t rest = f.mask & ~taken;
  ++f.at;
  if (taken == 0) return;
  if (rest == 0) {
    f.at = i.target;
    merge(index);
    return;
  }
  f.mask = rest;
  fragments_.push_back({i.target, taken, false, false, ""});
  merge(fragments_.size() - 1);
}

/// At an instruction that lanes execute together: false if some are to come, or the warp waits.
bool Warp::meet(size_t index, const Instruction& i, uint32_t mask) {
  Fragment& f = fragments_[index];
  if (i.flow == Flow::Named) {
    const uint64_t* named = from(i.from[i.member]);
    uint32_t ready = 0;
    bool wait = false;
    for_lanes(mask, [&](uint32_t l) {
      const auto members = static_cast<uint32_t>(named[l]);
      if ((members >> l & 1) == 0) fail(i, "a lane that its own mask does not name");
      if ((members & exited_) != 0) fail(i, "its mask names lanes that have ended");
      if ((members & ~present_) != 0 && members != kAll) fail(i, "its mask names missing lanes");
      if ((members & present_ & ~mask) != 0)
        wait = true;
      else
        ready |= 1U << l;
    });
    if (failed()) return false;
    if (wait) {
      f.waits = true;
      return false;
    }
    execute(i, ready);
    return !gave_way(f);
  }
  const uint32_t all = present_ & ~exited_;
  if (mask != all) {
    if (mask != f.mask) fail(i, "only some lanes of a warp execute it");
    f.waits = true;
    return false;
  }
  if (exited_ != 0) {
    fail(i, "lanes have ended that it waits for");
    return false;
  }
  if (i.flow == Flow::Aligned && present_ != kAll) {
    fail(i, "a warp that is not whole");
    return false;
  }
  execute(i, mask);
  if (state_ == State::AtBarrier) return false;
  return !gave_way(f);
}

void Warp::leave(const Instruction& i, uint32_t mask) {
  exited_ |= mask;
  if (group_.cluster.early && (mask & ~awaited_) != 0)
    fail(i, "a thread ends before it awaits the launches before its own");
  for_lanes(mask, [&](uint32_t l) {
    for (const auto& group : bulk_[l])
      if (!group.empty()) fail(i, "a thread ends before its bulk copies have read shared memory");
  });
  if (exited_ == present_ && busy_.any()) fail(i, "a warp ends before its wgmma is awaited");
}

bool Warp::check_defined(const Instruction& i, uint32_t mask) {
  for (const uint32_t s : i.from) {
    if (s == Instruction::kNone || (defined_[s] & mask) == mask) continue;
    fail(i, "an operand without a value");
    return false;
  }
  return true;
}

void Warp::execute(const Instruction& i, uint32_t mask) {
  if (!i.takes_undefined && !check_defined(i, mask)) return;
  if (entry_.multiplies && !i.multiplies) {
    if (const char* wrong = busy_.access(i); wrong != nullptr) return fail(i, wrong);
  }
  if (i.run != nullptr) i.run(*this, i, mask);
  for (const uint32_t s : i.to)
    if (s != Instruction::kNone) defined_[s] |= mask;
}

std::byte* Warp::global(const Instruction& i, uint64_t address, uint32_t bytes, bool writes) {
  const std::vector<std::byte>& data = group_.cluster.program->data;
  if (address >= kDataWindow && address - kDataWindow < data.size()) {
    if (address - kDataWindow + bytes <= data.size() && !writes)
      return const_cast<std::byte*>(data.data()) + (address - kDataWindow);
  }
  if (group_.cluster.early && (present_ & ~exited_ & ~awaited_) != 0) {
    fail(i, "an access to global memory before griddepcontrol.wait");
    return nullptr;
  }
  for (const Buffer& b : group_.cluster.buffers) {
    if (address < b.address || address - b.address >= b.bytes.size()) continue;
    if (address - b.address + bytes <= b.bytes.size())
      return b.bytes.data() + (address - b.address);
  }
  const Buffer* nearest = nullptr;
  for (const Buffer& b : group_.cluster.buffers) {
    const auto distance = [&](const Buffer& x) {
      return std::abs(static_cast<int64_t>(address - x.address));
    };
    if (nearest == nullptr || distance(b) < distance(*nearest)) nearest = &b;
  }
  fail(i, "an access to " + std::to_string(bytes) + " bytes outside of all buffers" +
              (nearest == nullptr
                   ? ""
                   : ", " + std::to_string(static_cast<int64_t>(address - nearest->address)) +
                         " bytes from the start of buffer " +
                         std::to_string(nearest - group_.cluster.buffers.data()) + ", which has " +
                         std::to_string(nearest->bytes.size())));
  return nullptr;
}

void Warp::transfer(const Instruction& i, Copy& c) {
  std::byte* to = group_.shared.at(c.to);
  std::fill_n(to, c.bytes, std::byte{0});
  if (c.taken > 0) {
    const std::byte* from = global(i, c.from, c.taken, false);
    if (from == nullptr) return;
    std::copy_n(from, c.taken, to);
  }
  c.done = true;
}

void Warp::complete(const Instruction& i, Copy& c, uint32_t lane) {
  if (c.awaited) return;
  c.awaited = true;
  if (!c.done) transfer(i, c);
  group_.shared.expect(c.to, c.bytes, false);
  access(i, Space::Shared, c.to, c.bytes, lane, true);
}

Access Warp::by(uint32_t lane) const {
  Access a;
  a.warp = component();
  a.lanes = 1U << lane;
  a.stamp = {static_cast<uint16_t>(a.warp), a.lanes, now_};
  a.view = &group_.views[kLanes * number_ + lane];
  return a;
}

void Warp::count(const Instruction& i, Mover m, uint32_t mask, size_t which, uint32_t bytes) {
  Counters* c = group_.cluster.options.counters;
  if (c == nullptr || mask == 0) return;
  const uint64_t* base = from(i.from[which]);
  Counters::Addresses at{};
  for_lanes(mask, [&](uint32_t l) { at[l] = base[l] + static_cast<uint64_t>(i.offset[which]); });
  const uint64_t first = at[static_cast<size_t>(std::countr_zero(mask))];
  const bool copies = m == Mover::Copy;  // from global memory, operand 1
  const bool shared = copies ? which == 0
                             : m == Mover::Blocks || i.space == Space::Shared ||
                                   i.space == Space::Cluster ||
                                   (first >= kSharedWindow && first < kLocalWindow);
  if (shared)
    c->shared(m, mask, at, bytes);
  else if (copies || i.space == Space::Global || (i.space == Space::Generic && first < kDataWindow))
    c->global(mask, at, bytes);
}

View Warp::tell(uint32_t mask) {
  View told;
  for_lanes(mask, [&](uint32_t l) {
    told.join(view(l));
    if (mask != present_) told.seen.raise_lane(component(), l, now_ + 1);
  });
  if (mask == present_)
    told.seen.raise(component(), now_ + 1);
  else
    told.seen.tidy(component(), present_);
  told.fenced.tidy(component(), present_);
  ++now_;
  return told;
}

void Warp::hear(uint32_t mask, const View& told) {
  for_lanes(mask, [&](uint32_t l) { view(l).join(told); });
}

View Warp::ran() const {
  View all;
  for_lanes(present_, [&](uint32_t l) { all.join(group_.views[kLanes * number_ + l]); });
  all.seen.raise(component(), now_ + 1);
  return all.relaxed();
}

void Warp::fence_async(uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    View& v = view(l);
    v.fenced.join(v.seen);
    v.fenced.raise_lane(component(), l, now_ + 1);
  });
  ++now_;
}

uint16_t Warp::bulk_component(uint32_t lane) {
  if (bulk_components_[lane] == 0) bulk_components_[lane] = group_.cluster.new_component();
  return bulk_components_[lane];
}

std::byte* Warp::access(const Instruction& i, const Access& a, const SharedPlace& at,
                        uint32_t bytes) {
  if (at.group == nullptr) return nullptr;
  const std::string wrong = at.group->shared.check(at.offset, bytes, a);
  if (!wrong.empty()) fail(i, wrong);
  if (at.group != &group_) at.group->touched(a.stamp, i.line);
  return wrong.empty() ? at.group->shared.at(at.offset) : nullptr;
}

SharedPlace Warp::place(const Instruction& i, Space space, uint64_t address, uint32_t lane) {
  if (address >= kSharedWindow && address < kLocalWindow) address -= kSharedWindow;
  const uint64_t which = address >> kRankShift;
  const auto& groups = group_.cluster.groups;
  // What lies beyond the cluster's memory lies beyond the workgroup's own.
  if (which == 0 || which > groups.size()) return {&group_, address};
  Group& other = *groups[which - 1];
  if (&other != &group_ && space == Space::Shared) {
    fail(i, "an address in the shared memory of another workgroup, without .shared::cluster");
    return {};
  }
  if (!may_reach(i, other, lane)) return {};
  return {&other, address & ((uint64_t{1} << kRankShift) - 1)};
}

bool Warp::may_reach(const Instruction& i, const Group& g, uint32_t lane) {
  if (&g == &group_) return true;
  if (g.ended)
    fail(i, "an access to the shared memory of a workgroup that has ended");
  else if (!view(lane).knows(g.begun))
    fail(i,
         "an access to the shared memory of a workgroup that may not have begun: no barrier of "
         "the cluster lies before");
  return !failed();
}

std::byte* Warp::access(const Instruction& i, Space space, uint64_t address, uint32_t bytes,
                        uint32_t lane, bool writes, bool atomic) {
  if (space == Space::Generic) {
    space = address >= kParamWindow    ? Space::Param
            : address >= kLocalWindow  ? Space::Local
            : address >= kSharedWindow ? Space::Cluster
                                       : Space::Global;
  }
  if (space == Space::Shared || space == Space::Cluster) {
    Access a = by(lane);
    a.writes = writes;
    a.atomic = atomic;
    return access(i, a, place(i, space, address, lane), bytes);
  }
  if (address % bytes != 0) {
    fail(i, "an address that is not aligned to " + std::to_string(bytes) + " bytes");
    return nullptr;
  }
  if (space == Space::Global) return global(i, address, bytes, writes);
  const bool param = space == Space::Param && address >= kParamWindow;
  const uint64_t offset = address - (param ? kParamWindow : kLocalWindow);
  const uint64_t size = param ? group_.cluster.params.size() : entry_.local_bytes;
  if (offset > size || bytes > size - offset || (param && writes)) {
    fail(i, "an access outside of parameters or of a thread's own memory");
    return nullptr;
  }
  return param ? const_cast<std::byte*>(group_.cluster.params.data()) + offset
               : local_.data() + size_t{lane} * entry_.local_bytes + offset;
}

}  // namespace reprise::test::ptx
