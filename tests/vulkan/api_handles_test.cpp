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
  Result<std::vector<StateRows>> change_rows(std::span<const size_t> /*which*/,
                                             RowChange /*change*/, int64_t /*rows*/) override {
    return std::vector<StateRows>();
  }
  const Status unknown = check({40, 0, 0, 0, 7, 0});
  EXPECT_NE(unknown.message().find("later version"), std::string::npos) << unknown.message();
}

}  // namespace
}  // namespace reprise::test
