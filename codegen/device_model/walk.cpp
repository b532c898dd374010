#include "codegen/device_model/walk.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>

#include "codegen/device_model/lanes.h"

namespace reprise::device_model {

namespace {

/// A time with global memory in the L2 cache, and without.
struct Clock {
  double near = 0, far = 0;
};
Clock later(const Clock& a, const Clock& b) {
  return {std::max(a.near, b.near), std::max(a.far, b.far)};
}
Clock operator+(const Clock& a, double clocks) {
  return {a.near + clocks, a.far + clocks};
}

/// Sectors of global memory that a workgroup has read.
class Seen {
 public:
  /// How many of them are new.
  uint32_t add(const Sectors& sectors) {
    uint32_t added = 0;
    for (uint32_t n = 0; n < sectors.count; ++n) {
      uint64_t& bits = lines_[sectors.sector[n] / 64];
      const uint64_t bit = uint64_t{1} << sectors.sector[n] % 64;
      added += (bits & bit) == 0 ? 1 : 0;
      bits |= bit;
    }
    return added;
  }

 private:
  std::unordered_map<uint64_t, uint64_t> lines_;
};

/// For each instruction, the least number of instructions from it to the end.
std::vector<uint32_t> distances_to_end(const std::vector<Instruction>& code) {
  constexpr uint32_t kFar = std::numeric_limits<uint32_t>::max() / 2;
  std::vector<uint32_t> out(code.size() + 1, kFar);
  out.back() = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = code.size(); n-- > 0;) {
      const Instruction& i = code[n];
      uint32_t best = i.kind == Kind::Exit ? 0 : kFar;
      if (i.kind == Kind::Branch) best = std::min(best, out[i.target]);
      const bool ends = (i.kind == Kind::Branch || i.kind == Kind::Exit) && i.unconditional;
      if (!ends) best = std::min(best, out[n + 1]);
      if (best + 1 >= out[n]) continue;
      out[n] = best + 1;
      changed = true;
    }
  }
  return out;
}

uint32_t first_of(uint32_t mask) {
  return static_cast<uint32_t>(std::countr_zero(mask));
}

/// The value that all lanes of `mask` have, if it is known.
std::optional<uint64_t> common_value(const Lanes& lanes, uint32_t mask) {
  if (mask == 0 || (lanes.known & mask) != mask) return {};
  const uint64_t first = lanes[first_of(mask)];
  for (uint32_t lane = 0; lane < kLanes && !lanes.uniform; ++lane)
    if ((mask >> lane & 1) != 0 && lanes[lane] != first) return {};
  return first;
}

/// One warp on its way.
class Warp {
 public:
  Warp(const Program& program, const Start& start, const Latencies& latencies, Seen& seen,
       Work& work)
      : p_(program), start_(start), latency_(latencies), seen_(seen), work_(work) {
    registers_.resize(p_.slots);
    ready_.resize(p_.slots);
    for (const auto& c : p_.constants) registers_[c.slot] = Lanes::of(c.value);
  }

  void place(uint32_t warp, std::span<const uint32_t> distances);
  /// False if there were more than `steps` left.
  bool run(uint64_t& steps);
  Clock end() const { return later(floor_, last_); }

 private:
  struct Lot {  // lanes that stand at one instruction
    uint32_t at, mask;
  };
  struct Group {  // of asynchronous copies or products
    Clock ends;
  };

  uint32_t slot(uint32_t n) const { return p_.operands[n]; }
  const Lanes& operand(const Instruction& i, uint32_t n) const {
    return registers_[slot(i.first_operand + n)];
  }
  void set_special(const Program::SpecialSlot& s, uint32_t warp);
  void step(const Instruction& i, uint32_t mask);
  void jump(const Instruction& i, uint32_t at, uint32_t mask);
  void advance(uint32_t at, uint32_t mask);
  std::optional<uint32_t> guarded(const Instruction& i, uint32_t mask) const;

