// 32 lanes that execute a program, and what they share.
#pragma once

#include <array>
#include <bit>
#include <deque>
#include <functional>
#include <memory>

#include "tests/ptx/machine/cluster.h"

namespace reprise::test::ptx {

/// Registers that asynchronous multiplications use, from their issue until they are awaited.
class BusyRegisters {
 public:
  void start(uint32_t slots) {
    group_.assign(slots, 0);
    touched_.assign(slots, 0);
    busy_ = fences_ = 0;
  }
  /// What is wrong with an instruction that is no multiplication; a move of a busy register makes
  /// another busy one, as compilers may give a value a new name at any place.
  const char* access(const Instruction& i);
  /// wgmma.fence: earlier accesses come before the multiplications that follow.
  void fence() { ++fences_; }
  /// A multiplication of `group` uses them; `shape` distinguishes sums that may follow each other.
  const char* use(std::span<const uint32_t> slots, uint32_t group, const Instruction& i);
  /// Those up to a group are awaited.
  void release(uint32_t group);
  bool any() const { return busy_ != 0; }

 private:
  std::vector<uint32_t> group_, touched_;       // by slot
  std::vector<const Instruction*> multiplier_;  // by slot; sized at the first use
  uint32_t busy_ = 0, fences_ = 0;
};

/// Where an address of shared memory lies; no group after a failure.
struct SharedPlace {
  Group* group = nullptr;
  uint64_t offset = 0;
};

/// A copy from shared memory to global memory of a bulk group.
struct BulkCopy {
  std::function<void()> land;
  bool done = false;
};

class Warp {
 public:
  static constexpr uint32_t kLanes = 32, kAll = ~0U;
  enum class State : uint8_t { Ready, AtBarrier, Done };

  Warp(Group& group, const Entry& entry, uint32_t number);

  /// Before each workgroup.
  void start();
  /// Executes until the warp waits for the workgroup or for something asynchronous, ends, or the
  /// group has a problem.
  void run();
  State state() const { return state_; }
  uint32_t lanes() const { return present_; }
  uint32_t number() const { return number_; }
  /// Of its clock.
  uint32_t component() const { return group_.rank * warps() + number_; }
  uint32_t warps() const { return group_.warps(); }
  /// Lanes that have awaited the launches before this one.
  uint32_t& awaited() { return awaited_; }
  /// The phase of the cluster's barrier at which it arrived and which it did not await, from 1.
  uint32_t& cluster_phase() { return cluster_phase_; }
  void leave_barrier(const View& told);
  /// Where it waits, and for what; for people.
  std::string waits_for() const;
  uint32_t line() const { return fragments_.empty() ? 0 : entry_.code[fragments_[0].at].line; }

  // For the handlers of instructions.
  uint64_t* to(uint32_t slot) { return &registers_[size_t{slot} * kLanes]; }
  const uint64_t* from(uint32_t slot) const { return &registers_[size_t{slot} * kLanes]; }
  Group& group() { return group_; }
  Cluster& cluster() { return group_.cluster; }
  /// The launch ends with this problem.
  void fail(const Instruction& i, const std::string& what);
  /// The failure that an instruction has just had is none.
  void forgive() { group_.cluster.problem = {}; }
  bool failed() const { return !group_.cluster.problem.ok(); }
  /// Bytes that a lane may access; null after a failure. `space` says what the address means.
  std::byte* access(const Instruction& i, Space space, uint64_t address, uint32_t bytes,
                    uint32_t lane, bool writes, bool atomic = false);
  std::byte* access(const Instruction& i, const Access& a, const SharedPlace& at, uint32_t bytes);
  /// Of shared memory that the lane may access: its own, or that of another workgroup of the
  /// cluster that it knows to run.
  SharedPlace place(const Instruction& i, Space space, uint64_t address, uint32_t lane);
  bool may_reach(const Instruction& i, const Group& g, uint32_t lane);
  /// An access of a lane by one of the two proxies; a copy stamps it as its own.
  Access by(uint32_t lane) const;
  /// Counts an access of the lanes of a mask, whose addresses are i.from[which] and an offset, if
  /// anybody asks.
  void count(const Instruction& i, Mover m, uint32_t mask, size_t which, uint32_t bytes);
  View& view(uint32_t lane) { return group_.views[kLanes * number_ + lane]; }
  /// What lanes tell others of what they and those before them did; what they hear.
  View tell(uint32_t mask);
  void hear(uint32_t mask, const View& told);
  /// Lanes of a warp that have met.
  void synchronize(uint32_t mask) { hear(mask, tell(mask)); }
  /// That what its lanes did is over.
  View ran() const;
  void fence_async(uint32_t mask);
  std::deque<std::vector<std::shared_ptr<Copy>>>& copies(uint32_t lane) { return copies_[lane]; }
  std::deque<std::vector<std::shared_ptr<BulkCopy>>>& bulk(uint32_t lane) { return bulk_[lane]; }
  uint16_t bulk_component(uint32_t lane);
  /// Groups that a lane has committed; the time of its component.
  uint32_t& bulk_groups(uint32_t lane) { return bulk_groups_[lane]; }
  Team& team() { return group_.teams[number_ / 4]; }
  BusyRegisters& busy() { return busy_; }
  uint32_t& registers_of_thread() { return registers_of_thread_; }
  bool defined(uint32_t slot) const { return defined_[slot] == kAll; }
  const Entry& entry() const { return entry_; }

