// Handles of the C interface that are freed while they are used.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/api.h"

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
  explicit SlowSession(Gate& gate) : gate_(gate) {}
  ~SlowSession() override { gate_.set(&Gate::destroyed); }
  Status run_into(std::span<const Binding>, std::span<const Binding>,
                  std::vector<HostTensor>& results, RunStats*) override {
    gate_.set(&Gate::running);
    gate_.wait(&Gate::released);
    results = {HostTensor::from<float>(DType::F32, {1}, {7})};
    return {};
  }
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
  auto* session =
      capi::make_handle(std::make_shared<reprise_session>(std::make_shared<SlowSession>(gate)));
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

}  // namespace
}  // namespace reprise::test