  void compute(const Instruction& i, uint32_t mask);
  void move(const Instruction& i, uint32_t mask);
  void write(uint32_t slot, const Lanes& value, uint32_t mask);
  void forget(const Instruction& i, uint32_t mask);
  bool load_of_block(const Instruction& i, uint32_t mask);

  void count(const Instruction& i);
  void access(const Instruction& i, uint32_t mask);
  void access_global(const Instruction& i, const Lanes& address, int64_t offset, uint32_t mask);
  void access_copy(const Instruction& i, uint32_t mask);
  void schedule(const Instruction& i);
  double latency_of(const Instruction& i) const;
  void wait(const Instruction& i);
  void end_block();

  const Program& p_;
  const Start& start_;
  const Latencies& latency_;
  Seen& seen_;
  Work& work_;
  std::span<const uint32_t> distances_;
  std::vector<Lanes> registers_;
  std::vector<Clock> ready_;
  std::vector<Lot> lots_;  // sorted by place, the first one last
  Clock floor_, last_;     // the start of the block, and its last instruction so far
  double block_slots_ = 0, block_special_ = 0, block_products_ = 0;
  bool from_memory_ = false;                  // the last access was of global memory
  std::array<std::vector<Clock>, 2> groups_;  // committed: copies, products
  std::array<Clock, 2> open_{};               // of what is not committed yet
};

void Warp::set_special(const Program::SpecialSlot& s, uint32_t warp) {
  Lanes& r = registers_[s.slot];
  const auto uniform = [&](uint64_t v) { r = Lanes::of(v); };
  switch (s.which) {
    case Special::Threads:
      return uniform(start_.workgroup[s.dimension]);
    case Special::Group:
      return uniform(start_.grid[s.dimension] / 2);
    case Special::Groups:
      return uniform(start_.grid[s.dimension]);
    case Special::Warp:
      return uniform(warp);
    case Special::Lane:
    case Special::Thread:
      break;
  }
  r = Lanes::of(0);
  r.spread();
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = warp * kLanes + lane;
    const auto& size = start_.workgroup;
    const std::array<uint32_t, 3> at{thread % size[0], thread / size[0] % size[1],
                                     thread / size[0] / size[1]};
    r.value[lane] = s.which == Special::Lane ? lane : at[s.dimension];
  }
}

void Warp::place(uint32_t warp, std::span<const uint32_t> distances) {
  distances_ = distances;
  for (const auto& s : p_.specials) set_special(s, warp);
  const uint32_t threads = start_.workgroup[0] * start_.workgroup[1] * start_.workgroup[2];
  const uint32_t lanes = std::min(kLanes, threads - warp * kLanes);
  lots_ = {{0, lanes == kLanes ? kAllLanes : (1U << lanes) - 1}};
}

/// The lanes for which a guard holds; nothing if data decide.
std::optional<uint32_t> Warp::guarded(const Instruction& i, uint32_t mask) const {
  if (i.guard == Instruction::kNone) return mask;
  const Lanes& guard = registers_[i.guard];
  if ((guard.known & mask) != mask) return {};
  uint32_t holds = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    holds |= ((guard[lane] & 1) != 0) != i.unless ? 1U << lane : 0;
  return holds & mask;
}

/// Puts lanes at an instruction, where they join those that stand there.
void Warp::advance(uint32_t at, uint32_t mask) {
  if (mask == 0 || at >= p_.code.size()) return;
  const auto lot = std::ranges::find_if(lots_, [&](const Lot& l) { return l.at <= at; });
  if (lot != lots_.end() && lot->at == at) {
    lot->mask |= mask;
  } else {
    lots_.insert(lot, {at, mask});
  }
}

bool Warp::run(uint64_t& steps) {
  while (!lots_.empty()) {
    if (steps == 0) return false;
    --steps;
    const Lot lot = lots_.back();
    lots_.pop_back();
    const Instruction& i = p_.code[lot.at];
    if (i.kind == Kind::Branch || i.kind == Kind::Exit) {
      jump(i, lot.at, lot.mask);
      continue;
    }
    step(i, lot.mask);
    advance(lot.at + 1, lot.mask);
  }
  end_block();
  return true;
}

