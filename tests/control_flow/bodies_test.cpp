// Packages with control flow: what a package keeps of bodies, and what it refuses.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

/// y is x, doubled n times; all has the values in between.
constexpr const char* kDoubling = R"(graph doubling
symbol m in 0..2147483647 divisor 1 from host _ axis 0
input n: int64[]
input x: float32[2]
(y: float32[2], all: float32[m,2]) = Loop(n, _, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[2]
    next: float32[2] = Add(v, v) @16
    seen: float32[2] = Neg(next) @16
    output going
    output next
    output seen
  }
}
output y
output all
)";

std::shared_ptr<package::Package> compiled(const char* text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"vulkan-baseline"};
  options.probes = false;
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return std::make_shared<package::Package>(*std::move(p));
}

Result<std::vector<HostTensor>> doubled(std::shared_ptr<const package::Package> p, int64_t times) {
  auto session = Session::create(std::move(p), nullptr);
  EXPECT_TRUE(session.ok()) << session.status().message();
  const HostTensor n = HostTensor::from<int64_t>(DType::I64, {}, {times});
  const HostTensor x = HostTensor::from<float>(DType::F32, {2}, {1.0F, -3.0F});
  const Binding inputs[] = {{.name = "n", .host = &n}, {.name = "x", .host = &x}};
  return (*session)->run(inputs);
}

