// The memory of a run's inputs and outputs. Tensors of the caller on the device are used in place;
// tensors on the host have device memory here, and staging memory if the host cannot map that.
// Images of the application, and rows with a pitch, are copied on the device, in the submissions of
// the kernels that use them.
#pragma once

#include <utility>
#include <vector>

#include "runtime/run/current_run.h"
#include "runtime/run/run_memory.h"

namespace reprise {

class IoMemory {
 public:
  /// Device memory of a model input or output that the caller binds to host memory.
  struct HostBound {
    CountedBuffer device;
    CountedBuffer staging;  // only if `device` is not mapped
    bool staged = false;    // this run copies between the two
  };

  /// The arguments must outlive the object.
  IoMemory(const SharedPlan& shared, RunMemory& memory);

  /// Binds what the run has for the inputs and outputs, and copies inputs from host memory. Outputs
  /// of sizes that host calls determine are bound later, by bind_output().
  Status bind(CurrentRun& run);
  Status bind_output(size_t i, const CurrentRun& run);
  /// Copies an input to the device for those who read it before the recording that would.
  Status upload_early(size_t input, const CurrentRun& run);

  const std::vector<HostBound>& inputs() const { return inputs_; }
  const std::vector<HostBound>& outputs() const { return outputs_; }
  /// Copies of this run between its memory and images, or rows with a pitch, of the caller.
  const std::vector<PixelCopy>& pixels_in() const { return pixels_in_; }
  /// The same for outputs, each with the segment that it follows.
  const std::vector<std::pair<size_t, PixelCopy>>& pixels_out() const { return pixels_out_; }
  /// Changes when a buffer is replaced, to which recorded copies refer.
  uint64_t generation() const { return generation_; }
  /// The memory that it keeps on the device for later runs.
  uint64_t held_bytes() const;

 private:
  Status ensure_memory(HostBound& tensor, uint64_t bytes, MemoryUse staging);
  Status ensure_device_memory(HostBound& tensor, uint64_t bytes);
  Status bind_input(size_t i, CurrentRun& run);
  Status bind_pixels_in(size_t i, const Binding& b, const Rows& rows);
  Status bind_pixels_out(size_t o, const Binding& b);

  const SharedPlan& shared_;
  RunMemory& memory_;
  std::vector<HostBound> inputs_, outputs_;
  std::vector<bool> uploaded_early_;  // per input
  std::vector<PixelCopy> pixels_in_;
  std::vector<std::pair<size_t, PixelCopy>> pixels_out_;
  uint64_t generation_ = 0;
};

}  // namespace reprise
