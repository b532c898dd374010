#include "codegen/device_model/model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace reprise::device_model {

namespace {

constexpr double kWarp = 32;

/// Clocks of a multiprocessor for one workgroup.
double issue_clocks(const KernelFacts& k, const Device& d) {
  const Work& w = k.work;
  constexpr double kSchedulers = 4;
  return std::max({w.instructions * k.instruction_ratio / kSchedulers,
                   w.integer * k.instruction_ratio * kWarp / d.integer_lanes,
                   w.conversion * kWarp / d.conversion_lanes, w.doubles * kWarp / d.double_lanes});
}

double matrix_clocks(const Work& w, const Device& d) {
  return w.products / (d.products * d.warp_share) + w.warpgroup_products / d.products;
}

/// Terms that overlap: less than their sum, more than the largest.
double combined(const std::array<double, 7>& terms) {
  constexpr double kOverlap = 3;
  double sum = 0;
  for (const double t : terms) sum += std::pow(t, kOverlap);
  return std::pow(sum, 1 / kOverlap);
}

}  // namespace

Times predict(const KernelFacts& k, const Device& d) {
  const Work& w = k.work;
  constexpr double kSector = 32;
  const double ms_per_clock = 1e-6 / d.clock_ghz;
  const double busiest = std::ceil(k.groups / d.multiprocessors);
  const double busy = busiest * ms_per_clock;
  Times t;
  t.issue = issue_clocks(k, d) * busy;
  t.matrix = matrix_clocks(w, d) * busy;
  t.special = w.special * kWarp / d.special_lanes * busy;
  t.shared = (w.shared_passes + w.global_lines) * busy;
  const double l2_bytes = (w.sectors * kSector + w.bulk_bytes) * k.groups;
  t.l2 = l2_bytes / d.l2_bytes * ms_per_clock;
  // What fits in the L2 cache is there from the launch before, or from the last run.
  const double missed = std::max(0.0, k.bytes - d.l2_megabytes * 1e6);
  t.dram = missed / d.memory_gb * 1e-6;
  const double far = l2_bytes > 0 ? std::min(1.0, missed / l2_bytes) : 0;
  const double chain = w.near_chain + far * (w.far_chain - w.near_chain);
  t.chain = chain * std::ceil(busiest / std::max(1.0, k.resident)) * ms_per_clock;
  t.launch = d.launch_us * 1e-3;
  t.total = combined({t.issue, t.matrix, t.special, t.shared, t.l2, t.dram, t.chain}) + t.launch;
  const std::array<std::pair<std::string_view, double>, 8> terms{{{"issue", t.issue},
                                                                  {"matrix", t.matrix},
                                                                  {"special", t.special},
                                                                  {"shared", t.shared},
                                                                  {"l2", t.l2},
                                                                  {"dram", t.dram},
                                                                  {"chain", t.chain},
                                                                  {"launch", t.launch}}};
  t.bound = std::ranges::max_element(terms, {}, [](const auto& p) { return p.second; })->first;
  const double most = std::max({t.issue, t.matrix, t.special, t.shared});
  t.waves = most * (1 - k.groups / (busiest * d.multiprocessors));
  return t;
}

}  // namespace reprise::device_model
