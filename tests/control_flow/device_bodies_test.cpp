// Bodies of If, Loop and Scan that run on devices: what a package keeps of them, what a run costs,
// and how runs end that take too long. tests/conformance compares their results.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

/// y is tanh(x * w), n times; all has the values in between.
constexpr const char* kLoop = R"(graph loop
symbol m in 0..2147483647 divisor 1 from host _ axis 0
input n: int64[]
input x: float32[4,4]
input w: float32[4,4]
(y: float32[4,4], all: float32[m,4,4]) = Loop(n, _, x, w) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[4,4]
    capture c: float32[4,4]
    product: float32[4,4] = MatMul(v, c) @16
    next: float32[4,4] = Tanh(product) @16
    seen: float32[4,4] = Neg(next) @16
    output going
    output next
    output seen
  }
}
output y
output all
)";

/// Adds up the least elements of rows of x, which has four.
constexpr const char* kReadsRows = R"(graph rows
input n: int64[]
input x: float32[4,4]
const zero: float32[]{0}
(y: float32[]) = Loop(n, _, zero, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[]
    capture c: float32[4,4]
    row = Gather<axis=0>(c, i) @13
    least = ReduceMin<keepdims=0>(row) @13
    next = Add(v, least) @14
    output going
    output next
  }
}
output y
)";

constexpr const char* kPasses = R"(graph passes
symbol m in 0..2147483647 divisor 1 from host _ axis 0
input n: int64[]
input x: float32[4,4]
input w: float32[4,4]
(y: float32[4,4], same: float32[4,4], three: float32[4,4], all: float32[m,4,4], old: float32[m,4,4]) = Loop(n, _, x, w, w) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[4,4]
    input kept: float32[4,4]
    input changes: float32[4,4]
    const one: float32[4,4]{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
    const three: float32[4,4]{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}
    next: float32[4,4] = Add(v, one) @14
    output going
    output next
    output kept
    output three
    output next
    output changes
  }
}
output y
output same
output three
output all
output old
)";

/// Counts without end.
constexpr const char* kEndless = R"(graph endless
input x: float32[4]
(y: float32[4]) = Loop(_, _, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[4]
    next: float32[4] = Cos(v) @16
    output going
    output next
  }
}
output y
)";

std::shared_ptr<package::Package> compiled_for_devices(const char* text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.probes = true;
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return std::make_shared<package::Package>(*std::move(p));
}

template <typename F>
void on_each_device(const F& f) {
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    SCOPED_TRACE(info.id);
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    f(device->device);
  }
}

