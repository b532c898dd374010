#include "tests/ptx/machine/workgroup.h"

#include <algorithm>
#include <numeric>

#include "tests/ptx/machine/tokens.h"

namespace reprise::test::ptx {
namespace {

/// Nobody can go on, and nothing is to happen.
Status deadlock(const Group& g, const std::vector<Warp>& warps) {
  const Warp* first = nullptr;
  bool at_barrier = false;
  std::string text;
  for (const Warp& w : warps) {
    if (w.state() == Warp::State::Done) continue;
    if (first == nullptr) first = &w;
    at_barrier |= w.state() == Warp::State::AtBarrier;
    text += "; " + w.waits_for();
  }
  for (const auto& [offset, s] : g.signals.all()) text += "; " + s.text(offset);
  return fault(first->line(), (at_barrier ? "a barrier that only some warps reach"
                                          : "warps wait for what does not come") +
                                  text);
}

void run_group(Group& g, std::vector<Warp>& warps) {
  std::vector<size_t> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  for (Warp& w : warps) w.start();
  const auto done = [](const Warp& w) { return w.state() == Warp::State::Done; };
  while (g.problem.ok()) {
    const uint64_t before = g.activity;
    std::shuffle(order.begin(), order.end(), g.random);
    for (const size_t n : order) {
      warps[n].run();
      if (!g.problem.ok()) return;
    }
    g.release();
    if (std::all_of(warps.begin(), warps.end(), done)) break;
    g.some_events();
    if (g.activity != before) continue;
    if (g.has_events())
      g.one_event();
    else
      g.problem = deadlock(g, warps);
  }
  while (g.problem.ok() && g.has_events()) g.one_event();
  for (const Team& t : g.teams) {
    if (!g.problem.ok() || t.steps.empty()) continue;
    const auto least = std::min_element(t.at.begin(), t.at.end());
    if (*least != t.steps.size())
      g.problem =
          fault(t.steps[*least].instruction->line, "only some warps of a warpgroup execute it");
  }
}

/// Registers of a thread as the assembler gives them to a kernel with setmaxnreg: all that fit.
uint32_t registers_of(const Entry& e) {
  constexpr uint32_t kAll = 65536, kMost = 256;
  if (e.bound_registers != 0) return e.bound_registers;
  if (e.bound_threads == 0) return 0;
  const uint32_t threads = (e.bound_threads + 31) / 32 * 32;
  return std::min(kMost, kAll / (threads * std::max(1U, e.bound_groups)) / 8 * 8);
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
  g.early = launch.early;
  g.random.seed(options.seed);
  g.registers_at_start = registers_of(entry);
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
        g.start(entry.shared_bytes + launch.dynamic_shared);
        run_group(g, warps);
        if (!g.problem.ok()) return g.problem;
      }
    }
  }
  return {};
}

}  // namespace reprise::test::ptx
