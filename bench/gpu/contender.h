// A contender computes a case: Reprise on a device, or a peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/case.h"
#include "runtime/device/backend.h"

namespace reprise::bench::gpu {

class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  /// Runs once and waits.
  virtual Status run() = 0;
  /// From now on, runs measure their device time, which may make them slower.
  virtual Status time_on_device() = 0;
  /// The device time of the last run; negative if it is not known.
  virtual double device_ms() const = 0;
  /// The host time until the last run was submitted.
  virtual double submit_us() const = 0;
  virtual Result<HostTensor> output(size_t index) = 0;
  virtual int64_t launches() const = 0;
};

using ContenderPtr = std::unique_ptr<Contender>;

/// Runs the compiled case in a session of Reprise.
Result<ContenderPtr> our_contender(const Case& c, const Tensors& values,
                                   const std::shared_ptr<Device>& device,
                                   const CompileOptions& options);

/// The name of a contender, the precision whose tolerance its results must meet, and a function
/// that creates it or says why it cannot.
struct Entry {
  std::string name;
  DType judged_as = DType::F32;
  std::function<Result<ContenderPtr>()> make;
  std::string unfit = {};  // if not empty: why the device cannot compute the case
};

}  // namespace reprise::bench::gpu
