#include "tests/ptx/machine/signals.h"

#include <utility>

namespace reprise::test::ptx {

std::string Signal::text(uint64_t offset) const {
  return "the mbarrier at " + std::to_string(offset) + " (phase " + std::to_string(phase) + ": " +
         std::to_string(pending) + " of " + std::to_string(expected) + " arrivals and " +
         std::to_string(bytes) + " bytes are to come)";
}

std::string Signals::init(uint64_t offset, int64_t count, uint16_t component, const Stamp& by) {
  if (count < 1 || count > Signal::kMost)
    return "an mbarrier of " + std::to_string(count) + " arrivals";
  Signal s;
  s.component = component;
  s.expected = s.pending = count;
  s.made = by;
  if (!signals_.emplace(offset, std::move(s)).second)
    return "the initialisation of an mbarrier that is in use";
  return "";
}

Signal* Signals::find(uint64_t offset) {
  const auto at = signals_.find(offset);
  return at == signals_.end() ? nullptr : &at->second;
}

std::string Signals::advance(Signal& s) {
  if (s.pending != 0 || s.bytes != 0) return "";
  if (s.expected == 0) return "an mbarrier that everybody has dropped";
  ++s.phase;
  s.pending = s.expected;
  s.observed = false;
  s.completed = std::exchange(s.collected, {});
  s.far_completed = std::exchange(s.far_collected, {});
  s.completed.seen.raise(s.component, s.phase);
  return "";
}

std::string Signals::expect(Signal& s, int64_t bytes) {
  s.bytes += bytes;
  if (bytes < 0 || s.bytes > Signal::kMost) return "an mbarrier that expects too many bytes";
  return "";
}

std::string Signals::complete(Signal& s, int64_t bytes) {
  s.bytes -= bytes;
  if (s.bytes < -Signal::kMost) return "an mbarrier with too many bytes";
  return advance(s);
}

std::string Signals::arrive(Signal& s, int64_t count, const View* told, bool far) {
  if (count < 1 || count > Signal::kMost) return "an arrival that counts " + std::to_string(count);
  if (count > s.pending)
    return "one arrival more than the mbarrier expects in a phase (" + std::to_string(s.expected) +
           ")";
  if (!s.observed) return "an arrival before anybody awaited the phase before";
  s.pending -= count;
  if (told != nullptr) (far ? s.far_collected : s.collected).join(*told);
  return advance(s);
}

}  // namespace reprise::test::ptx
