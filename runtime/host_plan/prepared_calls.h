// What host kernels prepare once for all runs of a session.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/host/host_kernels.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// The prepared states of the host calls of a plan. Immutable after creation.
class PreparedCalls {
 public:
  /// Returns the value of a weight.
  using Weight = std::function<Result<HostTensor>(plan::BufferId)>;

  /// Fails if there is no kernel for a call. One whose preparation fails has no state: its kernel
  /// reports the error if it runs.
  static Result<PreparedCalls> create(const plan::Plan& plan, const Weight& weight);

  std::shared_ptr<const host::Prepared> of(size_t step) const {
    return step < states_.size() ? states_[step] : nullptr;
  }

 private:
  std::vector<std::shared_ptr<const host::Prepared>> states_;  // per step
};

}  // namespace reprise
