// Random plans before and after launches become one: every buffer has the same contents at the end.
#include "codegen/plan/batch_launches.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "codegen/kernel/build/builder.h"
#include "tests/support/buffer_ids.h"

namespace reprise {
namespace {

using plan::BufferId;
using plan::Launch;

/// A kernel that reads one buffer and writes another.
kernel::Kernel copying_kernel(const std::string& name) {
  kernel::Builder b(name);
  const int x = b.buffer("x", kernel::Ty::F32, kernel::Access::Read);
  const int y = b.buffer("y", kernel::Ty::F32, kernel::Access::ReadWrite);
  const auto i = b.convert(b.builtin(kernel::Builtin::GlobalId), kernel::Ty::I32);
  b.store(y, i, b.load(x, i));
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : kernel::Kernel{};
}

struct RandomPlan {
  plan::Plan plan;
  std::vector<kernel::Kernel> kernels;
};

RandomPlan random_plan(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](int lo, int hi) {
    return lo + static_cast<int>(rng() % static_cast<uint64_t>(hi - lo + 1));
  };
  RandomPlan r;
  for (const char* name : {"a", "b"}) r.kernels.push_back(copying_kernel(name));
  const int buffers = pick(3, 20), steps = pick(0, 30);
  for (int b = 0; b < buffers; ++b)
    r.plan.buffers.push_back({std::to_string(b),
                              pick(0, 1) == 0 ? plan::BufferKind::Arena : plan::BufferKind::Output,
                              b,
                              DType::F32,
                              {}});
  for (int s = 0; s < steps; ++s) {
    if (pick(0, 7) == 0) {
      plan::HostCall call;
      call.node = std::to_string(s);
      call.inputs = test::buffers(pick(0, buffers - 1));
      call.outputs = test::buffers(pick(0, buffers - 1));
      r.plan.steps.push_back({call, {}, 0});
      continue;
    }
    Launch l;
    l.kernel = static_cast<uint32_t>(pick(0, 1));
    l.group = r.kernels[l.kernel].name;
    l.buffers = test::buffers(pick(0, buffers - 1), pick(0, buffers - 1));
    l.writes = {false, true};
    l.grid = {Expr(pick(0, 9) == 0 ? 20'000 : pick(1, 50)), Expr(1), Expr(pick(0, 9) == 0 ? 2 : 1)};
    l.nodes = {std::to_string(s)};
    r.plan.steps.push_back({l, {}, 0});
  }
  return r;
}

/// What each buffer contains after the steps, as a number that depends on everything that was
/// computed on the way. The items of a launch run in the order that `backwards` says.
std::vector<uint64_t> contents(const plan::Plan& p, const std::vector<kernel::Kernel>& kernels,
                               bool backwards) {
  std::vector<uint64_t> out(p.buffers.size());
  for (size_t b = 0; b < out.size(); ++b) out[b] = b;
  const auto mix = [](uint64_t a, uint64_t b) {
    return (a ^ (b + 0x9e3779b97f4a7c15U)) * 1099511628211U;
  };
  for (const plan::Step& step : p.steps) {
    if (const auto* call = std::get_if<plan::HostCall>(&step.what)) {
      out[call->outputs[0].index()] = mix(out[call->inputs[0].index()], 99);
      continue;
    }
    const auto& l = std::get<Launch>(step.what);
    const kernel::Kernel& k = kernels[l.kernel];
    for (size_t n = 0; n < k.items; ++n) {
      const size_t item = backwards ? k.items - 1 - n : n;
      const auto from = l.buffers[2 * item].index(), to = l.buffers[2 * item + 1].index();
      out[to] = mix(mix(out[from], out[to]), static_cast<uint64_t>(k.name[0]));
    }
  }
  return out;
}

TEST(BatchLaunches, RandomPlansComputeTheSame) {
  size_t merged = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomPlan r = random_plan(seed);
    const auto before = contents(r.plan, r.kernels, false);
    const std::vector<plan::Step> steps = r.plan.steps;
    const auto position = batch_launches(r.plan, r.kernels, {}, 2);
    ASSERT_TRUE(position.ok()) << position.status().message();
    for (const bool backwards : {false, true})
      ASSERT_EQ(contents(r.plan, r.kernels, backwards), before) << "seed " << seed;
    plan::compute_hazards(r.plan);
    for (const bool backwards : {false, true})
      ASSERT_EQ(contents(r.plan, r.kernels, backwards), before) << "seed " << seed;
    merged += steps.size() - r.plan.steps.size();
  }
  EXPECT_GT(merged, 3000U);
}

TEST(BatchLaunches, PositionsSayWhereStepsWent) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomPlan r = random_plan(seed);
    const std::vector<plan::Step> steps = r.plan.steps;
    const auto position = batch_launches(r.plan, r.kernels, {}, 2);
    ASSERT_TRUE(position.ok());
    for (size_t s = 0; s < steps.size(); ++s) {
      const plan::Step& now = r.plan.steps[(*position)[s]];
      if (const auto* call = std::get_if<plan::HostCall>(&steps[s].what)) {
        EXPECT_EQ(std::get<plan::HostCall>(now.what).node, call->node);
        continue;
      }
      const auto& nodes = std::get<Launch>(now.what).nodes;
      const std::string& node = std::get<Launch>(steps[s].what).nodes[0];
      EXPECT_EQ(std::ranges::count(nodes, node), 1);
    }
  }
}

