// 32 lanes that execute a program, and what they share.
#pragma once

#include <array>
#include <bit>
#include <deque>
#include <functional>
#include <random>

#include "tests/ptx/machine/memory.h"

namespace reprise::test::ptx {

/// When a copy that has been issued takes place. It is awaited either way.
enum class Completion : uint8_t { Early, Late, Random };

struct Options {
  Completion copies = Completion::Random;
  uint64_t seed = 1;  // of copies, and of the order of warps
};

/// What the lanes of a workgroup share. One workgroup at a time.
struct Group {
  std::span<const std::byte> params;
  std::span<const Buffer> buffers;
  const Program* program = nullptr;
  SharedMemory shared;
  uint32_t threads = 0, epoch = 0;
  std::array<uint32_t, 3> grid{}, size{}, id{};
  Options options;
  std::mt19937_64 random;
  Status problem;
};

class Warp {
 public:
  static constexpr uint32_t kLanes = 32, kAll = ~0U;
  enum class State : uint8_t { Ready, AtBarrier, Done };

  Warp(Group& group, const Entry& entry, uint32_t number);

  /// Before each workgroup.
  void start();
  /// Executes until the warp waits for the workgroup, ends, or the group has a problem.
  void run();
  State state() const { return state_; }
  uint32_t barrier() const { return barrier_; }
  uint32_t lanes() const { return present_; }
  uint32_t barrier_line() const;
  void leave_barrier();

  // For the handlers of instructions.
  uint64_t* to(uint32_t slot) { return &registers_[size_t{slot} * kLanes]; }
  const uint64_t* from(uint32_t slot) const { return &registers_[size_t{slot} * kLanes]; }
  Group& group() { return group_; }
  /// The launch ends with this problem.
  void fail(const Instruction& i, const std::string& what);
  /// The failure that an instruction has just had is none.
  void forgive() { group_.problem = {}; }
  bool failed() const { return !group_.problem.ok(); }
  /// Bytes that a lane may access; null after a failure. `space` says what the address means.
  std::byte* access(const Instruction& i, Space space, uint64_t address, uint32_t bytes,
                    uint32_t lane, bool writes, bool atomic = false);
  Access by(uint32_t lane) const { return {32 * number_ + lane, number_, group_.epoch, epoch_}; }
  void synchronize() { ++epoch_; }
  std::deque<std::vector<Copy>>& copies(uint32_t lane) { return copies_[lane]; }
  /// Bytes of the device's memory; null after a failure.
  const std::byte* global_bytes(const Instruction& i, uint64_t address, uint32_t bytes);
  /// A copy takes place, and is awaited by the lane that issued it.
  void transfer(const Instruction& i, Copy& c);
  void complete(const Instruction& i, Copy& c, uint32_t lane);

 private:
  struct Fragment {  // lanes that are at one instruction
    uint32_t at = 0, mask = 0;
    bool waits = false;
  };
  void fill_constants();
  bool merge(size_t index);
  void step_lanes(size_t index, uint32_t limit);
  bool check_defined(const Instruction& i, uint32_t mask);
  void execute(const Instruction& i, uint32_t mask);
  void branch(size_t index, const Instruction& i, uint32_t taken);
  bool meet(size_t index, const Instruction& i, uint32_t mask);
  void stuck();
  std::byte* global(const Instruction& i, uint64_t address, uint32_t bytes, bool writes);

  Group& group_;
  const Entry& entry_;
  uint32_t number_, present_ = 0;
  std::vector<uint64_t> registers_;
  std::vector<uint32_t> defined_;  // by slot, the lanes that have a value
  std::vector<std::byte> local_;
  std::array<std::deque<std::vector<Copy>>, kLanes> copies_;  // groups; the last is not committed
  std::vector<Fragment> fragments_;
  State state_ = State::Done;
  uint32_t barrier_ = 0, epoch_ = 0, barrier_at_ = 0, exited_ = 0;
  uint64_t steps_ = 0;  // instructions of this workgroup
};

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