TEST(Bodies, SurviveThePackage) {
  const test::TempDir dir;
  const std::string path = dir / "doubling.rpk";
  ASSERT_TRUE(package::write(*compiled(kDoubling), path).ok());
  const auto read = package::read(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto results = doubled(*read, 3);
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_EQ((*results)[0].data<float>()[0], 8.0F);
  EXPECT_EQ((*results)[0].data<float>()[1], -24.0F);
  EXPECT_EQ((*results)[1].dims(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ((*results)[1].data<float>()[3], 12.0F);
}

/// Sizes of what a body captures come from its caller, whatever else its package has.
TEST(Bodies, WithSizesOfCapturesSurviveThePackage) {
  const test::TempDir dir;
  const auto package = compiled(R"(graph branches
input which: bool[]
input x: float32[n,m]
y: float32[n,m] = If(which, x, x) @16 {
  then_branch {
    capture a: float32[n,m]
    up: float32[n,m] = Cos(a) @7
    output up
  }
  else_branch {
    capture b: float32[n,m]
    down: float32[n,m] = Neg(b) @13
    output down
  }
}
output y
)");
  const std::string path = dir / "branches.rpk";
  ASSERT_TRUE(package::write(*package, path).ok());
  const auto read = package::read(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  auto session = Session::create(*read, nullptr);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const HostTensor which = HostTensor::from<uint8_t>(DType::Bool, {}, {0});
  const HostTensor x = HostTensor::from<float>(DType::F32, {1, 2}, {1.0F, -3.0F});
  const Binding inputs[] = {{.name = "which", .host = &which}, {.name = "x", .host = &x}};
  const auto results = (*session)->run(inputs);
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_EQ((*results)[0].data<float>()[1], 3.0F);
}

TEST(Bodies, LoopsEndAtTheTimeLimit) {
  SessionOptions options;
  options.timeout_ns = 50'000'000;
  auto session = Session::create(compiled(kDoubling), nullptr, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const HostTensor n = HostTensor::from<int64_t>(DType::I64, {}, {int64_t{1} << 62});
  const HostTensor x = HostTensor::from<float>(DType::F32, {2}, {1.0F, -3.0F});
  const Binding inputs[] = {{.name = "n", .host = &n}, {.name = "x", .host = &x}};
  const auto late = (*session)->run(inputs);
  ASSERT_EQ(late.status().code(), Code::Timeout);
  EXPECT_NE(late.status().message().find("time limit"), std::string::npos)
      << late.status().message();
}

TEST(Bodies, NoIterationStacksNothing) {
  const auto results = doubled(compiled(kDoubling), -1);
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_EQ((*results)[0].data<float>()[1], -3.0F);
  EXPECT_EQ((*results)[1].dims(), (std::vector<int64_t>{0, 2}));
}

TEST(Bodies, AreSharedByAllPlans) {
  const auto p = compiled(kDoubling);
  EXPECT_EQ(p->bodies.size(), 1U);
}

plan::HostCall& loop_of(plan::Plan& p) {
  return std::get<plan::HostCall>(p.steps[0].what);
}

TEST(Bodies, ThatDoNotFitAreRefused) {
  struct Case {
    const char* message;
    void (*damage)(package::Package&);
  };
  const Case cases[] = {
      {"body 1 does not exist", [](package::Package& p) { loop_of(p.host_plan).bodies = {1}; }},
      {"has 0 bodies instead of 1", [](package::Package& p) { loop_of(p.host_plan).bodies = {}; }},
      {"has 2 bodies instead of 1",
       [](package::Package& p) {
         loop_of(p.host_plan).bodies = {0, 0};
       }},
      {"captures input 7, which does not exist",
       [](package::Package& p) { p.bodies[0].captures = {7}; }},
      {"captures input 1, which does not exist",
       [](package::Package& p) { p.bodies[0].captures = {1}; }},
      {"it captures more values than it has inputs",
       [](package::Package& p) {
         p.bodies[0].captures = {0, 0, 0, 0};
       }},
      {"it inherits more symbols than it has",
       [](package::Package& p) { p.bodies[0].inherited_symbols = 99; }},
      {"body 0 does not exist",  // a body that calls itself
       [](package::Package& p) {
         plan::HostCall& call = loop_of(p.bodies[0].plan);
         call.op = "Loop";
         call.bodies = {0};
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const auto p = compiled(kDoubling);
    c.damage(*p);
    const Status s = package::verify(*p);
    EXPECT_EQ(s.code(), Code::CorruptPackage);
    EXPECT_NE(s.message().find(c.message), std::string::npos) << s.message();
  }
}

TEST(Bodies, ThatDoNotFitFailWhenTheyAreTaken) {
  const auto model = test::own_cases("inputs");
  CompileOptions options;
  options.targets = {};
  auto p = compile_file((model / "branch_that_does_not_fit_within/model.onnx").string(), options);
  ASSERT_TRUE(p.ok()) << p.status().message();
  ASSERT_EQ(p->explanation.notes.size(), 1U);
  auto session = Session::create(std::make_shared<package::Package>(*std::move(p)), nullptr);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const HostTensor x = HostTensor::from<float>(DType::F32, {1, 4}, {1, 2, 3, 4});
  for (const float limit : {100.0F, 1.0F}) {
    const HostTensor l = HostTensor::from<float>(DType::F32, {}, {limit});
    const Binding inputs[] = {{.name = "x", .host = &x}, {.name = "limit", .host = &l}};
    const auto results = (*session)->run(inputs);
    EXPECT_EQ(results.ok(), limit > 10) << results.status().message();
    if (results.ok()) continue;
    EXPECT_EQ(results.status().code(), Code::InvalidInput);
    EXPECT_NE(results.status().message().find("in the then_branch of node 'If(q)' (If): node "),
              std::string::npos)
        << results.status().message();
  }
}

TEST(Bodies, ErrorsNameTheIterationAndTheNode) {
  const auto results = doubled(compiled(R"(graph growing
symbol k in 0..2147483647 divisor 1 from host _ axis 0
symbol m in 0..2147483647 divisor 1 from host _ axis 0
input n: int64[]
input x: float32[2]
(y: float32[k], all: float32[m,k]) = Loop(n, _, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[k]
    next: float32[2*k] = Concat<axis=0>(v, v) @16
    output going
    output next
    output next
  }
}
output y
output all
)"),
                               3);
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.status().message(),
            "node 'loop' (Loop): iteration 1 returns float32[8], the first one float32[4]; the "
            "results of all iterations are stacked, so their shapes must be equal");
}

}  // namespace
}  // namespace reprise
