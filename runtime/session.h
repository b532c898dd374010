// A compiled model bound to a device: loads weights once, records once, replays on each run.
//
// Threads: a Session may be run from several threads; each run takes a free run context (command
// buffer, parameter blocks, arena) or makes one, up to SessionOptions::max_in_flight, then waits.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/package/package.h"

namespace reprise {

struct SessionOptions {
  unsigned max_in_flight = 2;
  bool timestamps = false;  // per-kernel device times
  bool fullgraph = false;   // a plan with host calls is Code::Unsupported naming the nodes
  bool replay = true;       // false: record again on each run (mode "default")
  bool warm_up = false;     // create() launches every kernel on nothing: drivers that compile at
                            // the first launch do so then, and not in the first run
  /// create() runs the probes of the package's kernels. If one fails, create() takes the next
  /// variant that fits the device and whose kernels pass, and at last the host's plan; `log` and
  /// variant_notes() say why. A package without probes is taken as it is.
  bool check_kernels = false;
  /// Where the results of checks are kept, so that kernels are checked again only on another device
  /// or driver. Empty: nowhere.
  std::string cache_dir = {};
  std::function<void(const std::string&)> log = {};
  /// Each intermediate tensor in an allocation of its own, of its exact size, instead of a place
  /// in the arena: for tools that watch allocations.
  bool isolate_tensors = false;
  /// Of one run; 0: a minute, on CPU-type devices ten, because their drivers compile kernels when
  /// they are launched first.
  uint64_t timeout_ns = 0;
};

/// A tensor of the caller: host memory, or a device buffer that is used in place (zero copies).
struct Binding {
  std::string name;
  const HostTensor* host = nullptr;       // inputs
  std::span<std::byte> host_output = {};  // outputs: written here, at least as large as the result
  DeviceBuffer* device = nullptr;         // inputs and outputs; must outlive the run
  uint64_t device_offset = 0;             // multiple of 16
  std::vector<int64_t> dims = {};         // of `device` inputs
};

struct RunStats {
  double host_submit_us = 0;  // from entering run to submit returning, without staging copies
  double total_us = 0;
  std::vector<double> kernel_us;  // per launch, plan order; with timestamps
  uint64_t bytes_copied = 0;      // staging copies of this run
};

/// Sums over all runs; dispatches, barriers and copies are those executed on the device.
struct SessionStats {
  uint64_t runs = 0, recordings = 0, submits = 0, dispatches = 0, barriers = 0, copies = 0;
  uint64_t compiles = 0;  // 0 for a package: nothing is compiled after load
  uint64_t device_bytes = 0;
  double load_ms = 0;
};

/// Empty if a variant of the package fits a device with these facts; else why each does not.
std::string why_unfit(const package::Package& package, const DeviceFacts& facts);

class Session {
 public:
  virtual ~Session() = default;
  /// Missing, unknown or duplicate names, wrong dtypes, ranks and dims are InvalidInput errors that
  /// name the tensor with what was expected and found. Outputs that are not bound come back as host
  /// tensors in output order; bound ones have their dtype and dims there, and no bytes.
  /// Memory that two runs in flight share must not be written by either.
  Result<std::vector<HostTensor>> run(std::span<const Binding> inputs,
                                      std::span<const Binding> outputs = {},
                                      RunStats* stats = nullptr) {
    std::vector<HostTensor> results;
    RP_TRY(run_into(inputs, outputs, results, stats));
    return results;
  }
  /// The same with results that are used again. A plan of launches alone whose sizes are those of
  /// an earlier run allocates nothing on the heap when all outputs are bound.
  virtual Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                          std::vector<HostTensor>& results, RunStats* stats) = 0;
  virtual const plan::Interface& io() const = 0;
  /// The variant in use, and why earlier ones were not taken: "NAME: reason". A note that begins
  /// with its own name is about a variant that is not quite the device's: PTX for want of an image.
  virtual const std::string& variant() const = 0;
  virtual const std::vector<std::string>& variant_notes() const = 0;
  virtual const plan::Plan& plan() const = 0;
  virtual SessionStats stats() const = 0;
  virtual Device* device() = 0;  // null for the host

  /// `device` null: the host reference plan.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const package::Package> package,
                                                 const std::shared_ptr<Device>& device,
                                                 const SessionOptions& options = {});
};

}  // namespace reprise
