// Chooses ranges of sizes, one plan for each, from the sizes of recorded runs.
//
// A run is taken to cost as much as the largest size of its range, as if it were padded. A plan
// that serves its range without padding costs at most that. The choice is optimal for these costs:
// dynamic programming over the recorded sizes, in O(count * sizes * log(sizes)) steps, because the
// cost of a range satisfies the quadrangle inequality (F. F. Yao, "Efficient dynamic programming
// using quadrangle inequalities", 1980).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/buckets/trace.h"

namespace reprise::app {

/// What a run of a size costs.
struct SizeCost {
  int64_t size = 0;
  double ms = 0;
  double bytes = 0;  // of a plan for sizes up to this one, apart from what all plans share
};

/// Costs of all sizes, from some that were measured: linear in between, constant below the
/// smallest, and beyond the largest as the last two continue. They never fall with the size.
class CostCurve {
 public:
  /// At least one point; sorted by size.
  explicit CostCurve(std::vector<SizeCost> points);
  double ms(int64_t size) const { return at(size, &SizeCost::ms); }
  double bytes(int64_t size) const { return at(size, &SizeCost::bytes); }

 private:
  double at(int64_t size, double SizeCost::*what) const;
  std::vector<SizeCost> points_;
};

struct SizeRange {
  int64_t first = 1;
  int64_t last = 1;
  int64_t runs = 0;  // of the trace, whose sizes are in the range
};

/// Ranges that cover a trace, and what they cost.
struct Ranges {
  std::vector<SizeRange> ranges;  // ascending; each begins where the one before it ends
  double expected_ms = 0;         // of a run
  double waste = 0;               // the share of the time that runs of their own sizes do not need
  double padding = 0;             // the share of rows that are padding, if every run is padded
  double bytes = 0;               // of all plans, apart from what they share
};

/// What the ranges that end at these sizes cost. `ends` is ascending, and its last size covers the
/// trace. Ranges without runs are kept.
Ranges price(const Trace& trace, const std::vector<int64_t>& ends, const CostCurve& costs);

/// The cheapest at most `count` ranges whose plans need at most `bytes`, if that is given. An
/// InvalidInput error if even one range needs more.
Result<Ranges> choose_ranges(const Trace& trace, int64_t count, std::optional<double> bytes,
                             const CostCurve& costs);

/// A list of sizes for which an engine records graphs by default.
struct FixedList {
  std::string name;
  std::vector<int64_t> sizes;
};
/// The lists of SGLang and vLLM for the numbers of rows of a step, and the powers of two, each up
/// to the first size that covers `largest`. Beyond the end of a list, a last size covers it.
std::vector<FixedList> fixed_lists(int64_t largest);

}  // namespace reprise::app