void Warp::jump(const Instruction& i, uint32_t at, uint32_t mask) {
  count(i);
  schedule(i);
  end_block();
  const std::optional<uint32_t> taken = guarded(i, mask);
  uint32_t going = 0;
  if (taken) {
    going = *taken;
  } else {
    work_.guessed = true;
    const uint32_t there = i.kind == Kind::Exit ? 0 : distances_[i.target];
    going = there < distances_[at + 1] ? mask : 0;
  }
  if (i.kind == Kind::Branch) advance(i.target, going);
  advance(at + 1, mask & ~going);
}

void Warp::step(const Instruction& i, uint32_t mask) {
  count(i);
  const uint32_t active = guarded(i, mask).value_or(mask);
  from_memory_ = false;
  if (active != 0) access(i, active);
  schedule(i);
  if (i.kind == Kind::Barrier) {
    ++work_.barriers;
    end_block();
    floor_ = floor_ + latency_.barrier;
  }
  if (active == 0) return;
  compute(i, active);
}

void Warp::write(uint32_t slot, const Lanes& value, uint32_t mask) {
  Lanes& r = registers_[slot];
  if ((r.known & ~mask) == 0) {  // no other lane has a value
    r = value;
    r.known &= mask;
    return;
  }
  const bool same = r.uniform && value.uniform && r.value[0] == value.value[0];
  if (!same) {
    r.spread();
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      if ((mask >> lane & 1) != 0) r.value[lane] = value[lane];
  }
  r.known = (r.known & ~mask) | (value.known & mask);
}

void Warp::forget(const Instruction& i, uint32_t mask) {
  for (uint32_t n = 0; n < i.results; ++n) registers_[slot(i.first_result + n)].known &= ~mask;
}

/// Moves of vectors: words to one register, or a register to its words.
void Warp::move(const Instruction& i, uint32_t mask) {
  const uint32_t parts = std::max(i.results, i.operands);
  const uint32_t bits = i.type.bits / parts;
  for (uint32_t n = 0; n < i.results; ++n) {
    Lanes out;
    out.known = kAllLanes;
    out.uniform = false;
    for (uint32_t k = 0; k < i.operands; ++k) {
      const Lanes& from = operand(i, k);
      out.known &= from.known;
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const uint64_t word = i.results > 1 ? from[lane] >> (n * bits) : from[lane] << (k * bits);
        out.value[lane] |= i.results > 1 ? word & ((uint64_t{1} << bits) - 1) : word;
      }
    }
    write(slot(i.first_result + n), out, mask);
  }
}

/// Reads a word of the parameter block.
bool Warp::load_of_block(const Instruction& i, uint32_t mask) {
  if (i.operands == 0 || i.results != 1) return false;
  const std::optional<uint64_t> address = common_value(operand(i, 0), mask);
  if (!address) return false;
  const uint64_t at = *address + static_cast<uint64_t>(i.offset) - kBlockAddress;
  const size_t bytes = i.type.bits / 8U;
  if (*address < kBlockAddress || at + bytes > start_.block.size() || bytes > 8) return false;
  uint64_t value = 0;
  std::memcpy(&value, start_.block.data() + at, bytes);
  write(slot(i.first_result), Lanes::of(value), mask);
  return true;
}

void Warp::compute(const Instruction& i, uint32_t mask) {
  if (i.results == 0) return;
  const bool loads = i.kind == Kind::Parameter || i.kind == Kind::Load;
  if (loads && load_of_block(i, mask)) return;
  if (i.operation == Operation::Elect) {
    Lanes first = Lanes::of(0);
    first.spread();
    first.value[static_cast<size_t>(std::countr_zero(mask))] = 1;
    return write(slot(i.first_result + i.results - 1), first, mask);
  }
  if (i.operation == Operation::Unknown) return forget(i, mask);
  if (i.operation == Operation::Move && i.results + i.operands > 2) return move(i, mask);
  std::array<uint64_t, 4> x{};
  Lanes out;
  out.known = kAllLanes;
  const uint32_t operands = i.operation == Operation::True ? 0 : std::min(i.operands, 4U);
  for (uint32_t n = 0; n < operands; ++n) {
    out.known &= operand(i, n).known;
    out.uniform = out.uniform && operand(i, n).uniform;
  }
  for (uint32_t lane = 0; lane < (out.uniform ? 1 : kLanes); ++lane) {
    for (uint32_t n = 0; n < operands; ++n) x[n] = operand(i, n)[lane];
    out.value[lane] = computed(i, x);
  }
  write(slot(i.first_result), out, mask);
  if (i.results < 2) return;
  for (uint64_t& v : out.value) v ^= 1;
  write(slot(i.first_result + 1), out, mask);
}

