// A run that does not block, with an input and an output in host memory.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/plans.h"

namespace reprise::test {

/// Whether y is x plus `added`.
inline bool is_sum(std::span<const float> y, const HostTensor& x, float added) {
  for (size_t i = 0; i < y.size(); ++i)
    if (y[i] != x.data<float>()[i] + added) return false;
  return true;
}

/// Of a model like chain(): y of n elements is x plus a number, and x is a ramp.
struct HostRun {
  HostRun(Session& session, int64_t n, float scale = 1)
      : x(floats({n}, ramp(static_cast<size_t>(n), scale))), y(static_cast<size_t>(n)) {
    inputs[0].name = "x";
    inputs[0].host = &x;
    outputs[0].name = "y";
    outputs[0].host_output = std::as_writable_bytes(std::span(y));
    auto made = session.make_run();
    EXPECT_TRUE(made.ok()) << made.status().message();
    run = *std::move(made);
    const Status bound = run->bind(inputs, outputs);
    EXPECT_TRUE(bound.ok()) << bound.message();
  }
  /// Submits the run with nothing in y that an earlier run left there.
  Status submit() {
    std::ranges::fill(y, -1.0F);
    return run->submit().status();
  }
  Status wait() { return run->wait(results, nullptr); }
  bool is_right(float added) const { return is_sum(y, x, added); }
  HostTensor x;
  std::vector<float> y;
  std::array<Binding, 1> inputs, outputs;
  std::unique_ptr<AsyncRun> run;
  std::vector<HostTensor> results;
};

}  // namespace reprise::test
