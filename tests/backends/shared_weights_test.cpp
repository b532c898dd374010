// Sessions on one device share weights with equal contents, also those of different packages.
#include <algorithm>

#include "contract.h"

namespace reprise::test {
namespace {

constexpr int64_t kLarge = 1 << 19, kSmall = 100;  // elements; 2 MB, and 400 bytes

/// y = large + x, z = small + u
std::shared_ptr<const package::Package> model(float large, float small) {
  PlanWriter w;
  const auto sum = w.kernel(sum_kernel());
  const auto add = [&](const char* in, const char* out, float value, int64_t count) {
    const auto x = w.input(in, DType::F32, {Expr(count)});
    const auto y = w.output(out, DType::F32, {Expr(count)});
    const auto c = w.weight(std::string("of ") + in,
                            floats({count}, std::vector<float>(static_cast<size_t>(count), value)));
    w.launch(sum, {c, x, y}, {Expr(count)});
  };
  add("x", "y", large, kLarge);
  add("u", "z", small, kSmall);
  return w.package();
}

class SharedWeights : public DeviceContract {
 protected:
  uint64_t used() const { return device_->memory_budget().used(); }
  std::unique_ptr<Session> make(float large, float small) {
    return session(model(large, small), device_);
  }
  /// Whether a session computes with these weights.
  static bool is_right(Session& s, float large, float small) {
    const HostTensor x = floats({kLarge}, std::vector<float>(kLarge, 1)),
                     u = floats({kSmall}, std::vector<float>(kSmall, 2));
    const std::array<Binding, 2> inputs{{{.name = "x", .host = &x}, {.name = "u", .host = &u}}};
    const auto out = s.run(inputs);
    if (!out.ok()) {
      ADD_FAILURE() << out.status().message();
      return false;
    }
    const auto all = [](const HostTensor& t, float v) {
      return std::ranges::all_of(values(t), [v](float f) { return f == v; });
    };
    return all((*out)[0], large + 1) && all((*out)[1], small + 2);
  }
};

TEST_P(SharedWeights, EqualContentsAreUploadedOnce) {
  const uint64_t before = used();
  const auto a = make(1, 2);
  ASSERT_TRUE(a);
  const uint64_t first = used() - before;
  EXPECT_GE(first, 4U * kLarge);
  const auto b = make(1, 2);  // of another package
  ASSERT_TRUE(b);
  EXPECT_LT(used() - before - first, 65536U);
  EXPECT_TRUE(is_right(*a, 1, 2));
  EXPECT_TRUE(is_right(*b, 1, 2));
  EXPECT_GE(b->stats().device_bytes, 4U * kLarge);
}

TEST_P(SharedWeights, OfOtherContentsOnlyThoseThatAreEqual) {
  const auto a = make(1, 2);
  ASSERT_TRUE(a);
  const uint64_t first = used();
  const auto b = make(1, 3);
  ASSERT_TRUE(b);
  EXPECT_LT(used() - first, 65536U);
  const auto c = make(4, 2);
  ASSERT_TRUE(c);
  EXPECT_GE(used() - first, 4U * kLarge);
  EXPECT_TRUE(is_right(*a, 1, 2));
  EXPECT_TRUE(is_right(*b, 1, 3));
  EXPECT_TRUE(is_right(*c, 4, 2));
}

TEST_P(SharedWeights, TheyLiveAsLongAsASession) {
  const uint64_t before = used();
  auto a = make(1, 2);
  auto b = make(1, 2);
  ASSERT_TRUE(a && b);
  a.reset();
  EXPECT_TRUE(is_right(*b, 1, 2));
  b.reset();
  EXPECT_EQ(used(), before);
  const auto c = make(1, 2);
  ASSERT_TRUE(c);
  EXPECT_TRUE(is_right(*c, 1, 2));
}

REPRISE_ON_ALL_DEVICES(SharedWeights);

}  // namespace
}  // namespace reprise::test
