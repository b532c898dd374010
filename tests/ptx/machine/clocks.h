// What a thread knows to have happened before what it does now.
#pragma once

#include <cstdint>
#include <vector>

namespace reprise::test::ptx {

/// When an access took place, and by whom: lanes of a warp, or something asynchronous. Each of
/// these is a component, with a time of its own that grows.
struct Stamp {
  static constexpr uint16_t kNobody = 0xFFFF;
  uint16_t component = kNobody;  // the warp's number; larger numbers are not warps
  uint32_t lanes = 0;            // of the warp; 0: all, or no warp
  uint32_t time = 0;
  bool somebody() const { return component != kNobody; }
};

/// A vector clock over components. Where only some lanes of a warp have told what they did, it has
/// a time for each of these.
class Clock {
 public:
  bool knows(const Stamp& s) const;
  void join(const Clock& other);
  /// Everything before `time` is known of a component, or of one lane.
  void raise(uint32_t component, uint32_t time);
  void raise_lane(uint32_t warp, uint32_t lane, uint32_t time);
  /// Only what the other knows as well.
  void meet(const Clock& other);
  /// The lanes of `mask` are all that a warp has.
  void tidy(uint32_t warp, uint32_t mask);

 private:
  struct Lane {
    uint32_t thread, time;
  };
  uint32_t known(uint32_t component) const {
    return component < known_.size() ? known_[component] : 0;
  }
  uint32_t lane_time(uint32_t thread) const;

  std::vector<uint32_t> known_;
  std::vector<Lane> lanes_;  // by thread, where known_ says less
};

/// `fenced`: what accesses of the async proxy may follow, since fence.proxy.async lies between.
/// `ran`: what is over besides `seen`, but may have left no value that can be relied upon, since
/// what lies between is relaxed.
/// `read`: whose reads are over besides `seen`. Their values are known, so no later write changes
/// them, but what these threads wrote need not be visible here.
struct View {
  Clock seen, fenced, ran, read;
  void join(const View& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
    ran.join(other.ran);
    read.join(other.read);
  }
  /// Whether an access is over.
  bool knows(const Stamp& s) const { return seen.knows(s) || ran.knows(s); }
  /// What is told of it by something relaxed.
  View relaxed() const {
    View out;
    out.ran = ran;
    out.ran.join(seen);
    return out;
  }
  /// What is told of it by an arrival or a wait whose scope is too narrow for those who meet there.
  /// An arrival with release semantics of any scope follows the reads before it, and a wait with
  /// acquire semantics precedes the writes after it. So these writes come after those reads. What
  /// was written before the arrival may be visible in the narrow scope only.
  View narrow() const {
    View out = relaxed();
    out.read = read;
    out.read.join(seen);
    return out;
  }
};

}  // namespace reprise::test::ptx
