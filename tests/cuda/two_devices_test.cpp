// Two devices: what happens on one is nothing to the other.
#include <array>
#include <thread>

#include "on_standin.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

class CudaTwoDevices : public OnStandin {
 protected:
  void SetUp() override {
    OnStandin::SetUp();
    if (IsSkipped()) return;
    set("DEVICES", "2");
    for (size_t d = 0; d < 2; ++d) devices_[d] = open(d);
  }
  void TearDown() override {
    devices_ = {};
    OnStandin::TearDown();
  }
  std::array<std::shared_ptr<Device>, 2> devices_;
};

/// y = x + 1, by a kernel of this name.
std::shared_ptr<const package::Package> one_kernel(const std::string& name) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(100)});
  const auto y = w.output("y", DType::F32, {Expr(100)});
  w.launch(w.kernel(affine_kernel(name, 1, 1)), {x, y}, {Expr(100)});
  return w.package();
}

TEST_F(CudaTwoDevices, SessionsOnBothRunAtOnce) {
  EXPECT_EQ(devices_[0]->info().id, "cuda:0");
  EXPECT_EQ(devices_[1]->info().id, "cuda:1");
  std::array<Status, 4> results;
  std::vector<std::thread> threads;
  std::array<std::unique_ptr<Session>, 2> sessions;
  for (size_t d = 0; d < 2; ++d) {
    sessions[d] = session(chain(3 + d, 0, true), devices_[d], {.max_in_flight = 2});
    ASSERT_TRUE(sessions[d]);
  }
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const size_t d = t % 2;
      for (size_t run = 0; run < 20 && results[t].ok(); ++run) {
        results[t] = run_chain(*sessions[d], static_cast<int64_t>((t * 37 + run * 113) % 700),
                               3.0F + static_cast<float>(d));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Status& s : results) EXPECT_TRUE(s.ok()) << s.message();
}

TEST_F(CudaTwoDevices, ABufferOfOneIsRefusedByTheOther) {
  auto s = session(one_kernel("plus"), devices_[0]);
  ASSERT_TRUE(s);
  auto own = devices_[0]->allocate(400, MemoryUse::Device);
  auto foreign = devices_[1]->allocate(400, MemoryUse::Device);
  ASSERT_TRUE(own.ok() && foreign.ok());
  const HostTensor x = floats({100}, ramp(100));
  ASSERT_OK(devices_[0]->upload(**own, 0, x.bytes()));
  const uint64_t launches = calls("cuGraphLaunch");
  const Status in = s->run({{{.name = "x", .device = foreign->get(), .dims = {100}}}}).status();
  const Status out = s->run({{{.name = "x", .device = own->get(), .dims = {100}}}},
                            {{{.name = "y", .device = foreign->get()}}})
                         .status();
  const std::pair<const Status*, const char*> refused[] = {{&in, "'x'"}, {&out, "'y'"}};
  for (const auto& [status, name] : refused) {
    EXPECT_EQ(status->code(), Code::InvalidInput);
    for (const char* part : {name, "another device"})
      EXPECT_NE(status->message().find(part), std::string::npos) << status->message();
  }
  EXPECT_EQ(calls("cuGraphLaunch"), launches);
  ASSERT_OK(s->run({{{.name = "x", .device = own->get(), .dims = {100}}}}).status());
}

TEST_F(CudaTwoDevices, AFaultOnOneLeavesTheOtherAlone) {
  {
    auto bad = session(one_kernel("bad"), devices_[0]);
    auto good = session(chain(3, 0, true), devices_[1]);
    ASSERT_TRUE(bad && good);
    ASSERT_OK(run_chain(*bad, 100, 1));
    Status during;
    std::thread beside([&] {
      for (int run = 0; run < 30 && during.ok(); ++run) during = run_chain(*good, 100 + run, 3);
    });
    set("FAULT", "bad");
    const Status fault = run_chain(*bad, 100, 1);
    set("FAULT", "");
    beside.join();
    EXPECT_EQ(fault.code(), Code::DeviceLost);
    EXPECT_NE(fault.message().find("cuda:0"), std::string::npos) << fault.message();
    EXPECT_TRUE(during.ok()) << during.message();
    EXPECT_EQ(devices_[0]->allocate(64, MemoryUse::Device).status().code(), Code::DeviceLost);
    ASSERT_OK(devices_[1]->allocate(64, MemoryUse::Device).status());
    ASSERT_OK(run_chain(*good, 77, 3));
  }
  devices_[0].reset();  // and the other stays open
  devices_[0] = open(0);
  auto again = session(one_kernel("bad"), devices_[0]);
  auto good = session(chain(2, 50, false), devices_[1]);
  ASSERT_TRUE(again && good);
  ASSERT_OK(run_chain(*again, 100, 1));
  ASSERT_OK(run_chain(*good, 50, 2));
}

TEST_F(CudaTwoDevices, TheCommandLineListsBoth) {
  const std::vector<std::string> both{"REPRISE_STANDIN_DEVICES=2"};
  const ProcessResult r = run_process({program("reprise"), "devices"}, both);
  EXPECT_EQ(r.status, 0) << r.err;
  for (const char* part : {"cuda:0", "cuda:1", "Reprise stand-in 2"})
    EXPECT_NE(r.out.find(part), std::string::npos) << r.out;
}

}  // namespace
}  // namespace reprise::test
