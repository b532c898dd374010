#include "bench/gpu/stream_peer.h"

#include "backends/cuda/facts.h"
#include "runtime/base/timing.h"

namespace reprise::bench::gpu {

using namespace cuda;

Result<std::shared_ptr<PeerContext>> PeerContext::open(int ordinal) {
  auto context = std::make_shared<PeerContext>();
  auto driver = std::make_shared<Driver>();
  RP_ASSIGN(driver->library, Library::open(kDriverLibrary, {}));
  driver->info = query(*driver->library, ordinal);
  const Table& fn = driver->fn();
  RP_TRY(driver->check(fn.cuDeviceGet(&driver->device, ordinal), "cuDeviceGet"));
  size_t memory = 0;
  RP_TRY(driver->check(fn.cuDeviceTotalMem_v2(&memory, driver->device), "cuDeviceTotalMem"));
  context->memory = memory;
  RP_TRY(driver->check(fn.cuDevicePrimaryCtxRetain(&driver->context, driver->device),
                       "cuDevicePrimaryCtxRetain"));
  driver->owned = true;
  const Scope scope(*driver);
  RP_TRY(driver->check(scope.entered(), "cuCtxPushCurrent"));
  RP_TRY(driver->check(fn.cuStreamCreate(&driver->transfers, CU_STREAM_NON_BLOCKING),
                       "cuStreamCreate"));
  for (OwnedEvent* event : {&context->start, &context->end}) {
    CUevent made = nullptr;
    RP_TRY(driver->check(fn.cuEventCreate(&made, CU_EVENT_DEFAULT), "cuEventCreate"));
    *event = OwnedEvent(driver, made);
  }
  context->driver = std::move(driver);
  return context;
}

Result<OwnedMemory> PeerContext::allocate(uint64_t bytes) const {
  RP_CUDA_SCOPE(*driver);
  CUdeviceptr address = 0;
  RP_TRY(driver->check(driver->fn().cuMemAlloc_v2(&address, std::max<uint64_t>(bytes, 16)),
                       "cuMemAlloc"));
  return OwnedMemory(driver, address);
}

Status StreamPeer::run() {
  Driver& d = *context_->driver;
  RP_CUDA_SCOPE(d);
  if (timed_) {
    RP_TRY(
        d.check(d.fn().cuEventRecord(context_->start.get(), context_->stream()), "cuEventRecord"));
  }
  const double before = now_ms();
  RP_TRY(enqueue());
  submit_us_ = (now_ms() - before) * 1000;
  if (timed_)
    RP_TRY(d.check(d.fn().cuEventRecord(context_->end.get(), context_->stream()), "cuEventRecord"));
  RP_TRY(d.check(d.fn().cuStreamSynchronize(context_->stream()), "cuStreamSynchronize"));
  if (!timed_) return {};
  float ms = 0;
  RP_TRY(d.check(d.fn().cuEventElapsedTime(&ms, context_->start.get(), context_->end.get()),
                 "cuEventElapsedTime"));
  device_ms_ = static_cast<double>(ms);
  return {};
}

Result<HostTensor> StreamPeer::output(size_t) {
  Driver& d = *context_->driver;
  RP_CUDA_SCOPE(d);
  HostTensor t(shape_.dtype(), shape_.dims());
  RP_TRY(d.check(d.fn().cuMemcpyDtoHAsync_v2(t.mutable_bytes().data(), output_.get(),
                                             t.bytes().size(), context_->stream()),
                 "cuMemcpyDtoHAsync"));
  RP_TRY(d.check(d.fn().cuStreamSynchronize(context_->stream()), "cuStreamSynchronize"));
  return t;
}

Status StreamPeer::add_input(const HostTensor& value) {
  Driver& d = *context_->driver;
  RP_ASSIGN(OwnedMemory memory, context_->allocate(value.bytes().size()));
  RP_CUDA_SCOPE(d);
  RP_TRY(d.check(d.fn().cuMemcpyHtoDAsync_v2(memory.get(), value.bytes().data(),
                                             value.bytes().size(), context_->stream()),
                 "cuMemcpyHtoDAsync"));
  RP_TRY(d.check(d.fn().cuStreamSynchronize(context_->stream()), "cuStreamSynchronize"));
  inputs_.push_back(std::move(memory));
  return {};
}

Status StreamPeer::add_output(DType dtype, const std::vector<int64_t>& dims) {
  shape_ = HostTensor(dtype, dims);
  std::ranges::fill(shape_.mutable_bytes(), std::byte{0xff});
  RP_TRY(add_input(shape_));
  output_ = std::move(inputs_.back());
  inputs_.pop_back();
  return {};
}

}  // namespace reprise::bench::gpu
