// Tests against the stand-in driver (tests/cuda_standin), which CTest puts on LD_LIBRARY_PATH.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backends/cuda/cuda.h"
#include "runtime/session/session.h"
#include "tests/support/plans.h"

namespace reprise::test {

class OnStandin : public testing::Test {
 protected:
  void SetUp() override;
  /// Nothing is left behind, whatever failed, unless the test says that the driver keeps it.
  void TearDown() override;
  /// REPRISE_STANDIN_<key>; set back after the test.
  void set(const std::string& key, const std::string& value);
  /// As the error of the Nth call of a symbol, "*" of any, from now on.
  void fail(const std::string& symbol, uint64_t nth, int error);
  void reset_calls();
  bool driver_keeps_some_ = false;
  uint64_t stat(const std::string& key) const;
  uint64_t calls(const std::string& symbol) const { return stat("calls:" + symbol); }
  std::shared_ptr<Device> open(size_t index = 0, const BackendOptions& options = {});
  std::unique_ptr<Session> session(std::shared_ptr<const package::Package> package,
                                   std::shared_ptr<Device> device,
                                   const SessionOptions& options = {});

 private:
  std::vector<std::string> changed_;
  uint64_t misuses_ = 0;
};

/// Runs a chain() with x = 0, 1, 2, ... of n elements; the error, or that values are wrong.
Status run_chain(Session& session, int64_t n, float added, RunStats* stats = nullptr);

}  // namespace reprise::test
