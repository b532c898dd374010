// Peers that submit their work to a stream of the device's primary context, which Reprise's
// sessions use as well.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver.h"
#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {

/// The context, a stream and two events.
struct PeerContext {
  std::shared_ptr<cuda::Driver> driver;
  cuda::OwnedEvent start, end;
  uint64_t memory = 0;  // of the device, in bytes

  static Result<std::shared_ptr<PeerContext>> open(int ordinal);
  cuda::CUstream stream() const { return driver->transfers; }
  Result<cuda::OwnedMemory> allocate(uint64_t bytes) const;
};

class StreamPeer : public Contender {
 public:
  explicit StreamPeer(std::shared_ptr<const PeerContext> context) : context_(std::move(context)) {}

  Status run() override;
  Status time_on_device() override {
    timed_ = true;
    return {};
  }
  double device_ms() const override { return device_ms_; }
  double submit_us() const override { return submit_us_; }
  Result<HostTensor> output(size_t index) override;
  int64_t launches() const override { return -1; }

 protected:
  /// Submits the work of one run to the stream. The context is current.
  virtual Status enqueue() = 0;
  // Allocate device memory for an input, which gets the value, and for the only output.
  Status add_input(const HostTensor& value);
  Status add_output(DType dtype, const std::vector<int64_t>& dims);
  const PeerContext& context() const { return *context_; }
  void* input(size_t i) const { return pointer(inputs_[i]); }
  void* output_memory() const { return pointer(output_); }
  static void* pointer(const cuda::OwnedMemory& m) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(m.get()));
  }

 private:
  std::shared_ptr<const PeerContext> context_;
  std::vector<cuda::OwnedMemory> inputs_;
  cuda::OwnedMemory output_;
  HostTensor shape_;  // the output's dtype and dims
  bool timed_ = false;
  double device_ms_ = -1, submit_us_ = -1;
};

}  // namespace reprise::bench::gpu