void Warp::count(const Instruction& i) {
  work_.instructions += i.slots;
  block_slots_ += i.slots;
  switch (i.kind) {
    case Kind::Integer:
      work_.integer += i.slots;
      break;
    case Kind::Conversion:
      work_.conversion += i.slots;
      break;
    case Kind::Double:
      work_.doubles += i.slots;
      break;
    case Kind::Special:
      ++work_.special;
      ++block_special_;
      break;
    case Kind::Matrix:
      work_.products += i.products;
      block_products_ += i.products;
      break;
    case Kind::WarpgroupMatrix:
      work_.warpgroup_products += i.products / 4;
      break;
    default:
      break;
  }
}

/// Counts global memory that is accessed.
void Warp::access_global(const Instruction& i, const Lanes& address, int64_t offset,
                         uint32_t mask) {
  from_memory_ = true;
  if ((address.known & mask) != mask) {  // as if each lane had a sector of its own
    work_.guessed = true;
    work_.global_lines += std::popcount(mask);
    work_.sectors += std::popcount(mask);
    return;
  }
  if (address[first_of(mask)] >=
      kBlockAddress) {  // tables and parameters are in caches of their own
    from_memory_ = false;
    return;
  }
  const Sectors sectors = sectors_of(address, offset, i.bytes, mask);
  uint64_t line = ~uint64_t{0};
  for (uint32_t n = 0; n < sectors.count; ++n) {
    work_.global_lines += sectors.sector[n] / 4 != line ? 1 : 0;
    line = sectors.sector[n] / 4;
  }
  work_.sectors += i.kind == Kind::Store ? sectors.count : seen_.add(sectors);
}

/// A copy from global memory, which the second address is of. It passes L1 once.
void Warp::access_copy(const Instruction& i, uint32_t mask) {
  const double lines = work_.global_lines;
  access_global(i, operand(i, 1), 0, mask);
  work_.global_lines = lines;
  const Lanes& to = operand(i, 0);
  work_.shared_passes +=
      (to.known & mask) == mask ? passes_of(to, 0, i.bytes, mask) : i.bytes / 4.0;
}

void Warp::access(const Instruction& i, uint32_t mask) {
  if (i.kind == Kind::BulkBytes && i.operands > 0) {
    if (const auto bytes = common_value(operand(i, i.operands - 1), mask))
      work_.bulk_bytes += static_cast<double>(*bytes);
    return;
  }
  const bool touches = i.kind == Kind::Load || i.kind == Kind::Store ||
                       i.kind == Kind::MatrixLoad || i.kind == Kind::Copy;
  if (!touches || i.operands == 0 || i.space == Space::Constant) return;
  if (i.space == Space::Local) {
    work_.global_lines += i.bytes / 4.0;  // interleaved: whole lines
    return;
  }
  if (i.kind == Kind::Copy) return access_copy(i, mask);
  const Lanes& address = operand(i, 0);
  if (i.kind == Kind::MatrixLoad) {  // each row of 16 bytes by one lane
    const uint32_t rows = i.bytes * 2;
    const uint32_t lanes = rows >= kLanes ? kAllLanes : (1U << rows) - 1;
    work_.shared_passes +=
        address.is_known() ? passes_of(address, i.offset, 16, lanes) : i.bytes / 4.0;
    return;
  }
  const bool known = (address.known & mask) == mask;
  const bool shared = i.space == Space::Shared || (i.space == Space::Generic && known &&
                                                   address[first_of(mask)] < kSharedLimit);
  if (!shared) return access_global(i, address, i.offset, mask);
  work_.shared_passes +=
      known ? passes_of(address, i.offset, i.bytes, mask) : std::max(1.0, i.bytes / 4.0);
}