/// `n` launches of kernel 0 on buffers of their own.
RandomPlan independent(int n, int64_t workgroups) {
  RandomPlan r;
  r.kernels.push_back(copying_kernel("a"));
  for (int i = 0; i < n; ++i) {
    for (const char* name : {"x", "y"})
      r.plan.buffers.push_back({name, plan::BufferKind::Arena, -1, DType::F32, {}});
    Launch l;
    l.buffers = test::buffers(2 * i, 2 * i + 1);
    l.writes = {false, true};
    l.grid = {Expr(workgroups), Expr(1), Expr(1)};
    l.iterations = Expr(i);
    r.plan.steps.push_back({l, {}, 0});
  }
  return r;
}

/// Launches of different levels, the last of a chain each.
TEST(BatchLaunches, IntermediateTensorsAreNotKeptForLonger) {
  for (const auto kind : {plan::BufferKind::Input, plan::BufferKind::Arena}) {
    RandomPlan r = independent(4, 10);
    for (plan::Buffer& b : r.plan.buffers) b.kind = kind;
    r.kernels.push_back(copying_kernel("b"));
    std::vector<plan::Step> steps;
    for (size_t i = 0; i < 4; ++i) {
      const auto& last = std::get<Launch>(r.plan.steps[i].what);
      for (size_t before = 0; before < i; ++before) {
        Launch l = last;
        l.kernel = 1;
        l.buffers = {last.buffers[0], last.buffers[0]};
        steps.push_back({l, {}, 0});
      }
      steps.push_back(r.plan.steps[i]);
    }
    r.plan.steps = steps;
    ASSERT_TRUE(batch_launches(r.plan, r.kernels, {}, 4).ok());
    EXPECT_EQ(r.plan.steps.size(), kind == plan::BufferKind::Input ? 7U : 10U);
  }
}

TEST(BatchLaunches, LimitsCutLaunches) {
  const struct {
    int launches;
    int64_t workgroups;
    std::vector<int64_t> grids;  // of the launches that become of them
  } cases[] = {
      {3, 10, {10, 10, 10}},                  // too few
      {4, 10, {40}},                          //
      {5, 16'384, {49'152, 16'384, 16'384}},  // 65,535 workgroups in all
      {4, 65'535, {65'535, 65'535, 65'535, 65'535}},
      {210, 1, {204, 6}},  // 4,096 bytes of parameters
  };
  for (const auto& c : cases) {
    RandomPlan r = independent(c.launches, c.workgroups);
    ASSERT_TRUE(batch_launches(r.plan, r.kernels, {}, c.workgroups == 16'384 ? 3 : 4).ok());
    std::vector<int64_t> grids;
    int64_t last = 0;
    for (const plan::Step& step : r.plan.steps) {
      const auto& l = std::get<Launch>(step.what);
      grids.push_back(l.grid[0].value());
      last = std::max(last, l.iterations.value());
      if (l.kernel == 0) continue;
      const kernel::Kernel& k = r.kernels[l.kernel];
      EXPECT_EQ(l.buffers.size(), k.buffers.size());
      EXPECT_EQ(l.writes.size(), k.buffers.size());
      ASSERT_EQ(l.scalars.size(), k.scalars.size());
      for (size_t i = 0; i < k.items; ++i)
        EXPECT_EQ(l.scalars[i].value(), static_cast<int64_t>(i) * c.workgroups);
    }
    std::ranges::sort(grids, std::greater<>());
    EXPECT_EQ(grids, c.grids) << c.launches << " launches of " << c.workgroups;
    EXPECT_EQ(last, c.launches - 1);
  }
}

}  // namespace
}  // namespace reprise
