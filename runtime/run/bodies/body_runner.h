// Control flow whose bodies run on the device: each body has contexts of its own, and takes and
// returns values in the caller's device memory.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/run/run_context.h"

namespace reprise {

/// A body and the values of one call of it.
struct BodyCall {
  const plan::HostCall& call;
  uint32_t body;                // index into SessionResources::bodies
  std::vector<Binding> inputs;  // what the operator passes; bind() adds what the body captures
  std::vector<std::optional<HostTensor>> captured = {};  // on the host
  std::vector<int64_t> symbols = {};                     // of the body
  /// Where results go. The others are returned.
  std::vector<std::optional<Binding>> outputs = {};
  host::RandomState random = {};
};

/// A run of a body. It stays where it is, because its parts refer to each other.
struct BodyRun {
  BodyRun() = default;
  BodyRun(const BodyRun&) = delete;
  BodyRun& operator=(const BodyRun&) = delete;

  uint32_t body = 0;
  RunContext* context = nullptr;
  std::vector<Binding> inputs;
  std::vector<std::optional<Binding>> outputs;
  BoundIo io;
};

class BodyRunner final : public BodyCalls {
 public:
  explicit BodyRunner(RunContext& caller);
  Status call(uint32_t step, CurrentRun& run) override;
  Availability poll() override;

  /// The value of a tensor of the caller for a body: in device memory, or on the host in `kept`.
  Result<Binding> passed(plan::BufferId id, CurrentRun& run, std::optional<HostTensor>& kept);
  /// Where a body can write an output of the call. None if nobody reads the output, or if its size
  /// depends on the body's result.
  Result<std::optional<Binding>> place_of(plan::BufferId id, const plan::Slot& slot,
                                          const CurrentRun& run);
  /// Adds the values that the body captures, and gives its symbols the values that they have in the
  /// caller, and those that the inputs determine.
  Status bind(BodyCall& c, CurrentRun& run);
  /// Begins a run of a body with SharedPlan::only_recorded. Unless it fails, end() follows.
  /// Runs that begin before earlier ones have ended have a `turn` each.
  Status begin(BodyCall& c, size_t turn, CurrentRun& run, BodyRun& body);
  /// Results that were written to their places are returned without bytes.
  Result<std::vector<HostTensor>> end(BodyRun& body, CurrentRun& run);
  /// Runs a body from its beginning to its end.
  Result<std::vector<HostTensor>> execute(BodyCall& c, CurrentRun& run);
  /// Memory for two values of each tensor that the iterations of a loop pass on.
  std::vector<std::array<CountedBuffer, 2>>& loop_memory(uint32_t step) { return loops_[step]; }
  /// Copies between buffers, and waits.
  Status copy_on_device(std::vector<Command> copies, CurrentRun& run);

  RunContext& caller() { return caller_; }

 private:
  Status run_branch(const plan::HostCall& call, const HostRun& host, CurrentRun& run);
  Result<RunContext*> context_of(uint32_t body, size_t turn);
  Status prepare(BodyCall& c, size_t turn, const CurrentRun& run, BodyRun& body);
  Status leave(const BodyRun& body, const Status& done, CurrentRun& run);
  const package::DeviceBody& body(uint32_t index) const {
    return *shared_.session.bodies[index]->body;
  }

  RunContext& caller_;
  const SharedPlan& shared_;                                             // of the caller
  std::map<uint32_t, std::vector<std::array<CountedBuffer, 2>>> loops_;  // per step
  /// Parallel to SessionResources::bodies; empty for bodies that no run has used. They keep their
  /// memory and recordings for later runs.
  std::vector<std::vector<std::unique_ptr<RunContext>>> contexts_;
  std::vector<RunContext*> late_;      // contexts of bodies that the device is still executing
  std::unique_ptr<Recording> copies_;  // the last one of copy_on_device()
};

/// For SessionResources::make_body_calls.
std::unique_ptr<BodyCalls> make_body_calls(RunContext& caller);

/// Checks that the tensor has the type of that input of the body.
Status check_type(const package::DeviceBody& body, size_t input, const plan::Buffer& buffer);

}  // namespace reprise
