// The prices of attention and of its gradients as separate kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/target/device_costs.h"
#include "shaders/attention.h"
#include "shaders/attention_grad.h"

namespace reprise::shaders {

namespace {

bool separate_wins_with_slow_loads(const AttentionSize& size) {
  const double elements = size.depth + size.columns;
  const double all_rows = size.batch * size.rows;
  const auto contains = [&](const SeparateAttentionRange& r) {
    return elements >= r.min_elements && size.batch >= r.min_batch && size.rows >= r.min_rows &&
           size.rows < r.end_rows && all_rows >= r.min_all_rows && all_rows < r.end_all_rows &&
           size.keys >= r.min_keys;
  };
  return std::ranges::any_of(kSeparateAttentionWins.ranges, contains);
}

}  // namespace

double separate_cost(const AttentionSize& size, const TargetFacts& device) {
  if (!has_cpu_subgroups(device)) return std::numeric_limits<double>::infinity();
  if (device.slow_loads()) {
    return separate_wins_with_slow_loads(size)
               ? kSeparateAttentionWins.time * attention_tiles(size, device).front().cost
               : std::numeric_limits<double>::infinity();
  }
  const SeparateAttentionCosts& price = kSeparateAttention;
  const double min_units = cpu_costs(device).min_units;
  const double multiply_add =
      price.multiply_add + price.load / std::clamp(size.rows, 1.0, price.max_rows);
  const double scores = size.batch * size.rows * size.keys;
  const double per_score =
      multiply_add * (size.depth + size.columns) + price.softmax + size.score_flops / kCpuLanes;
  const double units = size.batch * std::ceil(size.rows / 8) * std::ceil(size.columns / 64.0);
  return price.launches + scores * per_score * std::max(1.0, min_units / units);
}

bool separate_gradients_win(const AttentionGradSize& size, const TargetFacts& device) {
  return has_cpu_subgroups(device) && size.rows >= kSeparateGradients.min_rows &&
         size.others >= kSeparateGradients.min_keys;
}

}  // namespace reprise::shaders
