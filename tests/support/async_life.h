// Runs that do not block, in all of their states, for tests in which calls of a driver fail.
#pragma once

#include <memory>

#include "runtime/session/session.h"

namespace reprise::test {

/// Sessions whose runs are submitted, polled, waited for, cancelled, bound again and destroyed in
/// flight; several in flight, some that call at their end, some in slices, some with a host kernel.
class AsyncLife {
 public:
  static Result<std::unique_ptr<AsyncLife>> create(const std::shared_ptr<Device>& device);
  /// Goes through all states, whatever fails. Results of runs that succeed must be right. Returns
  /// the first failure.
  Status live();

 private:
  AsyncLife() = default;
  std::unique_ptr<Session> whole_, sliced_, with_host_;
};

/// A session of the device computes the right result.
Status live_once(const std::shared_ptr<Device>& device);

}  // namespace reprise::test
