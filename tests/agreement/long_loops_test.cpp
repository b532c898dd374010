// Loops whose number of iterations is known at run time only, around and beyond the 65,535 after
// which llvmpipe leaves all loops of an invocation: right on every Vulkan device, or an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

struct LongCase {
  const char* name;
  const char* graph;           // of one input 'x', whose dynamic dims have one symbol
  std::vector<int64_t> sizes;  // one after another in one session
};

const LongCase kCases[] = {
    // Three loops for each row, each with an iteration that only finds its end.
    {"Softmax",
     "graph softmax\ninput x: float32[3,n]\ny = Softmax<axis=-1>(x) @13\noutput y\n",
     {21843, 21844, 10, 21845, 21846, 1, 200000}},
    {"SoftmaxOfVectors",
     "graph softmax4\ninput x: float32[12,n]\nr = Reshape<shape=(3, -1)>(x)\n"
     "y = Softmax<axis=-1>(r) @13\noutput y\n",
     {21843, 21844, 21845, 50000, 8}},
    {"ArgMax",
     "graph argmax\ninput x: float32[3,n]\ny = ArgMax<axis=1, keepdims=0>(x) @13\noutput y\n",
     {65533, 65534, 65535, 65536, 7, 300000}},
    {"MaxOfColumns",
     "graph columns\ninput x: float32[n,8]\ny = ReduceMax<keepdims=0, axes=[0]>(x) @13\noutput y\n",
     {65533, 65534, 65535, 65536, 3, 150000}},
    {"RowsOfOneSample",
     "graph norm\ninput x: float32[1,n]\nm = ReduceMean<axes=[1]>(x) @13\nc = Sub(x, m) @13\n"
     "q = Mul(c, c) @13\nv = ReduceMean<axes=[1]>(q) @13\ns = Sqrt(v) @13\ny = Div(c, s) @13\n"
     "output y\n",
     {174750, 174751, 174752, 174753, 9, 600000}},
    // A remainder is a loop of its own for each element.
    {"SumOfRemainders",
     "graph remainders\ninput x: float32[2,n]\nconst c: float32[1]{0.3}\n"
     "m = Mod<fmod=1>(x, c) @13\ny = ReduceSum<axes=[1], keepdims=0>(m) @11\noutput y\n",
     {20000, 33000, 60000}},
    {"LargestRemainder",
     "graph remainders\ninput x: float32[2,n]\nconst c: float32[1]{0.3}\n"
     "m = Mod<fmod=1>(x, c) @13\ny = ArgMax<axis=1>(m) @13\noutput y\n",
     {20000, 33000, 60000}},
    {"Images",
     "graph images\ninput x: float32[1,2,n,n]\nconst s: float32[2]{1, 2}\nconst b: float32[2]{3, "
     "4}\n"
     "y = InstanceNormalization(x, s, b) @13\noutput y\n",
     {417, 418, 419, 1000, 5}},
};

class LongLoops : public testing::TestWithParam<LongCase> {};

Result<std::unique_ptr<Session>> session_for(const graph::Graph& g,
                                             const std::shared_ptr<Device>& device,
                                             const char* target = "vulkan") {
  CompileOptions options;
  options.targets = {target};
  if (device == nullptr) options.targets.clear();
  RP_ASSIGN(package::Package package, compile(g.clone(), options));
  return Session::create(std::make_shared<package::Package>(std::move(package)), device);
}

void expect_near(const HostTensor& expected, const HostTensor& actual, const std::string& what) {
  ASSERT_EQ(expected.dims(), actual.dims()) << what;
  double largest = 0;
  for (int64_t i = 0; i < expected.count(); ++i)
    largest = std::max(largest, std::fabs(test::number(expected, i)));
  const double error = expected.dtype() == DType::F32 ? 1e-5 * largest : 0;
  for (int64_t i = 0; i < expected.count(); ++i)
    ASSERT_NEAR(test::number(expected, i), test::number(actual, i), error)
        << what << ", element " << i;
}

std::vector<int64_t> dims_at(const graph::Graph& g, int64_t n) {
  std::vector<int64_t> dims;
  for (const Expr& e : g.value(g.inputs[0]).shape) dims.push_back(e.is_const() ? e.value() : n);
  return dims;
}

TEST_P(LongLoops, AreRightOnEveryDevice) {
  const auto g = graph::parse(GetParam().graph);
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto host = session_for(**g, nullptr);
  ASSERT_TRUE(host.ok()) << host.status().message();
  int devices = 0;
  for (const DeviceInfo& info : list_devices()) {
    if (!info.id.starts_with("vulkan")) continue;
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    auto session = session_for(**g, device->device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::mt19937 rng(3);
    for (const int64_t n : GetParam().sizes) {
      const HostTensor x = test::random_tensor(DType::F32, dims_at(**g, n), rng);
      const Binding input{.name = "x", .host = &x};
      const auto expected = (*host)->run(std::span(&input, 1));
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const auto actual = (*session)->run(std::span(&input, 1));
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      expect_near((*expected)[0], (*actual)[0], info.name + ", n = " + std::to_string(n));
      if (HasFatalFailure()) return;
    }
    ++devices;
  }
  if (devices == 0) GTEST_SKIP() << "no Vulkan device";
}

INSTANTIATE_TEST_SUITE_P(Graphs, LongLoops, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

/// Matrix products have one form, and so have kernels that are not for CPU-type devices.
TEST(LongLoops, AreRefusedWhereNoFormIsLongEnough) {
  const struct {
    const char* graph;
    const char* target;
    std::vector<int64_t> dims;
  } cases[] = {
      {"graph dot\ninput x: float32[2,n]\ny = Transpose<perm=[1, 0]>(x) @13\n"
       "z = MatMul(x, y) @13\noutput z\n",
       "vulkan",
       {2, 400000}},
      {"graph softmax\ninput x: float32[2,n]\ny = Softmax<axis=-1>(x) @13\noutput y\n",
       "vulkan-baseline",
       {2, 2000000}},
  };
  int devices = 0;
  for (const DeviceInfo& info : list_devices()) {
    if (info.facts.driver.max_loop_iterations == 0) continue;
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    for (const auto& c : cases) {
      const auto g = graph::parse(c.graph);
      ASSERT_TRUE(g.ok()) << g.status().message();
      auto session = session_for(**g, device->device, c.target);
      ASSERT_TRUE(session.ok()) << session.status().message();
      const HostTensor x(DType::F32, c.dims);
      const Binding input{.name = "x", .host = &x};
      const Status s = (*session)->run(std::span(&input, 1)).status();
      EXPECT_EQ(s.code(), Code::Unsupported);
      EXPECT_NE(s.message().find("longer loops"), std::string::npos) << s.message();
      EXPECT_NE(s.message().find("--shape"), std::string::npos) << s.message();
    }
    ++devices;
  }
  if (devices == 0) GTEST_SKIP() << "no Vulkan device that limits loops";
}

}  // namespace
}  // namespace reprise
