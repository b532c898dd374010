#include "tests/support/async_life.h"

#include <array>
#include <atomic>

#include "tests/support/host_run.h"
#include "tests/support/plans.h"

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
  bool is_right(float added) const { return is_sum(y, x, added); }
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

void end(InFlight& r, float added, Outcome& outcome) {
  if (!outcome.add(r.run->wait(r.results, nullptr))) return;
  EXPECT_TRUE(r.is_right(added));
}

/// Asks a few times whether the run has ended, then waits for it.
void poll_to_end(InFlight& r, float added, Outcome& outcome) {
  Result<bool> ended = false;
  for (int ask = 0; ask < 3 && ended.ok() && !*ended; ++ask) ended = r.run->ended();
  if (outcome.add(ended.status())) end(r, added, outcome);
}

void several_in_flight(Session& session, Outcome& outcome) {
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
    if (a_runs && ended.ok()) end(a, 2, outcome);
    a.resize(5000);
    const bool again = outcome.add(a.bound) && outcome.add(a.run->submit().status());
    if (b_runs) end(b, 2, outcome);
    outcome.add(c.run->submit().status());  // destroyed in flight
    if (again) end(a, 2, outcome);
    const HostTensor x = floats({3}, ramp(3));
    const auto y = session.run({{{.name = "x", .host = &x}}});
    if (outcome.add(y.status())) {
      EXPECT_EQ((*y)[0].data<float>()[2], x.data<float>()[2] + 2);
    }
  }
  EXPECT_LE(called, 2);
  EXPECT_GE(called, submitted);  // a call may also belong to a submission that failed later
}

/// A run that is cancelled before its second part, and one that is not, which is polled or waited
/// for.
void cancelled_or_not(Session& session, float added, bool poll, Outcome& outcome) {
  InFlight r(session, 10);
  CancelFlag cancelled = true;
  if (outcome.add(r.run->submit({.cancelled = &cancelled}).status())) {
    const Status done = r.run->wait(r.results, nullptr);
    EXPECT_FALSE(done.ok());
    if (done.code() != Code::Cancelled) outcome.add(done);
  }
  if (!outcome.add(r.run->submit().status())) return;
  poll ? poll_to_end(r, added, outcome) : end(r, added, outcome);
}

/// A launch, a host kernel, and a launch.
std::shared_ptr<const package::Package> with_a_host_kernel() {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(10)});
  const auto y = w.output("y", DType::F32, {Expr(10)});
  const auto a = w.arena("a", DType::F32, {Expr(10)}), b = w.arena("b", DType::F32, {Expr(10)});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 1.0F)), {x, a}, {Expr(10)});
  w.host("Identity", {a}, {b});
  w.launch(w.kernel(affine_kernel("plus2", 1.0F, 2.0F)), {b, y}, {Expr(10)});
  return w.package();
}

}  // namespace

Result<std::unique_ptr<AsyncLife>> AsyncLife::create(const std::shared_ptr<Device>& device) {
  std::unique_ptr<AsyncLife> life(new AsyncLife);
  const auto package = chain(2, 0, true);
  RP_ASSIGN(life->whole_, Session::create(package, device, {.max_in_flight = 3}));
  RP_ASSIGN(life->sliced_, Session::create(package, device, {.slice_ns = 1}));
  RP_ASSIGN(life->with_host_, Session::create(with_a_host_kernel(), device));
  return life;
}

Status AsyncLife::live() {
  Outcome outcome;
  several_in_flight(*whole_, outcome);
  for (const bool poll : {false, true}) cancelled_or_not(*sliced_, 2, poll, outcome);
  for (const bool poll : {false, true}) cancelled_or_not(*with_host_, 3, poll, outcome);
  return outcome.first();
}

Status live_once(const std::shared_ptr<Device>& device) {
  RP_ASSIGN(const auto s, Session::create(chain(2, 0, true), device));
  const HostTensor x = floats({4}, ramp(4));
  RP_ASSIGN(const auto y, s->run({{{.name = "x", .host = &x}}}));
  return y[0].data<float>()[3] == x.data<float>()[3] + 2 ? Status()
                                                         : internal_error("a wrong result");
}

}  // namespace reprise::test
