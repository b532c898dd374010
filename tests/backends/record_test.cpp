// Runs with states that an application records or that signal its semaphores, on its own device.
#include <array>
#include <bit>

#include "codegen/compile/compiler.h"
#include "contract.h"
#include "lend.h"

namespace reprise::test {
namespace {

/// A state that the input is added to, and the sum so far as the output.
constexpr const char* kSum = R"(graph sums
input x: float32[48]
input sum: float32[48]
next: float32[48] = Add(sum, x) @14
two: float32[48] = Add(next, next) @14
output two
output next
)";

std::shared_ptr<const package::Package> sums() {
  auto g = graph::parse(kSum);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"vulkan", "vulkan-descriptors"};
  options.states = {{"sum", "next"}};
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}

class RecordedStates : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    const std::string id = GetParam();
    if (!id.starts_with("vulkan")) GTEST_SKIP() << "only Vulkan has command buffers";
    lender_ = lend_vulkan(std::stoul(id.substr(id.find(':') + 1)));
    device_ = open(lender_.options);
    auto memory = device_->borrow(lender_.memory, 384);
    ASSERT_OK(memory.status());
    memory_ = *std::move(memory);
    session_ = session(sums(), device_);
    ASSERT_TRUE(session_);
    auto run = session_->make_run();
    ASSERT_OK(run.status());
    run_ = *std::move(run);
    input_ = {.name = "x", .device = memory_.get(), .dims = {48}};
    output_ = {.name = "two", .device = memory_.get(), .device_offset = 192};
    ASSERT_OK(run_->bind({&input_, 1}, {&output_, 1}));
  }
  void TearDown() override {
    run_.reset();
    session_.reset();
    memory_.reset();
    device_.reset();
    Contract::TearDown();
  }
  float sum() {
    auto value = session_->read_state("sum");
    EXPECT_TRUE(value.ok()) << value.status().message();
    return value.ok() ? value->data<float>()[47] : -1;
  }
  /// Executes a command buffer with the run, for an input of this value, and ends the run.
  std::vector<float> execute(float value) {
    Status recorded;
    std::vector<float> out = lender_.execute(
        std::bit_cast<uint32_t>(value), [&](void* commands) { recorded = run_->record(commands); },
        1);
    EXPECT_TRUE(recorded.ok()) << recorded.message();
    std::vector<HostTensor> results;
    const Status ended = run_->wait(results, nullptr);
    EXPECT_TRUE(ended.ok()) << ended.message();
    return out;
  }

  Lender lender_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceBuffer> memory_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<AsyncRun> run_;
  Binding input_, output_;
};

TEST_P(RecordedStates, GoOnFromRecordingToRecording) {
  float all = 0;
  for (const float value : {2.0F, -0.5F, 8.0F}) {
    all += value;
    EXPECT_EQ(execute(value)[95], 2 * all);
    EXPECT_EQ(sum(), all);
  }
  // Submitted runs and recorded ones take turns.
  std::vector<HostTensor> results;
  ASSERT_OK(run_->submit().status());
  ASSERT_OK(run_->wait(results, nullptr));
  EXPECT_EQ(sum(), all + 8);
  EXPECT_EQ(execute(1)[95], 2 * (all + 9));
}

TEST_P(RecordedStates, AreNobodyElsesWhileARunIsRecorded) {
  auto second = session_->make_run();
  ASSERT_OK(second.status());
  const HostTensor x(DType::F32, {48});
  const Binding host{.name = "x", .host = &x};
  ASSERT_OK((*second)->bind({&host, 1}, {}));
  Status recorded, refused;
  lender_.execute(
      0,
      [&](void* commands) {
        recorded = run_->record(commands);
        refused = (*second)->submit().status();
      },
      1);
  ASSERT_TRUE(recorded.ok()) << recorded.message();
  EXPECT_EQ(refused.code(), Code::Busy);
  std::vector<HostTensor> results;
  ASSERT_OK(run_->wait(results, nullptr));
  ASSERT_OK((*second)->submit().status());
  ASSERT_OK((*second)->wait(results, nullptr));
}

TEST_P(RecordedStates, ARunThatUpdatesThemSignals) {
  const uint64_t semaphore = lender_.make_semaphore();
  const SubmitSync::Point reached{semaphore, 1};
  execute(3);
  ASSERT_OK(run_->submit({.sync = {{}, {&reached, 1}}}).status());
  EXPECT_TRUE(lender_.wait_for(semaphore, 1, 60'000'000'000));
  std::vector<HostTensor> results;
  ASSERT_OK(run_->wait(results, nullptr));
  EXPECT_EQ(sum(), 6);
}

REPRISE_ON_ALL_DEVICES(RecordedStates);

}  // namespace
}  // namespace reprise::test
