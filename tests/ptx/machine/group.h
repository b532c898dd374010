// What the lanes of a workgroup share.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/ptx/machine/counters.h"
#include "tests/ptx/machine/memory.h"
#include "tests/ptx/machine/signals.h"

namespace reprise::test::ptx {

class Warp;

/// When a copy that has been issued takes place. It is awaited either way.
enum class Completion : uint8_t { Early, Late, Random };

struct Options {
  Completion copies = Completion::Random;
  uint64_t seed = 1;  // of copies, and of the order of warps
  Counters* counters = nullptr;
};

/// A barrier of bar.sync and bar.arrive, or the one of the cluster.
struct Barrier {
  uint32_t expected = 0, arrived = 0;  // threads; 0 while nobody has come
  uint32_t phase = 0;
  View collected, completed;  // of those who came, now and in the phase before
  std::vector<Warp*> waiting;
};

/// A warpgroup, which executes wgmma and setmaxnreg together. Its warps come to them one after
/// another; each compares what it executes with what the first one did.
struct Team {
  struct Step {
    const Instruction* instruction;
    std::vector<uint64_t> operands;  // that must be the same in all warps
  };
  uint16_t component = 0;  // of its reads of shared memory; the time is the number of a group
  std::vector<Step> steps;
  std::array<size_t, 4> at{};  // by warp: steps that it has executed
  /// Groups that a warp has committed.
  std::array<uint32_t, 4> committed{};

  /// A warp executes the next instruction of the warpgroup. Says what is wrong, or nothing.
  std::string step(const Warp& w, const Instruction& i, const std::vector<uint64_t>& operands);
};

/// One workgroup at a time.
struct Group {
  static constexpr uint32_t kBarriers = 17, kClusterBarrier = 16;

  std::span<const std::byte> params;
  std::span<const Buffer> buffers;
  const Program* program = nullptr;
  SharedMemory shared;
  Signals signals;
  uint32_t threads = 0;
  bool early =
      false;  // griddepcontrol.wait comes before accesses to global memory, and before the end
  std::array<uint32_t, 3> grid{}, size{}, id{};
  Options options;
  std::mt19937_64 random;
  Status problem;

  std::vector<View> views;  // of threads
  std::array<Barrier, kBarriers> barriers;
  std::vector<Team> teams;
  uint32_t registers_at_start = 0;  // of a thread; 0: not known
  uint64_t free_registers = 0;      // that setmaxnreg.dec gave back
  uint16_t components = 0;
  uint64_t activity = 0;  // grows with everything that may let a warp go on

  void start(uint32_t shared_bytes);
  uint16_t new_component() { return components++; }
  /// A warp comes to a barrier of so many threads (0: all). Says what is wrong, or nothing.
  std::string arrive(Warp& w, uint32_t which, uint32_t count, bool waits);
  /// Lets those go on whose barrier is complete.
  void release();

  // What happens later than it was issued.
  void later(std::function<void()> event);
  bool has_events() const { return !events_.empty(); }
  /// Some of them, at random; or one, which nobody can do without any more.
  void some_events();
  void one_event();

 private:
  std::vector<std::function<void()>> events_;
  std::vector<std::pair<Warp*, std::shared_ptr<const View>>> released_;
};

}  // namespace reprise::test::ptx
