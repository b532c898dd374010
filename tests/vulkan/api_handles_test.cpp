// Handles of the C interface that are freed while they are used.
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/api.h"

namespace reprise::test {
namespace {

/// A session whose runs take until they are released.
class SlowSession final : public Session {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool running = false, released = false, destroyed = false;
    void set(bool Gate::*flag) {
      const std::lock_guard lock(mutex);
      this->*flag = true;
      changed.notify_all();
    }
    void wait(bool Gate::*flag) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return this->*flag; });
    }
  };
  explicit SlowSession(Gate& gate) : gate_(gate) {
    io_.outputs.push_back({"y", DType::F32, {Expr(1)}});
  }
  ~SlowSession() override { gate_.set(&Gate::destroyed); }
  Status run_into(std::span<const Binding>, std::span<const Binding>,
                  std::vector<HostTensor>& results, RunStats*) override {
    gate_.set(&Gate::running);
    gate_.wait(&Gate::released);
    results = {HostTensor::from<float>(DType::F32, {1}, {7})};
    return {};
  }
  Result<std::unique_ptr<AsyncRun>> make_run() override { return unsupported("it is slow"); }
  Result<std::shared_ptr<States>> make_states() override { return unsupported("it is slow"); }
  Status bind_states(const std::shared_ptr<States>&) override { return unsupported("it is slow"); }
  const plan::Interface& io() const override { return io_; }
  const std::string& variant() const override { return name_; }
  const std::vector<std::string>& variant_notes() const override { return notes_; }
  const plan::Plan& plan() const override { return plan_; }
  SessionStats stats() const override { return {}; }
  Device* device() override { return nullptr; }
  const package::Package& package() const override { return package_; }
  Result<std::vector<HostTensor>> read_states(std::span<const size_t>) override {
    return std::vector<HostTensor>{};
  }
  Status write_states(std::span<const size_t>, std::span<const HostTensor>) override { return {}; }
  Result<std::vector<StateRows>> change_rows(std::span<const size_t>, RowChange, int64_t) override {
    return std::vector<StateRows>();
  }

 private:
  Gate& gate_;
  package::Package package_;
  plan::Interface io_;
  plan::Plan plan_;
  std::string name_ = "slow";
  std::vector<std::string> notes_;
};

TEST(ApiHandles, ASessionMayBeFreedWhileItRuns) {
  SlowSession::Gate gate;
  auto slow =
      std::make_shared<reprise_session>(std::make_shared<package::Package>(), SessionOptions());
  slow->put(std::make_shared<SlowSession>(gate));
  auto* session = capi::make_handle(std::move(slow));
  reprise_results* results = nullptr;
  reprise_status status = REPRISE_INTERNAL;
  std::thread runner([&] {
    status = reprise_session_run(session, nullptr, 0, nullptr, 0, &results, nullptr, nullptr);
  });
  gate.wait(&SlowSession::Gate::running);
  reprise_session_free(session);
  EXPECT_FALSE(gate.destroyed);
  gate.set(&SlowSession::Gate::released);
  runner.join();
  EXPECT_EQ(status, REPRISE_OK);
  EXPECT_TRUE(gate.destroyed);
  reprise_tensor t = REPRISE_TENSOR_INIT;
  EXPECT_EQ(reprise_results_get(results, 0, &t, nullptr), REPRISE_OK);
  EXPECT_EQ(*static_cast<const float*>(t.data), 7.0F);
  reprise_results_free(results);
}

TEST(ApiHandles, StructsOfOtherVersions) {
  // A struct that grew twice, from 16 and 24 bytes to 32.
  const std::array<size_t, 2> ends{16, 24};
  const auto check = [&](const std::array<uint64_t, 6>& given) {
    return capi::check_struct(given.data(), given[0], 32, ends, "reprise_thing");
  };
  for (const uint64_t size : {16, 24, 32, 40, 48})
    EXPECT_TRUE(check({size, 1, 1, 1, 0, 0}).ok()) << size;
  for (const auto& [size, message] :
       std::vector<std::pair<uint64_t, std::string>>{{0, "REPRISE_..._INIT"},
                                                     {8, "not that of any version"},
                                                     {20, "not that of any version"},
                                                     {33, "implausible"},
                                                     {uint64_t{1} << 40, "implausible"}}) {
    const Status s = check({size, 0, 0, 0, 0, 0});
    EXPECT_EQ(s.code(), Code::Usage) << size;
    EXPECT_NE(s.message().find(message), std::string::npos) << s.message();
  }
  const Status unknown = check({40, 0, 0, 0, 7, 0});
  EXPECT_NE(unknown.message().find("later version"), std::string::npos) << unknown.message();
}

}  // namespace
}  // namespace reprise::test
