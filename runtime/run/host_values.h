// The values of a run on the host: what host calls take and return, and the results of the run.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/run/io_memory.h"

namespace reprise {

class HostValues {
 public:
  /// The arguments must outlive the object.
  HostValues(SharedPlan& shared, RunMemory& memory, IoMemory& io)
      : shared_(shared), memory_(memory), io_(io) {}

  /// Begins a run, which has no values yet.
  void begin_run();
  /// Frees the values of a run that has ended.
  void clear() { tensors_.clear(); }
  /// The value of any tensor.
  Result<HostTensor> fetch(plan::BufferId id, CurrentRun& run);
  /// Keeps a result that is on the host, and uploads it if kernels read it.
  Status accept(plan::BufferId id, HostTensor value, CurrentRun& run);
  /// Places the tensors whose sizes the last host calls determined.
  Status place_late(const CurrentRun& run);
  /// Ends a run: updates states that no kernel updates, and delivers the outputs.
  Status deliver(CurrentRun& run, std::vector<HostTensor>& results);

 private:
  struct Tensor {
    std::optional<HostTensor> value;
    bool placed = false;  // a late tensor has its memory
  };
  bool has(plan::BufferId id) const { return !tensors_.empty() && tensors_[id].value; }
  Status upload(plan::BufferId id, const HostTensor& value, CurrentRun& run);
  Status read(plan::BufferId id, std::span<std::byte> out);
  Status copy_states(CurrentRun& run);
  Status keep_passed_through(CurrentRun& run);
  Status deliver_output(size_t output, CurrentRun& run, HostTensor& result);
  Status deliver_to_device(plan::BufferId id, const SharedPlan::OutputSource& source,
                           const Binding& b, CurrentRun& run);

  SharedPlan& shared_;
  RunMemory& memory_;
  IoMemory& io_;
  IdVector<plan::BufferId, Tensor> tensors_;  // empty if the plan has only launches
};

}  // namespace reprise
