// Whose memory a run reads, writes and returns, and what is left when it is interrupted.
#include <gtest/gtest.h>

#include <new>

#include "fake_device.h"
#include "runtime/session/session.h"
#include "tests/support/buffer_ids.h"

namespace reprise::test {
namespace {

// x [4] -> y = 2x by a launch, view = x by a host call, same = x as an alias.
std::shared_ptr<const package::Package> model() {
  const Shape shape{Expr(4)};
  package::Package p;
  p.model_name = "m";
  p.io.inputs = {{"x", DType::F32, shape}};
  p.io.outputs = {
      {"y", DType::F32, shape}, {"view", DType::F32, shape}, {"same", DType::F32, shape}};
  p.variants.resize(1);
  p.variants[0].name = "only";
  for (plan::Plan* plan : {&p.host_plan, &p.variants[0].plan}) {
    plan->buffers = {{"x", plan::BufferKind::Input, 0, DType::F32, shape},
                     {"y", plan::BufferKind::Output, 0, DType::F32, shape},
                     {"view", plan::BufferKind::Output, 1, DType::F32, shape},
                     {"same", plan::BufferKind::Output, 2, DType::F32, shape}};
    plan->aliases = {{plan::BufferId(0), plan::BufferId(3)}};
    plan->steps.resize(2);
    plan::HostCall call;
    call.op = "Identity";
    call.node = "identity";
    call.inputs = buffers(0);
    call.outputs = buffers(2);
    plan->steps[0].what = call;
    call.op = "Add";
    call.inputs = buffers(0, 0);
    call.outputs = buffers(1);
    plan->steps[1].what = call;
  }
  plan::Plan& plan = p.variants[0].plan;
  plan.kernels.resize(1);
  plan.kernels[0].name = "twice";
  plan.kernels[0].n_buffers = 2;
  plan::Launch launch;
  launch.grid = {Expr(1), Expr(1), Expr(1)};
  launch.buffers = buffers(0, 1);
  launch.writes = {false, true};
  launch.nodes = {"twice"};
  plan.steps[1].what = launch;
  plan::compute_hazards(plan);
  plan::compute_hazards(p.host_plan);
  return std::make_shared<package::Package>(std::move(p));
}

std::shared_ptr<FakeDevice> fake_memory(bool mapped, FakeKernelFunction twice = {}) {
  if (!twice) {
    twice = [](const FakeLaunch& l) {
      for (int i = 0; i < 4; ++i) l.buffer(1)[i] = 2 * l.buffer(0)[i];
    };
  }
  return std::make_shared<FakeDevice>(mapped,
                                      std::map<std::string, FakeKernelFunction>{{"twice", twice}});
}

std::vector<float> values(const HostTensor& t) {
  return {t.data<float>(), t.data<float>() + t.count()};
}

void expect_invalid(const Status& s, const std::vector<std::string>& parts) {
  EXPECT_EQ(s.code(), Code::InvalidInput);
  for (const std::string& part : parts)
    EXPECT_NE(s.message().find(part), std::string::npos) << "'" << part << "' in: " << s.message();
}

class SessionMemory : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::shared_ptr<Device> device;
    if (GetParam() != "host") device = fake_memory(GetParam() == "mapped");
    auto made = Session::create(model(), device);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session_ = std::move(*made);
  }
  std::vector<float> x_{1, 2, 3, 4};
  HostTensor input_ = HostTensor::borrow(DType::F32, {4}, std::as_bytes(std::span(x_)), nullptr);
  std::unique_ptr<Session> session_;
};

