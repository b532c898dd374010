#include "apps/buckets/ranges.h"

#include <algorithm>
#include <limits>

namespace reprise::app {

CostCurve::CostCurve(std::vector<SizeCost> points) : points_(std::move(points)) {
  for (size_t i = 1; i < points_.size(); ++i) {
    points_[i].ms = std::max(points_[i].ms, points_[i - 1].ms);
    points_[i].bytes = std::max(points_[i].bytes, points_[i - 1].bytes);
  }
}

double CostCurve::at(int64_t size, double SizeCost::*what) const {
  const auto above = std::find_if(points_.begin(), points_.end(),
                                  [&](const SizeCost& p) { return p.size >= size; });
  if (above == points_.begin()) return points_.front().*what;
  if (above == points_.end() && points_.size() == 1) return points_.back().*what;
  const SizeCost& b = above == points_.end() ? points_.back() : *above;
  const SizeCost& a = above == points_.end() ? points_[points_.size() - 2] : *(above - 1);
  const double share = static_cast<double>(size - a.size) / static_cast<double>(b.size - a.size);
  return a.*what + share * (b.*what - a.*what);
}

namespace {

/// Cuts the sizes of a trace into ranges by dynamic programming.
class Cutter {
 public:
  /// `price_of_byte` is added to the cost of a range for each byte of its plan.
  Cutter(const Trace& trace, const CostCurve& costs, double price_of_byte) : runs_before_{0} {
    runs_before_.reserve(trace.size() + 1);
    ms_.reserve(trace.size());
    plan_.reserve(trace.size());
    for (const SizeCount& s : trace) {
      runs_before_.push_back(runs_before_.back() + static_cast<double>(s.runs));
      ms_.push_back(costs.ms(s.size));
      plan_.push_back(price_of_byte * costs.bytes(s.size));
    }
  }

