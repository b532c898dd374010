#include "tests/ptx/machine/clocks.h"

#include <algorithm>
#include <bit>

namespace reprise::test::ptx {

uint32_t Clock::lane_time(uint32_t thread) const {
  const auto at = std::lower_bound(lanes_.begin(), lanes_.end(), thread,
                                   [](const Lane& l, uint32_t t) { return l.thread < t; });
  return at != lanes_.end() && at->thread == thread ? at->time : 0;
}

bool Clock::knows(const Stamp& s) const {
  if (known(s.component) > s.time) return true;
  if (s.lanes == 0 || lanes_.empty()) return false;
  for (uint32_t rest = s.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (lane_time(32U * s.component + lane) <= s.time) return false;
  }
  return true;
}

void Clock::raise(uint32_t component, uint32_t time) {
  if (component >= known_.size()) known_.resize(component + 1);
  known_[component] = std::max(known_[component], time);
  std::erase_if(lanes_, [&](const Lane& l) {
    return l.thread / 32 == component && l.time <= known_[component];
  });
}

void Clock::raise_lane(uint32_t warp, uint32_t lane, uint32_t time) {
  if (known(warp) >= time) return;
  const uint32_t thread = 32 * warp + lane;
  const auto at = std::lower_bound(lanes_.begin(), lanes_.end(), thread,
                                   [](const Lane& l, uint32_t t) { return l.thread < t; });
  if (at != lanes_.end() && at->thread == thread)
    at->time = std::max(at->time, time);
  else
    lanes_.insert(at, {thread, time});
}

void Clock::join(const Clock& other) {
  if (known_.size() < other.known_.size()) known_.resize(other.known_.size());
  for (size_t n = 0; n < other.known_.size(); ++n) known_[n] = std::max(known_[n], other.known_[n]);
  for (const Lane& l : other.lanes_) raise_lane(l.thread / 32, l.thread % 32, l.time);
  std::erase_if(lanes_, [&](const Lane& l) { return l.time <= known(l.thread / 32); });
}

void Clock::meet(const Clock& other) {
  const auto least_of_lanes = [&](Lane& l) {
    const uint32_t theirs = std::max(other.lane_time(l.thread), other.known(l.thread / 32));
    l.time = std::min(l.time, theirs);
  };
  // What the other knows of a warp as a whole, this one may know of its lanes.
  std::vector<Lane> lanes = lanes_;
  for (Lane& l : lanes) least_of_lanes(l);
  for (const Lane& l : other.lanes_) {
    const uint32_t time = std::min(l.time, std::max(lane_time(l.thread), known(l.thread / 32)));
    if (lane_time(l.thread) == 0) lanes.push_back({l.thread, time});
  }
  for (size_t n = 0; n < known_.size(); ++n)
    known_[n] = std::min(known_[n], other.known(static_cast<uint32_t>(n)));
  lanes_.clear();
  for (const Lane& l : lanes) raise_lane(l.thread / 32, l.thread % 32, l.time);
}

void Clock::tidy(uint32_t warp, uint32_t mask) {
  uint32_t least = ~0U;
  for (uint32_t rest = mask; rest != 0 && least > known(warp); rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    least = std::min(least, std::max(known(warp), lane_time(32 * warp + lane)));
  }
  if (least != ~0U && least > known(warp)) raise(warp, least);
}

}  // namespace reprise::test::ptx