double Warp::latency_of(const Instruction& i) const {
  switch (i.kind) {
    case Kind::Conversion:
      return latency_.conversion;
    case Kind::Special:
      return latency_.special;
    case Kind::Exchange:
      return latency_.exchange;
    case Kind::Matrix:
      return latency_.matrix;
    case Kind::MatrixLoad:
      return latency_.matrix_load;
    case Kind::Load:
      return latency_.shared;
    case Kind::Parameter:
      return 0;
    default:
      return i.slots == 0 ? 0 : latency_.arithmetic * std::max(1.0, i.slots);
  }
}

/// Until at most so many groups are under way.
void Warp::wait(const Instruction& i) {
  auto& groups = groups_[i.of_matrices ? 1 : 0];
  const size_t left =
      i.operands > 0 && operand(i, 0).is_known() ? static_cast<size_t>(operand(i, 0)[0]) : 0;
  if (groups.size() <= left) return;
  floor_ = later(floor_, groups[groups.size() - 1 - left]);
  groups.erase(groups.begin(), groups.end() - static_cast<ptrdiff_t>(left));
}

/// Within a block without branches and barriers an instruction begins when its operands are ready:
/// the device's compiler orders them so. The next block begins after all of them have begun.
void Warp::schedule(const Instruction& i) {
  Clock begin = floor_;
  if (i.guard != Instruction::kNone) begin = later(begin, ready_[i.guard]);
  for (uint32_t n = 0; n < i.operands; ++n) begin = later(begin, ready_[slot(i.first_operand + n)]);
  last_ = later(last_, begin);
  Clock end = begin + latency_of(i);
  if (from_memory_) end = {begin.near + latency_.cache, begin.far + latency_.memory};
  for (uint32_t n = 0; n < i.results; ++n) ready_[slot(i.first_result + n)] = end;
  const size_t which = i.of_matrices ? 1 : 0;
  if (i.kind == Kind::Copy) open_[0] = later(open_[0], end);
  if (i.kind == Kind::WarpgroupMatrix)
    open_[1] = later(open_[1], begin) + i.products / 4 / 1024 * 2;
  if (i.kind == Kind::Commit) {
    groups_[which].push_back(later(open_[which], floor_));
    open_[which] = {};
  }
  if (i.kind == Kind::Wait) {
    end_block();
    wait(i);
  }
}

/// A warp issues one instruction a clock, and its own share of the slower units.
void Warp::end_block() {
  constexpr double kSpecial = 8, kProducts = 512;  // clocks of one; of fp16 in a clock
  const double busy =
      std::max({block_slots_, block_special_ * kSpecial, block_products_ / kProducts});
  floor_ = later(later(floor_, last_), floor_ + busy);
  last_ = floor_;
  block_slots_ = block_special_ = block_products_ = 0;
}

}  // namespace

Result<Work> walk(const Program& program, const Start& start, const Latencies& latencies,
                  uint64_t most_steps) {
  Work work;
  Seen seen;
  const std::vector<uint32_t> distances = distances_to_end(program.code);
  const uint32_t threads = start.workgroup[0] * start.workgroup[1] * start.workgroup[2];
  const uint32_t warps = (threads + kLanes - 1) / kLanes;
  work.warps = warps;
  for (uint32_t n = 0; n < warps; ++n) {
    Warp warp(program, start, latencies, seen, work);
    warp.place(n, distances);
    if (!warp.run(most_steps))
      return unsupported("the kernel '" + program.name + "' is too long for the device model");
    work.near_chain = std::max(work.near_chain, warp.end().near);
    work.far_chain = std::max(work.far_chain, warp.end().far);
  }
  work.barriers /= std::max(1U, warps);
  return work;
}

}  // namespace reprise::device_model