  /// The lanes go on after others had their turn; with `again`, at this instruction.
  void give_way(bool again, const std::string& why);
  void wait_at_barrier(uint32_t id);
  /// Bytes of the device's memory; null after a failure.
  std::byte* global_bytes(const Instruction& i, uint64_t address, uint32_t bytes,
                          bool writes = false) {
    return global(i, address, bytes, writes);
  }
  /// A copy takes place, and is awaited by the lane that issued it.
  void transfer(const Instruction& i, Copy& c);
  void complete(const Instruction& i, Copy& c, uint32_t lane);

 private:
  struct Fragment {  // lanes that are at one instruction
    uint32_t at = 0, mask = 0;
    bool waits = false, polls = false;
    std::string why;  // of a fragment that polls
  };
  void fill_constants();
  size_t next_fragment() const;
  void leave(const Instruction& i, uint32_t mask);
  bool gave_way(Fragment& f);
  bool merge(size_t index);
  void step_lanes(size_t index, uint32_t limit);
  bool check_defined(const Instruction& i, uint32_t mask);
  void execute(const Instruction& i, uint32_t mask);
  void branch(size_t index, const Instruction& i, uint32_t taken);
  bool meet(size_t index, const Instruction& i, uint32_t mask);
  void end();
  void stuck();
  std::byte* global(const Instruction& i, uint64_t address, uint32_t bytes, bool writes);

  Group& group_;
  const Entry& entry_;
  uint32_t number_, present_ = 0;
  std::vector<uint64_t> registers_;
  std::vector<uint32_t> defined_;  // by slot, the lanes that have a value
  std::vector<std::byte> local_;
  // Groups; the last is not committed.
  std::array<std::deque<std::vector<std::shared_ptr<Copy>>>, kLanes> copies_;
  std::array<std::deque<std::vector<std::shared_ptr<BulkCopy>>>, kLanes> bulk_;
  std::array<uint16_t, kLanes> bulk_components_{};
  std::array<uint32_t, kLanes> bulk_groups_{};
  BusyRegisters busy_;
  std::vector<Fragment> fragments_;
  State state_ = State::Done;
  uint32_t barrier_ = 0, now_ = 1, exited_ = 0, registers_of_thread_ = 0, cluster_phase_ = 0;
  uint32_t awaited_ = 0;
  bool gives_way_ = false, again_ = false;
  std::string why_;
  uint64_t steps_ = 0;  // instructions of this workgroup
};

/// The mbarrier at a place, if the lane may know that it exists; null after a failure.
Signal* known_signal(Warp& w, const Instruction& i, uint32_t lane, const SharedPlace& at);

/// Bytes that are to land in the shared memory of a workgroup, and count at one of its mbarriers
/// then.
struct Delivery {
  Group* to = nullptr;
  uint64_t signal = 0;
  std::vector<std::pair<uint64_t, uint32_t>> blocks;  // of shared memory, and their bytes
  bool async_proxy = false;
  std::function<void(Group& to)> land;

  uint32_t bytes() const {
    uint32_t n = 0;
    for (const auto& [at, size] : blocks) n += size;
    return n;
  }
};
void deliver(Warp& w, const Instruction& i, uint32_t lane, Delivery d);

/// Calls fn(lane) for the lanes of a mask.
template <typename F>
void for_lanes(uint32_t mask, F&& fn) {
  if (mask == Warp::kAll) {
    for (uint32_t l = 0; l < Warp::kLanes; ++l) fn(l);
  } else {
    for (; mask != 0; mask &= mask - 1) fn(static_cast<uint32_t>(std::countr_zero(mask)));
  }
}

}  // namespace reprise::test::ptx
