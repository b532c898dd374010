// Who computes a case: us on a device, or a peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/case.h"
#include "runtime/backend.h"

namespace reprise::bench::gpu {

class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  /// One run, waited for.
  virtual Status run() = 0;
  /// From now on runs tell their device time; they may cost more.
  virtual Status time_on_device() = 0;
  /// Of the last run; less than 0 where it is not known.
  virtual double device_ms() const = 0;
  /// Host time until the device has the last run.
  virtual double submit_us() const = 0;
  virtual Result<HostTensor> output(size_t index) = 0;
  virtual int64_t launches() const = 0;
};

using ContenderPtr = std::unique_ptr<Contender>;

/// The compiled case in a session of ours.
Result<ContenderPtr> our_contender(const Case& c, const Tensors& values,
                                   const std::shared_ptr<Device>& device);

/// A name, a contender or why there is none, and the precision that its results are judged by.
struct Entry {
  std::string name;
  DType judged_as = DType::F32;
  std::function<Result<ContenderPtr>()> make;
};

}  // namespace reprise::bench::gpu
