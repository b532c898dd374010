// Chooses among measured schedules.
#include <algorithm>

#include "codegen/autotune/autotune.h"

namespace reprise {

namespace {

constexpr double kClearlyFaster = 0.97;  // fraction of the default's time that a choice must beat

}  // namespace

std::string select(std::vector<CandidateTime>& candidates) {
  if (candidates.empty()) return {};
  const CandidateTime first = candidates.front();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const CandidateTime& a, const CandidateTime& b) {
                     return a.rejected != b.rejected ? b.rejected : a.us < b.us;
                   });
  const CandidateTime& best = candidates.front();
  const bool better = first.rejected || best.us < kClearlyFaster * first.us;
  return best.rejected || !better ? first.schedule : best.schedule;
}

}  // namespace reprise
