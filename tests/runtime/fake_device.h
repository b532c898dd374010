// A device in host memory whose kernels are C++ functions: for what real devices here never do,
// such as memory that the host cannot see. Recordings are executed when they are submitted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/device/backend.h"

namespace reprise::test {

/// A kernel's view of its launch.
struct FakeLaunch {
  const std::byte* block = nullptr;
  std::array<uint32_t, 3> grid{};

  float* buffer(size_t i) const;
  int32_t scalar(size_t n_buffers, size_t i) const;
  void set_error(uint32_t code) const;
};
using FakeKernelFunction = std::function<void(const FakeLaunch&)>;

class FakeDevice final : public Device {
 public:
  /// `mapped`: whether MemoryUse::Device memory is visible to the host.
  FakeDevice(bool mapped, std::map<std::string, FakeKernelFunction> kernels);
  const DeviceInfo& info() const override { return info_; }
  DeviceInfo& mutable_info() { return info_; }
  Result<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes, MemoryUse use) override;
  Result<std::unique_ptr<DeviceBuffer>> borrow(void* handle, uint64_t bytes) override;
  Result<std::vector<std::unique_ptr<DeviceKernel>>> create_kernels(
      std::span<const plan::KernelCode> code) override;
  Result<std::unique_ptr<Recording>> record(RecordingDesc desc) override;
  Result<std::shared_ptr<void>> record_into(void*, const RecordingDesc&) override {
    return unsupported("it is a fake");
  }
  Status upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) override;
  Status download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) override;
  /// Writes the address, then the dims and strides.
  Status write_view(const plan::BoundView& view,
                    std::span<std::byte, plan::BlockLayout::kViewBytes> to) const override;
  bool owns(const DeviceBuffer& buffer) const override { return !foreign || &buffer != foreign; }
  Counters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  void count(uint64_t Counters::*what) {
    const std::lock_guard lock(mutex_);
    ++(counters_.*what);
  }
  const DeviceBuffer* foreign = nullptr;  // a buffer to disown
  uint64_t transfers = 0;                 // uploads and downloads outside recordings
  mutable uint64_t views = 0;             // that were written

 private:
  bool mapped_;
  std::map<std::string, FakeKernelFunction> functions_;
  DeviceInfo info_;
  Counters counters_;
  mutable std::mutex mutex_;  // guards counters_
};

}  // namespace reprise::test