std::unique_ptr<Session> session_on(const std::shared_ptr<Device>& device, const char* text,
                                    const SessionOptions& options = {}) {
  auto session = Session::create(compiled_for_devices(text), device, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

HostTensor matrix() {
  std::vector<float> values;
  for (int i = 0; i < 16; ++i) values.push_back(0.05F * static_cast<float>(i) - 0.4F);
  return HostTensor::from<float>(DType::F32, {4, 4}, values);
}

Result<std::vector<HostTensor>> run_loop(Session& session, int64_t times) {
  const HostTensor n = HostTensor::from<int64_t>(DType::I64, {}, {times});
  const HostTensor x = matrix();
  const Binding inputs[] = {
      {.name = "n", .host = &n}, {.name = "x", .host = &x}, {.name = "w", .host = &x}};
  return session.run(inputs);
}

TEST(DeviceBodies, SurviveThePackage) {
  const test::TempDir dir;
  const std::string path = dir / "loop.rpk";
  const auto p = compiled_for_devices(kLoop);
  ASSERT_FALSE(p->variants.empty());
  ASSERT_EQ(p->variants[0].bodies.size(), 1U);
  EXPECT_EQ(p->variants[0].bodies[0].probes.size(), p->variants[0].bodies[0].plan.kernels.size());
  ASSERT_TRUE(package::write(*p, path).ok());
  const auto read = package::read(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  auto reference = Session::create(*read, nullptr);
  ASSERT_TRUE(reference.ok()) << reference.status().message();
  const auto expected = run_loop(**reference, 5);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  on_each_device([&](const std::shared_ptr<Device>& device) {
    SessionOptions options;
    options.fullgraph = true;
    options.check_kernels = true;
    options.warm_up = true;
    auto session = Session::create(*read, device, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto results = run_loop(**session, 5);
    ASSERT_TRUE(results.ok()) << results.status().message();
    for (size_t o = 0; o < 2; ++o) {
      ASSERT_EQ((*results)[o].dims(), (*expected)[o].dims());
      for (int64_t i = 0; i < (*results)[o].count(); ++i)
        EXPECT_NEAR((*results)[o].data<float>()[i], (*expected)[o].data<float>()[i], 1e-5F);
    }
  });
}

// Four iterations may be in flight, each with a recording of its own.
TEST(DeviceBodies, AreRecordedOnce) {
  on_each_device([](const std::shared_ptr<Device>& device) {
    const auto session = session_on(device, kLoop);
    ASSERT_TRUE(run_loop(*session, 4).ok());
    const SessionStats first = session->stats();
    ASSERT_TRUE(run_loop(*session, 10).ok());
    const SessionStats second = session->stats();
    EXPECT_EQ(second.recordings, first.recordings);
    EXPECT_EQ(second.submits - first.submits, 10U);
    ASSERT_TRUE(run_loop(*session, 10).ok());
    EXPECT_EQ(session->stats().device_bytes, second.device_bytes);
  });
}

// Later iterations have begun when the error of one is found.
TEST(DeviceBodies, AnErrorOfOneIterationEndsTheLoop) {
  on_each_device([](const std::shared_ptr<Device>& device) {
    const auto session = session_on(device, kReadsRows);
    const HostTensor x = matrix();
    const auto run = [&](int64_t times) {
      const HostTensor n = HostTensor::from<int64_t>(DType::I64, {}, {times});
      const Binding inputs[] = {{.name = "n", .host = &n}, {.name = "x", .host = &x}};
      return session->run(inputs);
    };
    for (const int64_t times : {7, 20, 5}) {
      const auto result = run(times);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().code(), Code::InvalidInput);
      EXPECT_NE(result.status().message().find("iteration 4"), std::string::npos)
          << result.status().message();
      const auto right = run(4);
      ASSERT_TRUE(right.ok()) << right.status().message();
      EXPECT_FLOAT_EQ((*right)[0].data<float>()[0], -0.4F);
    }
  });
}

// A value that an iteration returns as it is, one that it returns twice, and a constant.
TEST(DeviceBodies, ReturnWhatTheyDoNotCompute) {
  on_each_device([](const std::shared_ptr<Device>& device) {
    const auto session = session_on(device, kPasses);
    const HostTensor x = matrix();
    const HostTensor n = HostTensor::from<int64_t>(DType::I64, {}, {9});
    const Binding inputs[] = {
        {.name = "n", .host = &n}, {.name = "x", .host = &x}, {.name = "w", .host = &x}};
    const auto r = session->run(inputs);
    ASSERT_TRUE(r.ok()) << r.status().message();
    for (int64_t i = 0; i < 16; ++i) {
      const float first = x.data<float>()[i];
      EXPECT_FLOAT_EQ((*r)[0].data<float>()[i], first + 9);  // counted
      EXPECT_EQ((*r)[1].data<float>()[i], first);            // as it is
      EXPECT_EQ((*r)[2].data<float>()[i], 3);                // the constant
      for (int64_t k = 0; k < 9; ++k) {
        EXPECT_FLOAT_EQ((*r)[3].data<float>()[k * 16 + i], first + static_cast<float>(k + 1));
        EXPECT_EQ((*r)[4].data<float>()[k * 16 + i], k == 0 ? first : 3);
      }
    }
  });
}

TEST(DeviceBodies, HaveTimes) {
  on_each_device([](const std::shared_ptr<Device>& device) {
    SessionOptions options;
    options.timestamps = true;
    const auto session = session_on(device, kLoop, options);
    const auto times = [&](int64_t n) {
      const HostTensor count = HostTensor::from<int64_t>(DType::I64, {}, {n});
      const HostTensor x = matrix();
      const Binding inputs[] = {
          {.name = "n", .host = &count}, {.name = "x", .host = &x}, {.name = "w", .host = &x}};
      RunStats stats;
      const auto results = session->run(inputs, {}, &stats);
      EXPECT_TRUE(results.ok()) << results.status().message();
      return stats.kernel_us;
    };
    const std::vector<double> three = times(3);
    ASSERT_FALSE(three.empty());
    for (const double us : three) EXPECT_GT(us, 0);
    EXPECT_EQ(times(0), std::vector<double>(three.size(), 0.0));
    EXPECT_EQ(times(2).size(), three.size());
  });
}

/// Runs a loop without an end, and then another run of the same session.
void expect_late(const std::shared_ptr<Device>& device, uint64_t timeout_ns) {
  SessionOptions options;
  options.timeout_ns = timeout_ns;
  const auto session = session_on(device, kEndless, options);
  const HostTensor x = HostTensor::from<float>(DType::F32, {4}, {0, 1, 2, 3});
  const Binding inputs[] = {{.name = "x", .host = &x}};
  for (int i = 0; i < 4; ++i) {
    const auto late = session->run(inputs);
    ASSERT_EQ(late.status().code(), Code::Timeout) << late.status().message();
    EXPECT_NE(late.status().message().find("did not finish"), std::string::npos)
        << late.status().message();
  }
}

TEST(DeviceBodies, ShareTheTimeLimit) {
  on_each_device([](const std::shared_ptr<Device>& device) { expect_late(device, 300'000'000); });
}

// The call returns while the device still executes the body, whose memory must stay valid.
TEST(DeviceBodies, MayBeLate) {
  on_each_device([](const std::shared_ptr<Device>& device) { expect_late(device, 1); });
}

plan::HostCall& loop_of(package::Package& p) {
  return std::get<plan::HostCall>(p.variants[0].plan.steps[0].what);
}

TEST(DeviceBodies, ThatDoNotFitAreRefused) {
  struct Case {
    const char* message;
    void (*damage)(package::Package&);
  };
  const Case cases[] = {
      {"body 1 does not exist", [](package::Package& p) { loop_of(p).device_bodies = {1}; }},
      {"it has 2 bodies instead of 1",
       [](package::Package& p) {
         loop_of(p).device_bodies = {0, 0};
       }},
      {"captures input 7, which does not exist",
       [](package::Package& p) { p.variants[0].bodies[0].captures = {7}; }},
      {"captures input 1, which does not exist",
       [](package::Package& p) { p.variants[0].bodies[0].captures = {1}; }},
      {"it captures more values than it has inputs",
       [](package::Package& p) {
         p.variants[0].bodies[0].captures = {0, 0, 0, 0, 0};
       }},
      {"it inherits more symbols than it has",
       [](package::Package& p) { p.variants[0].bodies[0].inherited_symbols = 99; }},
      {"it is for other devices than its variant",
       [](package::Package& p) { p.variants[0].bodies[0].predicate.subgroup_size += 1; }},
      {"probes are for",
       [](package::Package& p) { p.variants[0].bodies[0].probes.emplace_back(); }},
      {"buffer",
       [](package::Package& p) {
         std::get<plan::Launch>(p.variants[0].bodies[0].plan.steps[0].what).buffers[0] =
             plan::BufferId(99);
       }},
      {"on the device: body 0 does not exist",  // a plan of the host calls a body of a variant
       [](package::Package& p) {
         std::get<plan::HostCall>(p.host_plan.steps[0].what).device_bodies = {0};
       }},
      {"on the device: body 0 does not exist",  // a body that calls itself
       [](package::Package& p) {
         plan::Step step;
         step.what = loop_of(p);
         auto& call = std::get<plan::HostCall>(step.what);
         call.inputs.assign(call.inputs.size(), plan::BufferId(0));
         call.outputs = {};
         p.variants[0].bodies[0].plan.steps.push_back(step);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const auto p = compiled_for_devices(kLoop);
    c.damage(*p);
    const Status s = package::verify(*p);
    EXPECT_EQ(s.code(), Code::CorruptPackage);
    EXPECT_NE(s.message().find(c.message), std::string::npos) << s.message();
  }
}

TEST(DeviceBodies, OfOtherSizesAreRefused) {
  on_each_device([](const std::shared_ptr<Device>& device) {
    const auto p = compiled_for_devices(kLoop);
    for (package::Variant& v : p->variants) {
      for (plan::Slot& slot : v.bodies[0].io.outputs)
        if (!slot.shape.empty()) slot.shape[0] = 400;
    }
    auto session = Session::create(p, device);
    if (!session.ok()) return;
    const auto results = run_loop(**session, 3);
    ASSERT_EQ(results.status().code(), Code::InvalidModel);
    EXPECT_NE(results.status().message().find("changes from float32[4,4] to float32[400,4]"),
              std::string::npos)
        << results.status().message();
  });
}

TEST(DeviceBodies, RunOnTheHostForAReason) {
  struct Case {
    const char* reason;
    const char* text;
  };
  const Case cases[] = {
      {"the shape of 'v' changes between iterations, from [k] to [2*k]", R"(graph growing
symbol k in 0..2147483647 divisor 1 from host _ axis 0
input n: int64[]
input x: float32[2]
(y: float32[k]) = Loop(n, _, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[k]
    next: float32[2*k] = Concat<axis=0>(v, v) @16
    output going
    output next
  }
}
output y
)"},
      {"its bodies have no kernel", R"(graph identity
input n: int64[]
input x: float32[2]
(y: float32[2]) = Loop(n, _, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[2]
    output going
    output v
  }
}
output y
)"},
  };
  for (const Case& c : cases) {
    const auto p = compiled_for_devices(c.text);
    ASSERT_FALSE(p->variants.empty());
    const plan::HostCall* call = nullptr;
    for (const plan::Step& step : p->variants[0].plan.steps)
      if (const auto* one = std::get_if<plan::HostCall>(&step.what)) call = one;
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->reason, c.reason);
    EXPECT_TRUE(call->device_bodies.empty());
    EXPECT_TRUE(p->variants[0].bodies.empty());
  }
}

}  // namespace
}  // namespace reprise
