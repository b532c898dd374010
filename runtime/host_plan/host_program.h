// Plans of host calls that are ready to run: the host plan of a package, and the bodies of If, Loop
// and Scan.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/host_plan/prepared_calls.h"
#include "runtime/package/package.h"

namespace reprise {

class HostBodies;

/// Code::Cancelled if the flag, which may be null, is set.
Status check_cancelled(const CancelFlag* cancelled);

/// What all host calls of a run, or of one iteration, have in common.
struct HostRun {
  Deadline deadline;
  const CancelFlag* cancelled = nullptr;
  host::RandomState random = {};
  /// Run `number` of a session with that seed.
  static HostRun create(Deadline deadline, uint64_t seed, uint64_t number);
  /// The same for an iteration of a loop.
  HostRun iteration(uint64_t number) const;
};

/// A plan of host calls with its weights. Runs are thread-safe.
class HostProgram {
 public:
  /// Checks and borrows the weights of the plan. The arguments must outlive the program.
  static Result<HostProgram> load(const package::Package& package, const plan::Plan& plan,
                                  const plan::Interface& io);

  /// Runs the calls in the order of the plan. `inputs` are those of the interface, then its states,
  /// and the results are its outputs, then the next values of the states. Symbols that only results
  /// determine are assigned. The results may share memory with inputs and weights.
  /// After the deadline or a cancellation no further call starts, and the run fails.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs,
                                      std::vector<int64_t>& symbols, const HostBodies& bodies,
                                      const HostRun& run) const;

 private:
  using Values = IdVector<plan::BufferId, std::optional<HostTensor>>;

  HostProgram(const plan::Plan& plan, const plan::Interface& io) : plan_(&plan), io_(&io) {}
  Status load_weights(const package::Package& package);
  Status find_outputs();
  Status find_last_uses();
  Status run_step(size_t step, Values& values, std::vector<int64_t>& symbols,
                  const HostBodies& bodies, const HostRun& run) const;

  const plan::Plan* plan_;
  const plan::Interface* io_;
  Values weights_;  // per buffer
  PreparedCalls prepared_;
  std::vector<std::vector<plan::BufferId>> dead_;  // per step: buffers that are not needed after it
  std::vector<plan::BufferId> output_buffer_;      // per result, with aliases resolved
};

/// The bodies of a package, ready to run. Thread-safe.
class HostBodies {
 public:
  /// The package must outlive the bodies.
  static Result<HostBodies> load(const package::Package& package);

  /// A body that a call names. Fails if there is none.
  Result<const plan::Body*> find(const plan::HostCall& call, size_t i) const;
  /// Runs a body with the values that the operator passes, then those that the body captures among
  /// the inputs of the call. `symbols` are the caller's.
  Result<std::vector<HostTensor>> run(const plan::HostCall& call, size_t i,
                                      std::span<const HostTensor* const> passed,
                                      std::span<const HostTensor* const> call_inputs,
                                      std::span<const int64_t> symbols, const HostRun& run) const;

 private:
  const std::vector<plan::Body>* bodies_ = nullptr;
  std::vector<HostProgram> programs_;  // parallel
};

}  // namespace reprise
