#include "tests/ptx/machine/workgroup.h"

#include <algorithm>
#include <numeric>

#include "tests/ptx/machine/tokens.h"

namespace reprise::test::ptx {
namespace {

/// Nobody can go on, and nothing is to happen.
Status deadlock(const Cluster& c, const std::vector<Warp>& warps) {
  const Warp* first = nullptr;
  bool at_barrier = false;
  std::string text;
  for (const Warp& w : warps) {
    if (w.state() == Warp::State::Done) continue;
    if (first == nullptr) first = &w;
    at_barrier |= w.state() == Warp::State::AtBarrier;
    text += "; " + w.waits_for();
  }
  for (const auto& g : c.groups) {
    const std::string rank = c.is_one_group() ? "" : " of rank " + std::to_string(g->rank);
    for (const auto& [offset, s] : g->signals.all()) text += "; " + s.text(offset) + rank;
  }
  return fault(first->line(), (at_barrier ? "a barrier that only some warps reach"
                                          : "warps wait for what does not come") +
                                  text);
}

Status check_teams(const Group& g) {
  for (const Team& t : g.teams) {
    if (t.steps.empty()) continue;
    const auto least = std::min_element(t.at.begin(), t.at.end());
    if (*least != t.steps.size())
      return fault(t.steps[*least].instruction->line, "only some warps of a warpgroup execute it");
  }
  return {};
}

void run_cluster(Cluster& c, std::vector<Warp>& warps) {
  std::vector<size_t> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  for (Warp& w : warps) w.start();
  const auto done = [](const Warp& w) { return w.state() == Warp::State::Done; };
  while (c.problem.ok()) {
    const uint64_t before = c.activity;
    std::shuffle(order.begin(), order.end(), c.random);
    for (const size_t n : order) {
      warps[n].run();
      if (!c.problem.ok()) return;
    }
    for (const auto& g : c.groups) g->release();
    if (std::all_of(warps.begin(), warps.end(), done)) break;
    c.some_events();
    if (c.activity != before) continue;
    if (c.has_events())
      c.one_event();
    else
      c.problem = deadlock(c, warps);
  }
  while (c.problem.ok() && c.has_events()) c.one_event();
  for (const auto& g : c.groups)
    if (c.problem.ok()) c.problem = check_teams(*g);
}

/// Registers of a thread as the assembler gives them to a kernel with setmaxnreg: all that fit.
uint32_t registers_of(const Entry& e) {
  constexpr uint32_t kAll = 65536, kMost = 256;
  if (e.bound_registers != 0) return e.bound_registers;
  if (e.bound_threads == 0) return 0;
  const uint32_t threads = (e.bound_threads + 31) / 32 * 32;
  return std::min(kMost, kAll / (threads * std::max(1U, e.bound_groups)) / 8 * 8);
}

/// How many workgroups a cluster has in each dimension, as the text and the launch say.
Status size_cluster(const Entry& e, const Launch& launch, std::array<uint32_t, 3>& dims) {
  constexpr uint32_t kMostGroups = 8;  // more need leave, which nobody has asked for
  const auto text_of = [](const std::array<uint32_t, 3>& d) {
    return std::to_string(d[0]) + " x " + std::to_string(d[1]) + " x " + std::to_string(d[2]);
  };
  dims = {1, 1, 1};
  if (e.cluster[0] != 0) dims = e.cluster;
  if (launch.cluster[0] != 0) {
    if (e.cluster[0] != 0 && e.cluster != launch.cluster)
      return {Code::Device, e.name + ": a launch with clusters of " + text_of(launch.cluster) +
                                " workgroups where the text requires " + text_of(e.cluster)};
    dims = launch.cluster;
  }
  const uint32_t count = dims[0] * dims[1] * dims[2];
  const uint32_t most = e.most_rank == 0 ? kMostGroups : std::min(kMostGroups, e.most_rank);
  if (count == 0 || count > most)
    return {Code::Device, e.name + ": a cluster of " + std::to_string(count) +
                              " workgroups, not of 1 to " + std::to_string(most)};
  for (uint32_t d = 0; d < 3; ++d)
    if (launch.grid[d] % dims[d] != 0)
      return {Code::Device, e.name + ": a grid of " + text_of(launch.grid) +
                                " workgroups that clusters of " + text_of(dims) + " do not fill"};
  return {};
}

/// What is wrong with a launch apart from its clusters.
Status check_launch(const Entry& e, const Launch& launch, uint32_t threads) {
  if (threads == 0 || threads > e.most_threads)
    return {Code::Device, e.name + ": a workgroup of " + std::to_string(threads) +
                              " invocations where the text allows " +
                              std::to_string(e.most_threads)};
  if (launch.params.size() < e.param_bytes)
    return {Code::Device, e.name + ": parameters are missing"};
  return {};
}

}  // namespace

Status run(const Program& program, const Launch& launch, const Options& options) {
  const auto at = program.entries.find(launch.entry);
  if (at == program.entries.end()) return {Code::Device, "PTX has no entry " + launch.entry};
  const Entry& entry = at->second;
  Cluster c;
  c.params = launch.params;
  c.buffers = launch.buffers;
  c.program = &program;
  c.grid = launch.grid;
  c.size = launch.workgroup;
  c.options = options;
  c.early = launch.early;
  c.random.seed(options.seed);
  const uint32_t threads = c.size[0] * c.size[1] * c.size[2];
  RP_TRY(check_launch(entry, launch, threads));
  RP_TRY(size_cluster(entry, launch, c.dims));
  std::vector<Warp> warps;
  const uint32_t groups = c.dims[0] * c.dims[1] * c.dims[2];
  const uint32_t count = (threads + Warp::kLanes - 1) / Warp::kLanes;
  warps.reserve(size_t{groups} * count);
  for (uint32_t rank = 0; rank < groups; ++rank) {
    c.groups.push_back(std::make_unique<Group>(c));
    Group& g = *c.groups.back();
    g.threads = threads;
    g.registers_at_start = registers_of(entry);
    for (uint32_t n = 0; n < count; ++n) warps.emplace_back(g, entry, n);
  }
  std::array<uint32_t, 3> first{};
  for (first[2] = 0; first[2] < c.grid[2]; first[2] += c.dims[2]) {
    for (first[1] = 0; first[1] < c.grid[1]; first[1] += c.dims[1]) {
      for (first[0] = 0; first[0] < c.grid[0]; first[0] += c.dims[0]) {
        c.start(first, entry.shared_bytes + launch.dynamic_shared);
        run_cluster(c, warps);
        if (!c.problem.ok()) return c.problem;
      }
    }
  }
  return {};
}

}  // namespace reprise::test::ptx
