#include "tests/ptx/machine/workgroup.h"

#include <algorithm>
#include <numeric>

#include "tests/ptx/machine/tokens.h"

namespace reprise::test::ptx {
namespace {

/// Lets the warps at a barrier go on once all have come to it.
bool release(Group& g, std::vector<Warp>& warps) {
  const Warp* waiting = nullptr;
  for (const Warp& w : warps) {
    if (w.state() == Warp::State::AtBarrier) waiting = &w;
  }
  if (waiting == nullptr) return false;
  for (const Warp& w : warps) {
    if (w.state() == Warp::State::AtBarrier && w.barrier() == waiting->barrier()) continue;
    g.problem = fault(waiting->barrier_line(), "a barrier that only some warps reach");
    return false;
  }
  ++g.epoch;
  for (Warp& w : warps) w.leave_barrier();
  return true;
}

void run_group(Group& g, std::vector<Warp>& warps) {
  std::vector<size_t> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  for (Warp& w : warps) w.start();
  while (g.problem.ok()) {
    std::shuffle(order.begin(), order.end(), g.random);
    for (const size_t n : order) warps[n].run();
    if (!g.problem.ok() || !release(g, warps)) return;
  }
}

}  // namespace

Status run(const Program& program, const Launch& launch, const Options& options) {
  const auto at = program.entries.find(launch.entry);
  if (at == program.entries.end()) return {Code::Device, "PTX has no entry " + launch.entry};
  const Entry& entry = at->second;
  Group g;
  g.params = launch.params;
  g.buffers = launch.buffers;
  g.program = &program;
  g.grid = launch.grid;
  g.size = launch.workgroup;
  g.threads = g.size[0] * g.size[1] * g.size[2];
  g.options = options;
  g.random.seed(options.seed);
  if (g.threads == 0 || g.threads > entry.most_threads)
    return {Code::Device, launch.entry + ": a workgroup of " + std::to_string(g.threads) +
                              " invocations where the text allows " +
                              std::to_string(entry.most_threads)};
  if (launch.params.size() < entry.param_bytes)
    return {Code::Device, launch.entry + ": parameters are missing"};
  std::vector<Warp> warps;
  const uint32_t count = (g.threads + Warp::kLanes - 1) / Warp::kLanes;
  warps.reserve(count);
  for (uint32_t n = 0; n < count; ++n) warps.emplace_back(g, entry, n);
  for (g.id[2] = 0; g.id[2] < g.grid[2]; ++g.id[2]) {
    for (g.id[1] = 0; g.id[1] < g.grid[1]; ++g.id[1]) {
      for (g.id[0] = 0; g.id[0] < g.grid[0]; ++g.id[0]) {
        g.shared.reset(entry.shared_bytes + launch.dynamic_shared);
        run_group(g, warps);
        if (!g.problem.ok()) return g.problem;
      }
    }
  }
  return {};
}

}  // namespace reprise::test::ptx
