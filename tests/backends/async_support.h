// What tests of runs that do not block share.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "contract.h"

namespace reprise::test {

/// A run with an input and an output in host memory.
struct HostRunOf {
  HostRunOf(Session& session, int64_t n, float scale)
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
  /// Whether y is x plus `added`.
  bool is_right(float added) const {
    for (size_t i = 0; i < y.size(); ++i)
      if (y[i] != x.data<float>()[i] + added) return false;
    return true;
  }
  HostTensor x;
  std::vector<float> y;
  std::array<Binding, 1> inputs, outputs;
  std::unique_ptr<AsyncRun> run;
  std::vector<HostTensor> results;
};

}  // namespace reprise::test
