#include "codegen/probes/probe_samples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/random.h"

namespace reprise {
namespace {

using plan::Probe;

constexpr size_t kSamples = 16;       // of each buffer
constexpr size_t kEdges = 32;         // the most samples at the edges of workgroups
constexpr size_t kFurtherUnits = 2;   // units with samples other than those at edges
constexpr size_t kFurtherStores = 2;  // likewise, stores of expensive kernels
// A tolerance is this many times the difference that rounding made between interpretations.
constexpr double kSpreads = 4;

/// The error that a correct element may have: two units in the last place of its dtype, plus the
/// smallest normal number, as results below it may be flushed.
double rounding_of(double v, DType dtype) {
  const bool half = dtype == DType::F16;
  const bool wide = dtype == DType::F64;
  const int digits = half ? 10 : dtype == DType::BF16 ? 7 : wide ? 52 : 23;
  const double smallest = half ? 0x1p-14 : wide ? 0x1p-1022 : 0x1p-126;
  if (!std::isfinite(v)) return smallest;
  return std::ldexp(2.0, std::ilogb(std::max(std::fabs(v), smallest)) - digits) + smallest;
}

/// The difference that rounding made to each sample of parameter `i`. Negative if a result is
/// finite in one interpretation and not in another.
std::vector<double> spreads_of(DType dtype, size_t i, const ProbeOutcome& best,
                               const std::vector<ProbeOutcome>& others) {
  std::vector<double> out;
  for (size_t n = 0; n < best.at[i].size(); ++n) {
    const double v = plan::real_of(dtype, best.bits[i][n]);
    double spread = 0;
    for (const ProbeOutcome& o : others) {
      const double w = plan::real_of(dtype, o.bits[i][n]);
      const bool same = w == v || (std::isnan(w) && std::isnan(v));
      if (same || spread < 0) continue;
      spread = std::isfinite(v) && std::isfinite(w) ? std::max(spread, std::fabs(w - v)) : -1;
    }
    out.push_back(spread);
  }
  return out;
}

/// The median of those values that are not negative.
double median_of(std::vector<double> list) {
  std::erase_if(list, [](double v) { return v < 0; });
  if (list.empty()) return 0;
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
  std::nth_element(list.begin(), middle, list.end());
  return *middle;
}

void add_floats(DType dtype, size_t i, const ProbeOutcome& best,
                const std::vector<ProbeOutcome>& others, Probe::Samples& s) {
  const std::vector<double> spreads = spreads_of(dtype, i, best, others);
  // The errors of a single element may have cancelled by chance, so the median counts as well.
  const double usual = median_of(spreads);
  double largest = 0;
  for (const uint64_t bits : best.bits[i]) {
    const double v = std::fabs(plan::real_of(dtype, bits));
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  for (size_t n = 0; n < best.at[i].size(); ++n) {
    const double v = plan::real_of(dtype, best.bits[i][n]);
    const double allowed = kSpreads * std::max(spreads[n], usual);
    const double tolerance = allowed + rounding_of(v, dtype);
    // With a tolerance above an eighth of the largest result, wrong results are hard to tell from
    // right ones. The sign of an infinity may come from that of a zero, which is not specified.
    if (spreads[n] < 0 || allowed > largest / 8 || std::isinf(v)) continue;
    if (!std::isfinite(tolerance)) continue;
    const bool wide =
        dtype == DType::F64;  // other values and their tolerances are stored as floats
    s.at.push_back(best.at[i][n]);
    s.values.push_back(wide ? v : static_cast<float>(v));
    s.tolerance.push_back(wide ? tolerance : static_cast<float>(tolerance));
  }
}

/// Adds integers, which must be exact. Those that depend on rounding are left out.
void add_integers(DType dtype, size_t i, const ProbeOutcome& best,
                  const std::vector<ProbeOutcome>& others, Probe::Samples& s) {
  for (size_t n = 0; n < best.at[i].size(); ++n) {
    const bool same = std::all_of(others.begin(), others.end(), [&](const ProbeOutcome& o) {
      return o.bits[i][n] == best.bits[i][n];
    });
    if (!same) continue;
    s.at.push_back(best.at[i][n]);
    s.exact.push_back(plan::integer_of(dtype, best.bits[i][n]));
  }
}

}  // namespace

// Takes the first and the last element of each workgroup, and others at irregular distances: a
// driver that is wrong is often wrong in one lane, or at an edge.
std::vector<ProbeMemory::Written> choose_samples(const std::vector<ProbeMemory::Written>& all,
                                                 uint32_t unit, bool expensive) {
  using Written = ProbeMemory::Written;
  std::vector<Written> out;
  if (all.empty()) return out;
  const auto take = [&](const Written& w) {
    const auto same = [&](const Written& o) { return o.element == w.element; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(w);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = i == 0 || all[i - 1].workgroup != all[i].workgroup;
    const bool last = i + 1 == all.size() || all[i + 1].workgroup != all[i].workgroup;
    if ((first || last) && out.size() < kEdges) take(all[i]);
  }
  uint64_t state = all.size();
  std::set<uint32_t> units;
  std::set<kernel::StoreOf> stores;
  for (const Written& w : out) {
    units.insert(w.invocation / unit);
    stores.insert(w.store);
  }
  for (size_t i = 0; unit > 1 && i < kFurtherUnits; ++i)
    units.insert(all[splitmix64(state) % all.size()].invocation / unit);
  for (size_t i = 0; expensive && i < kFurtherStores; ++i)
    stores.insert(all[splitmix64(state) % all.size()].store);
  std::vector<Written> others;
  for (const Written& w : all) {
    if (unit > 1 && !units.contains(w.invocation / unit)) continue;
    if (expensive && !stores.contains(w.store)) continue;
    others.push_back(w);
  }
  for (size_t tries = 0; out.size() < kSamples && tries < 4 * kSamples; ++tries)
    take(others[splitmix64(state) % others.size()]);
  std::sort(out.begin(), out.end(),
            [](const Written& a, const Written& b) { return a.element < b.element; });
  return out;
}

std::pair<size_t, size_t> count_finite(const std::vector<ProbeMemory::Parameter>& parameters,
                                       const ProbeOutcome& outcome) {
  size_t finite = 0, all = 0;
  for (size_t i = 0; i < outcome.bits.size(); ++i) {
    const DType dtype = parameters[i].dtype;
    for (const uint64_t bits : outcome.bits[i]) {
      ++all;
      finite += !is_float(dtype) || std::isfinite(plan::real_of(dtype, bits)) ? 1 : 0;
    }
  }
  return {finite, all};
}

Status add_samples(const std::vector<ProbeMemory::Parameter>& parameters, const ProbeOutcome& best,
                   const std::vector<ProbeOutcome>& others, Probe& probe) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (best.at[i].empty()) continue;
    Probe::Samples s;
    s.buffer = static_cast<uint32_t>(i);
    if (is_float(parameters[i].dtype)) {
      add_floats(parameters[i].dtype, i, best, others, s);
    } else {
      add_integers(parameters[i].dtype, i, best, others, s);
    }
    if (!s.at.empty()) probe.samples.push_back(std::move(s));
  }
  if (!probe.samples.empty()) return {};
  return unsupported("no result on seeded inputs is defined precisely enough");
}

}  // namespace reprise
