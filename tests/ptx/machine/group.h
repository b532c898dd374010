// What the lanes of a workgroup share.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/ptx/machine/memory.h"
#include "tests/ptx/machine/signals.h"

namespace reprise::test::ptx {

class Warp;
class Cluster;

/// A barrier of bar.sync and bar.arrive.
struct Barrier {
  uint32_t expected = 0, arrived = 0;  // threads; 0 while nobody has come
  View collected;                      // of those who came
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

/// A workgroup that runs.
struct Group {
  static constexpr uint32_t kBarriers = 16;

  explicit Group(Cluster& all) : cluster(all) {}

  Cluster& cluster;
  uint32_t rank = 0;  // in the cluster
  SharedMemory shared;
  Signals signals;
  uint32_t threads = 0;
  std::array<uint32_t, 3> id{};

  std::vector<View> views;  // of threads
  std::array<Barrier, kBarriers> barriers;
  std::vector<Team> teams;
  uint32_t registers_at_start = 0;  // of a thread; 0: not known
  uint64_t free_registers = 0;      // that setmaxnreg.dec gave back
  /// When it began, which others must know before they access its shared memory, and whether all
  /// of its threads have ended.
  Stamp begun;
  bool ended = false;

  uint32_t warps() const { return (threads + 31) / 32; }
  void start(uint32_t shared_bytes);
  /// A warp comes to a barrier of so many threads (0: all). Says what is wrong, or nothing.
  std::string arrive(Warp& w, uint32_t which, uint32_t count, bool waits);
  /// Lets those go on whose barrier is complete.
  void release();

  /// Another workgroup accesses its shared memory.
  void touched(const Stamp& by, uint32_t line);
  /// A warp has ended. The line of an access of another workgroup that may be later than the end
  /// of this one; 0 if there is none.
  uint32_t leave();

 private:
  struct Touch {
    uint32_t time, line;
  };
  std::map<std::pair<uint16_t, uint32_t>, Touch> touches_;  // the last, by component and lanes
  uint32_t left_ = 0;                                       // warps that have ended
  std::vector<std::pair<Warp*, std::shared_ptr<const View>>> released_;
};

}  // namespace reprise::test::ptx
