// What a caller gives a run, and what it learns about it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/device/backend.h"

namespace reprise {

/// A tensor of the caller: host memory, or a device buffer that a run uses in place unless its rows
/// have a pitch. An input has `host` or `device`, an output has `host_output` or `device`. The
/// memory must outlive the run.
struct Binding {
  std::string name;
  const HostTensor* host = nullptr;       // for inputs
  std::span<std::byte> host_output = {};  // for outputs; at least as large as the result
  DeviceBuffer* device = nullptr;         // for inputs and outputs
  uint64_t device_offset = 0;             // in bytes; a multiple of 16
  std::vector<int64_t> dims = {};         // of inputs in `device`
  std::optional<DType> dtype = {};        // likewise, if the caller states it
  /// Instead of memory, if the slot is an image. It must outlive the run.
  const DeviceImage* image = nullptr;
  /// Bytes from one row, along the first axis, to the next in the memory; 0: the rows are dense.
  uint64_t row_pitch = 0;
};

struct RunStats {
  double host_submit_us = 0;  // host work until submissions returned, without staging copies
  double total_us = 0;
  std::vector<double> kernel_us;  // per launch in plan order, then by body; only with timestamps
  uint64_t bytes_copied = 0;      // by staging copies
  uint32_t plan = 0;  // of the variant: 0 is that for all sizes, n is Variant::plans[n - 1]
  double longest_slice_us = 0;  // device time of the longest submission; only with slice_ns
};

/// How a run that does not block is submitted.
struct SubmitOptions {
  SubmitSync sync = {};
  /// Called once, in the thread of the device's EndWatcher, as soon as AsyncRun::ended() would not
  /// return false. The call may end the run, and submit it again.
  EndCall at_end = {};
  /// If the flag is set, the run leaves out what it has not begun of its submissions, host kernels
  /// and iterations, and fails with Code::Cancelled. A run that has begun all of them succeeds.
  const CancelFlag* cancelled = nullptr;
};

}  // namespace reprise
