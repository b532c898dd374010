// Every call of the driver fails once, in each state of runs that do not block: submitted, polled,
// ended, several in flight, bound again, destroyed in flight.
#include <array>
#include <atomic>

#include "intercept.h"
#include "support.h"

namespace reprise::test {
namespace {

/// A run with an input and an output in host memory.
struct InFlight {
  InFlight(Session& session, int64_t n) {
    auto made = session.make_run();
    if (made.ok()) run = *std::move(made);
    resize(n);
  }
  void resize(int64_t n) {
    x = floats({n}, ramp(static_cast<size_t>(n)));
    y.assign(static_cast<size_t>(n), -1);
    inputs[0] = {.name = "x", .host = &x};
    outputs[0] = {.name = "y", .host_output = std::as_writable_bytes(std::span(y))};
    bound = run->bind(inputs, outputs);
  }
  bool is_right() const {
    for (size_t i = 0; i < y.size(); ++i)
      if (y[i] != x.data<float>()[i] + 2) return false;
    return true;
  }
  HostTensor x;
  std::vector<float> y;
  std::array<Binding, 1> inputs, outputs;
  Status bound;
  std::vector<HostTensor> results;
  std::unique_ptr<AsyncRun> run;  // destroyed first
};

/// Remembers the first failure, and goes on.
class Outcome {
 public:
  /// Whether it succeeded.
  bool add(const Status& s) {
    if (first_.ok()) first_ = s;
    return s.ok();
  }
  const Status& first() const { return first_; }

 private:
  Status first_;
};

void end(InFlight& r, Outcome& outcome) {
  if (!outcome.add(r.run->wait(r.results, nullptr))) return;
  EXPECT_TRUE(r.is_right());
}

/// All states of runs, whatever fails.
Status live(Session& session) {
  Outcome outcome;
  std::atomic<int> called = 0;
  const EndCall at_end{[](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &called};
  int submitted = 0;
  {
    InFlight a(session, 10), b(session, 1000), c(session, 7);
    const bool a_runs = outcome.add(a.run->submit({.at_end = at_end}).status());
    const bool b_runs = outcome.add(b.run->submit({.at_end = at_end}).status());
    submitted = (a_runs ? 1 : 0) + (b_runs ? 1 : 0);
    Result<bool> ended = !a_runs;
    for (int ask = 0; ask < 3 && ended.ok() && !*ended; ++ask) ended = a.run->ended();
    outcome.add(ended.status());
    if (a_runs && ended.ok()) end(a, outcome);
    a.resize(5000);
    const bool again = outcome.add(a.bound) && outcome.add(a.run->submit().status());
    if (b_runs) end(b, outcome);
    outcome.add(c.run->submit().status());  // destroyed in flight
    if (again) end(a, outcome);
    const HostTensor x = floats({3}, ramp(3));
    const auto y = session.run({{{.name = "x", .host = &x}}});
    if (outcome.add(y.status())) {
      EXPECT_EQ((*y)[0].data<float>()[2], x.data<float>()[2] + 2);
    }
  }
  EXPECT_LE(called, 2);
  EXPECT_GE(called, submitted);  // a call may also belong to a submission that failed later
  return outcome.first();
}

class AsyncFaults : public OnDevice {
 protected:
  /// Call `n` from here on fails; false if there are fewer.
  bool inject(int64_t n, VkResult error) {
    calls().reset();
    const std::string where = "call " + std::to_string(n) + " fails: ";
    {
      auto device = open(intercept);
      auto s = session(chain(2, 0, true), device, {.max_in_flight = 3});
      if (!s) return false;
      calls().error = error;
      calls().fail_after = n;
      const Status failure = live(*s);
      const bool failed = calls().failed;
      calls().fail_after = -1;
      if (!failed) {
        EXPECT_TRUE(failure.ok()) << failure.message();
        return false;
      }
      const bool lost = error == VK_ERROR_DEVICE_LOST;
      if (!failure.ok()) {
        EXPECT_EQ(failure.code(), lost ? Code::DeviceLost : Code::OutOfMemory)
            << where << failure.message();
        EXPECT_NE(failure.message().find("vk"), std::string::npos) << where << failure.message();
      }
      auto next = lost ? open(intercept) : device;
      auto other = session(chain(2, 0, true), next);
      EXPECT_TRUE(other) << where;
      if (!other) return false;
      const Status after = live_once(*other);
      EXPECT_TRUE(after.ok()) << where << after.message();
    }
    EXPECT_EQ(calls().created, calls().destroyed) << where;
    return true;
  }

 private:
  static Status live_once(Session& session) {
    const HostTensor x = floats({4}, ramp(4));
    RP_ASSIGN(const auto y, session.run({{{.name = "x", .host = &x}}}));
    return y[0].data<float>()[3] == x.data<float>()[3] + 2 ? Status()
                                                           : internal_error("a wrong result");
  }
};

TEST_P(AsyncFaults, SomeCallFails) {
  expect_messages_ = true;  // the layer comments on some injected failures
  int64_t injected = 0;
  const auto error = [&] {
    return injected % 2 == 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_ERROR_DEVICE_LOST;
  };
  while (inject(3 * injected, error())) ++injected;
  EXPECT_GT(injected, 5);
}

TEST_P(AsyncFaults, FullEveryCallFailsInTurn) {
  expect_messages_ = true;
  for (const VkResult error :
       {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_DEVICE_LOST}) {
    int64_t n = 0;
    while (inject(n, error)) ++n;
    EXPECT_GT(n, 15);
  }
}

REPRISE_ON_DEVICES(AsyncFaults);

}  // namespace
}  // namespace reprise::test