TEST_P(SessionMemory, ResultsOutliveTheInputs) {
  auto r = session_->run({{{.name = "x", .host = &input_}}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  x_.assign(4, -1.0F);
  EXPECT_EQ(values((*r)[0]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(values((*r)[1]), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values((*r)[2]), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(SessionMemory, OutputsOnTheHostMayBeWhereAnInputWas) {
  std::vector<float> view(4);
  const Binding y{.name = "y", .host_output = std::as_writable_bytes(std::span(x_))};
  const Binding v{.name = "view", .host_output = std::as_writable_bytes(std::span(view))};
  auto r = session_->run({{{.name = "x", .host = &input_}}}, {{y, v}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(x_, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(view, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values((*r)[2]), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(SessionMemory, OutputsOnTheHostDoNotOverlap) {
  std::vector<float> memory(8);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  const auto run = [&](size_t offset) {
    const Binding y{.name = "y", .host_output = bytes};
    const Binding v{.name = "view", .host_output = bytes.subspan(offset)};
    return session_->run({{{.name = "x", .host = &input_}}}, {{y, v}}).status();
  };
  expect_invalid(run(12), {"output 'view'", "output 'y'", "shares memory"});
  const Status beside = run(16);
  EXPECT_TRUE(beside.ok()) << beside.message();
}

INSTANTIATE_TEST_SUITE_P(All, SessionMemory, testing::Values("host", "mapped", "staged"),
                         [](const auto& which) { return which.param; });

TEST(DeviceMemory, OutputsDoNotOverlapInputsOrEachOther) {
  auto device = fake_memory(true);
  auto session = Session::create(model(), device);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto buffer = device->allocate(256, MemoryUse::Device);
  ASSERT_TRUE(buffer.ok());
  const auto run = [&](uint64_t y, uint64_t same) {
    const Binding input{.name = "x", .device = buffer->get(), .device_offset = 64, .dims = {4}};
    return (*session)
        ->run({{input}}, {{{.name = "y", .device = buffer->get(), .device_offset = y},
                           {.name = "same", .device = buffer->get(), .device_offset = same}}})
        .status();
  };
  expect_invalid(run(64, 0), {"input 'x'", "output 'y'", "shares memory"});
  expect_invalid(run(128, 64), {"input 'x'", "output 'same'"});
  expect_invalid(run(16, 16), {"output 'y'", "output 'same'"});
  const Status beside = run(48, 80);
  EXPECT_TRUE(beside.ok()) << beside.message();
}

TEST(DeviceMemory, OfAnotherDeviceIsRefused) {
  auto device = fake_memory(true);
  auto session = Session::create(model(), device);
  ASSERT_TRUE(session.ok());
  auto buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_TRUE(buffer.ok());
  device->foreign = buffer->get();
  const HostTensor x = HostTensor::from<float>(DType::F32, {4}, {1, 2, 3, 4});
  expect_invalid((*session)->run({{{.name = "x", .device = buffer->get(), .dims = {4}}}}).status(),
                 {"input 'x'", "another device"});
  expect_invalid(
      (*session)
          ->run({{{.name = "x", .host = &x}}}, {{{.name = "y", .device = buffer->get()}}})
          .status(),
      {"output 'y'", "another device"});
}

// Memory may run out anywhere in a run; the session must not count that run as in flight forever.
TEST(DeviceSession, AnInterruptedRunGivesItsContextBack) {
  bool fails = true;
  auto device = fake_memory(true, [&](const FakeLaunch& l) {
    if (fails) throw std::bad_alloc();
    for (int i = 0; i < 4; ++i) l.buffer(1)[i] = 2 * l.buffer(0)[i];
  });
  auto session = Session::create(model(), device, {.max_in_flight = 1});
  ASSERT_TRUE(session.ok());
  const HostTensor x = HostTensor::from<float>(DType::F32, {4}, {1, 2, 3, 4});
  const std::vector<Binding> inputs{{.name = "x", .host = &x}};
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(static_cast<void>((*session)->run(inputs)), std::bad_alloc);
  fails = false;
  auto r = (*session)->run(inputs);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(values((*r)[0]), (std::vector<float>{2, 4, 6, 8}));
}

}  // namespace
}  // namespace reprise::test
