// What runs at the same time, and what shares memory, must not show.
#include <random>

#include "contract.h"

namespace reprise::test {
namespace {

class HazardsContract : public Contract {};

/// `wide` branches of `deep` steps beside each other, each step the sum of its branch and of its
/// neighbour, and the sum of all in the end: more tensors than memory is kept for.
std::shared_ptr<const package::Package> branches(int wide, int deep, bool dynamic) {
  PlanWriter w;
  const Expr n = dynamic ? w.symbol("n", 0, 0) : Expr(500);
  const auto x = w.input("x", DType::F32, {n});
  const auto y = w.output("y", DType::F32, {n});
  const uint32_t plus = w.kernel(affine_kernel("plus", 1.0F, 1.0F));
  const uint32_t sum = w.kernel(sum_kernel());
  const auto tensor = [&] {
    return w.arena("t" + std::to_string(w.plan.buffers.size()), DType::F32, {n});
  };
  std::vector<plan::BufferId> ends;
  for (int b = 0; b < wide; ++b) {
    ends.push_back(tensor());
    w.launch(plus, {x, ends.back()}, {n});
  }
  for (int d = 0; d < deep; ++d) {
    for (int b = 0; b < wide; ++b) {
      const plan::BufferId to = tensor(), next = tensor();
      w.launch(sum, {ends[static_cast<size_t>(b)], x, to}, {n});
      w.launch(plus, {to, next}, {n});
      ends[static_cast<size_t>(b)] = next;
    }
  }
  plan::BufferId total = ends[0];
  for (int b = 1; b < wide; ++b) {
    const plan::BufferId to = b + 1 == wide ? y : tensor();
    w.launch(sum, {total, ends[static_cast<size_t>(b)], to}, {n});
    total = to;
  }
  return w.package();
}

TEST_P(HazardsContract, BranchesShareMemoryWithoutHarm) {
  constexpr int kWide = 4, kDeep = 3;
  auto device = open();
  for (const bool dynamic : {false, true}) {
    const auto package = branches(kWide, kDeep, dynamic);
    for (const bool isolate : {false, true}) {
      SessionOptions options;
      options.isolate_tensors = isolate;
      auto s = session(package, device, options);
      ASSERT_TRUE(s);
      for (const int64_t n : {500, 3, 500, 4001, 0, 500}) {
        if (!dynamic && n != 500) continue;
        const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
        auto y = s->run({{{.name = "x", .host = &x}}});
        ASSERT_OK(y.status());
        for (int64_t i = 0; i < n; ++i) {
          const float one = x.data<float>()[i] * (kDeep + 1) + kDeep + 1;
          ASSERT_EQ((*y)[0].data<float>()[i], one * kWide) << i << " of " << n;
        }
      }
    }
  }
}

// Isolated tensors take more memory.
TEST_P(HazardsContract, MemoryIsSharedUnlessIsolated) {
  auto device = open();
  const auto bytes = [&](bool isolate) -> uint64_t {
    SessionOptions options;
    options.isolate_tensors = isolate;
    auto s = session(chain(20, 10000, false), device, options);
    if (s == nullptr) return 0;
    const HostTensor x = floats({10000}, ramp(10000));
    EXPECT_TRUE(s->run({{{.name = "x", .host = &x}}}).ok());
    return s->stats().device_bytes;
  };
  EXPECT_GE(bytes(true), bytes(false) + 16 * 40000);
}

REPRISE_ON_ALL_DEVICES(HazardsContract);

}  // namespace
}  // namespace reprise::test
