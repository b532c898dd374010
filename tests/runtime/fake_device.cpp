#include "fake_device.h"

#include <cstring>

#include "runtime/plan/block_layout.h"

namespace reprise::test {
namespace {

using plan::BlockLayout;

class FakeBuffer final : public DeviceBuffer {
 public:
  FakeBuffer(uint64_t bytes, bool mapped) : memory_((bytes + 15) / 16 * 2 + 2, ~uint64_t{0}) {
    size_ = bytes;
    address_ = reinterpret_cast<uint64_t>(memory_.data());
    address_ += address_ % 16;
    if (mapped) mapped_ = reinterpret_cast<void*>(address_);
  }
  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  std::vector<uint64_t> memory_;
};

struct FakeKernel final : DeviceKernel {
  explicit FakeKernel(FakeKernelFunction f) : function(std::move(f)) {}
  FakeKernelFunction function;
};

std::byte* data_of(const DeviceBuffer* b) {
  return static_cast<const FakeBuffer*>(b)->data();
}

class FakeRecording final : public Recording {
 public:
  FakeRecording(RecordingDesc desc, FakeDevice& device) : desc_(std::move(desc)), device_(device) {}

  using Recording::submit;
  Status submit(const SubmitSync&, uint64_t) override {
    device_.count(&Counters::submits);
    const std::byte* blocks = data_of(desc_.blocks);
    for (const Command& c : desc_.commands) {
      if (c.kind == Command::Kind::Copy)
        std::memcpy(data_of(c.dst) + c.dst_offset, data_of(c.src) + c.src_offset, c.bytes);
      if (!c.kernel) continue;
      FakeLaunch launch{blocks + c.block_offset, c.grid};
      if (c.kind == Command::Kind::DispatchIndirect)
        std::memcpy(launch.grid.data(), blocks + c.indirect_offset, 12);
      static_cast<const FakeKernel*>(c.kernel)->function(launch);
    }
    return {};
  }
  Status wait(uint64_t) override { return {}; }
  Result<bool> poll(uint64_t) override { return true; }
  bool watch(uint64_t) override { return true; }
  Result<bool> ended() override { return true; }
  Result<std::vector<double>> dispatch_ns() override { return std::vector<double>{}; }

 private:
  RecordingDesc desc_;
  FakeDevice& device_;
};

}  // namespace

float* FakeLaunch::buffer(size_t i) const {
  uint64_t address = 0;
  std::memcpy(&address, block + BlockLayout::buffer_offset(i), sizeof(address));
  return reinterpret_cast<float*>(address);
}

int32_t FakeLaunch::scalar(size_t n_buffers, size_t i) const {
  int32_t v = 0;
  BlockLayout layout;
  std::memcpy(&v, block + layout.scalar_offset(n_buffers, i), sizeof(v));
  return v;
}

void FakeLaunch::set_error(uint32_t code) const {
  uint64_t address = 0;
  uint32_t id = 0;
  std::memcpy(&address, block + BlockLayout::kErrorAddress, sizeof(address));
  std::memcpy(&id, block + BlockLayout::kLaunchId, sizeof(id));
  const uint32_t word = id << 8 | code;
  std::memcpy(reinterpret_cast<void*>(address), &word, sizeof(word));
}

FakeDevice::FakeDevice(bool mapped, std::map<std::string, FakeKernelFunction> kernels)
    : mapped_(mapped), functions_(std::move(kernels)) {
  info_.id = "fake:0";
  info_.name = "fake";
  info_.facts.api = Api::Vulkan;
  info_.facts.kind = DeviceKind::DiscreteGpu;
  info_.facts.buffer_address = true;
}

Result<std::unique_ptr<DeviceBuffer>> FakeDevice::allocate(uint64_t bytes, MemoryUse use) {
  count(&Counters::allocations);
  return Result<std::unique_ptr<DeviceBuffer>>(
      std::make_unique<FakeBuffer>(bytes, mapped_ || use != MemoryUse::Device));
}

Result<std::unique_ptr<DeviceBuffer>> FakeDevice::borrow(void*, uint64_t) {
  return unsupported("the fake device has no foreign memory");
}

Result<std::vector<std::unique_ptr<DeviceKernel>>> FakeDevice::create_kernels(
    std::span<const plan::KernelCode> code) {
  std::vector<std::unique_ptr<DeviceKernel>> kernels;
  for (const plan::KernelCode& c : code) {
    const auto it = functions_.find(c.name);
    if (it == functions_.end()) return unsupported("no fake kernel '" + c.name + "'");
    kernels.push_back(std::make_unique<FakeKernel>(it->second));
  }
  return kernels;
}

Result<std::unique_ptr<Recording>> FakeDevice::record(RecordingDesc desc) {
  count(&Counters::recordings);
  for (const Command& c : desc.commands) {
    if (c.kind == Command::Kind::Copy) count(&Counters::copies_recorded);
    if (c.kernel) count(&Counters::dispatches_recorded);
    if (c.kind == Command::Kind::Barrier || c.kind == Command::Kind::HostBarrier)
      count(&Counters::barriers_recorded);
  }
  return Result<std::unique_ptr<Recording>>(
      std::make_unique<FakeRecording>(std::move(desc), *this));
}

Status FakeDevice::upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) {
  ++transfers;
  if (!bytes.empty()) std::memcpy(data_of(&dst) + offset, bytes.data(), bytes.size());
  return {};
}

Status FakeDevice::download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) {
  ++transfers;
  if (!bytes.empty()) std::memcpy(bytes.data(), data_of(&src) + offset, bytes.size());
  return {};
}

Status FakeDevice::write_view(const plan::BoundView& view,
                              std::span<std::byte, plan::BlockLayout::kViewBytes> to) const {
  ++views;
  std::memcpy(to.data(), &view.address, sizeof view.address);
  std::memcpy(&to[8], view.dims.data(), sizeof view.dims);
  std::memcpy(&to[48], view.strides.data(), sizeof view.strides);
  return {};
}

}  // namespace reprise::test