  /// The last sizes, as indices, of the best at most `count` ranges.
  std::vector<size_t> cut(size_t count) {
    const size_t n = ms_.size();
    count = std::min(count, n);
    std::vector<double> before(n + 1, kNever);
    before[0] = 0;
    std::vector<std::vector<size_t>> starts;
    starts.reserve(count);
    double best = kNever;
    size_t best_count = 0;
    for (size_t k = 0; k < count; ++k) {
      std::vector<double> after(n + 1, kNever);
      starts.emplace_back(n + 1, 0);
      fill(before, after, starts.back(), {1, n, 0, n - 1});
      before = std::move(after);
      if (before[n] >= best) continue;
      best = before[n];
      best_count = k + 1;
    }
    std::vector<size_t> ends;
    ends.reserve(best_count);
    for (size_t end = n, k = best_count; k > 0; --k) {
      ends.push_back(end - 1);
      end = starts[k - 1][end];
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Part {
    size_t first_end, last_end;      // inclusive
    size_t first_start, last_start;  // in which the best starts of these ends lie
  };

  /// The cost of a range of the sizes [start, end).
  double cost(size_t start, size_t end) const {
    return (runs_before_[end] - runs_before_[start]) * ms_[end - 1] + plan_[end - 1];
  }

  /// after[end] = min over start of before[start] + cost(start, end). The best start never falls
  /// when the end rises, so each half of the ends needs one part of the starts.
  void fill(const std::vector<double>& before, std::vector<double>& after,
            std::vector<size_t>& starts, const Part& all) const {
    std::vector<Part> parts{all};
    while (!parts.empty()) {
      const Part p = parts.back();
      parts.pop_back();
      const size_t end = p.first_end + (p.last_end - p.first_end) / 2;
      size_t best = p.first_start;
      for (size_t start = p.first_start; start <= std::min(p.last_start, end - 1); ++start) {
        const double total = before[start] + cost(start, end);
        if (total >= after[end]) continue;
        after[end] = total;
        best = start;
      }
      starts[end] = best;
      if (end > p.first_end) parts.push_back({p.first_end, end - 1, p.first_start, best});
      if (end < p.last_end) parts.push_back({end + 1, p.last_end, best, p.last_start});
    }
  }

  std::vector<double> runs_before_;
  std::vector<double> ms_;    // of a run of each size
  std::vector<double> plan_;  // what a plan up to each size adds
};

Ranges cut_ranges(const Trace& trace, int64_t count, double price_of_byte, const CostCurve& costs) {
  Cutter cutter(trace, costs, price_of_byte);
  const std::vector<size_t> cuts = cutter.cut(static_cast<size_t>(count));
  std::vector<int64_t> ends;
  ends.reserve(cuts.size());
  for (const size_t i : cuts) ends.push_back(trace[i].size);
  return price(trace, ends, costs);
}

/// The least price of a byte at which the ranges fit, by bisection.
Ranges fit(const Trace& trace, int64_t count, double bytes, const CostCurve& costs) {
  double runs = 0;
  for (const SizeCount& s : trace) runs += static_cast<double>(s.runs);
  const double smallest = std::max(1.0, costs.bytes(trace.front().size));
  double low = 0;
  double high = runs * costs.ms(trace.back().size) / smallest + 1;
  Ranges best = cut_ranges(trace, 1, 0, costs);
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    const Ranges found = cut_ranges(trace, count, middle, costs);
    if (found.bytes > bytes) {
      low = middle;
      continue;
    }
    high = middle;
    if (found.expected_ms < best.expected_ms) best = found;
  }
  return best;
}

void add_steps(std::vector<int64_t>& sizes, int64_t first, int64_t last, int64_t step) {
  for (int64_t size = first; size <= last; size += step) sizes.push_back(size);
}

}  // namespace

Ranges price(const Trace& trace, const std::vector<int64_t>& ends, const CostCurve& costs) {
  Ranges out;
  out.ranges.reserve(ends.size());
  double runs = 0, ms = 0, least_ms = 0, rows = 0, least_rows = 0;
  size_t at = 0;
  int64_t first = 1;
  for (const int64_t end : ends) {
    SizeRange range{first, end, 0};
    const double end_ms = costs.ms(end);
    for (; at < trace.size() && trace[at].size <= end; ++at) {
      const auto count = static_cast<double>(trace[at].runs);
      range.runs += trace[at].runs;
      runs += count;
      ms += count * end_ms;
      least_ms += count * costs.ms(trace[at].size);
      rows += count * static_cast<double>(end);
      least_rows += count * static_cast<double>(trace[at].size);
    }
    out.bytes += costs.bytes(end);
    out.ranges.push_back(range);
    first = end + 1;
  }
  if (runs > 0) out.expected_ms = ms / runs;
  if (ms > 0) out.waste = 1 - least_ms / ms;
  if (rows > 0) out.padding = 1 - least_rows / rows;
  return out;
}

Result<Ranges> choose_ranges(const Trace& trace, int64_t count, std::optional<double> bytes,
                             const CostCurve& costs) {
  const Ranges one = cut_ranges(trace, 1, 0, costs);
  if (bytes && one.bytes > *bytes) {
    return invalid_input("one plan for sizes up to " + std::to_string(trace.back().size) +
                         " needs " + std::to_string(static_cast<int64_t>(one.bytes)) +
                         " bytes beside the weights, but the limit is " +
                         std::to_string(static_cast<int64_t>(*bytes)) +
                         ": raise the limit, or leave out the largest sizes");
  }
  Ranges out = cut_ranges(trace, count, 0, costs);
  if (!bytes || out.bytes <= *bytes) return out;
  return fit(trace, count, *bytes, costs);
}

std::vector<FixedList> fixed_lists(int64_t largest) {
  std::vector<FixedList> out{
      {"SGLang", {1, 2, 4, 8, 12}}, {"vLLM", {1, 2, 4}}, {"powers of two", {}}};
  add_steps(out[0].sizes, 16, 256, 8);
  add_steps(out[0].sizes, 272, 496, 16);
  add_steps(out[0].sizes, 512, 512, 32);
  add_steps(out[1].sizes, 8, 248, 8);
  add_steps(out[1].sizes, 256, 512, 16);
  for (int64_t size = 1; size < 2 * largest; size *= 2) out[2].sizes.push_back(size);
  for (FixedList& list : out) {
    const auto covers = std::lower_bound(list.sizes.begin(), list.sizes.end(), largest);
    if (covers == list.sizes.end()) {
      list.sizes.push_back(largest);
    } else {
      list.sizes.erase(covers + 1, list.sizes.end());
    }
  }
  return out;
}

}  // namespace reprise::app
