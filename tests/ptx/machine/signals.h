// mbarriers: phases, arrivals that are to come, bytes that are to come, and what a completed phase
// tells those who await it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/ptx/machine/clocks.h"

namespace reprise::test::ptx {

struct Signal {
  static constexpr int64_t kMost = (1 << 20) - 1;  // of each count
  uint16_t component = 0;                          // of clocks; its time is the phase
  int64_t expected = 0, pending = 0, bytes = 0;
  uint32_t phase = 0;
  bool observed = true;       // somebody has seen that the phase before is complete
  Stamp made, fenced;         // by fence.mbarrier_init
  View collected, completed;  // of those who arrived in this phase, and in the one before
  /// The same of other workgroups of the cluster. Waits of a narrower scope learn of reads only.
  View far_collected, far_completed;

  std::string text(uint64_t offset) const;
};

/// Those of a workgroup, by their offset in shared memory. The functions say what is wrong, or
/// nothing.
class Signals {
 public:
  void reset() { signals_.clear(); }
  std::string init(uint64_t offset, int64_t count, uint16_t component, const Stamp& by);
  std::string invalidate(uint64_t offset) {
    return signals_.erase(offset) == 0 ? kNone : std::string();
  }
  Signal* find(uint64_t offset);
  const std::map<uint64_t, Signal>& all() const { return signals_; }
  std::map<uint64_t, Signal>& all() { return signals_; }

  static std::string expect(Signal& s, int64_t bytes);
  static std::string complete(Signal& s, int64_t bytes);
  /// `told`: null where the arrival releases nothing; `far`: by another workgroup.
  static std::string arrive(Signal& s, int64_t count, const View* told, bool far = false);
  static constexpr const char* kNone = "an mbarrier that was not initialised";

 private:
  static std::string advance(Signal& s);
  std::map<uint64_t, Signal> signals_;
};

}  // namespace reprise::test::ptx
