#include "backends/cuda/device.h"

#include <array>
#include <cstring>

#include "backends/cuda/facts.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/recording.h"
#include "runtime/platform/parallel.h"

namespace reprise::cuda {
namespace {

Status leaves_buffer(const DeviceBuffer& b, uint64_t offset, uint64_t bytes) {
  if (offset <= b.size() && bytes <= b.size() - offset) return {};
  return {Code::Usage, "a transfer of " + std::to_string(bytes) + " bytes at offset " +
                           std::to_string(offset) + " leaves a buffer of " +
                           std::to_string(b.size()) + " bytes"};
}

Result<int> count_devices(const Library& library) {
  int count = 0;
  const CUresult r = library.fn().cuDeviceGetCount(&count);
  if (r != CUDA_SUCCESS)
    return Status(Code::Device, "cuDeviceGetCount failed: " + library.describe(r));
  return count;
}

// Finds the device of the application's context.
Status adopt_context(Driver& d, const BorrowedCuda& borrowed) {
  d.context = static_cast<CUcontext>(borrowed.context);
  d.borrowed_stream = static_cast<CUstream>(borrowed.stream);
  d.info.id = "cuda";
  {
    RP_CUDA_SCOPE(d);
    RP_TRY(d.check(d.fn().cuCtxGetDevice(&d.device), "cuCtxGetDevice"));
  }
  RP_ASSIGN(const int count, count_devices(*d.library));
  for (int i = 0; i < count; ++i) {
    CUdevice device = -1;
    RP_TRY(d.check(d.fn().cuDeviceGet(&device, i), "cuDeviceGet"));
    if (device != d.device) continue;
    d.info = query(*d.library, i);
    d.info.id = "cuda";
    return {};
  }
  return {Code::Device,
          "the borrowed CUDA context belongs to a device that the driver does not list"};
}

Status choose_device(Driver& d, size_t index) {
  RP_ASSIGN(const int count, count_devices(*d.library));
  if (index >= static_cast<size_t>(count)) {
    return {Code::Usage, "there is no device cuda:" + std::to_string(index) + "; found " +
                             std::to_string(count) + " CUDA device" + (count == 1 ? "" : "s")};
  }
  d.info = query(*d.library, static_cast<int>(index));
  return d.check(d.fn().cuDeviceGet(&d.device, static_cast<int>(index)), "cuDeviceGet");
}

Status make_streams(Driver& d) {
  d.transfers = d.borrowed_stream;
  if (d.transfers) return {};
  RP_CUDA_SCOPE(d);
  return d.check(d.fn().cuStreamCreate(&d.transfers, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

// In the application's stream a transfer follows the runs. The driver would wait for them inside
// the call, forever if one hangs, so no copy starts before they have ended.
Status before_transfer(const std::shared_ptr<Driver>& d) {
  constexpr uint64_t kSlice = 100'000'000;
  if (!d->transfers || d->transfers != d->borrowed_stream) return {};
  CUevent event = nullptr;
  RP_TRY(d->check(d->fn().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  const OwnedEvent owned(d, event);
  RP_TRY(d->check(d->fn().cuEventRecord(event, d->transfers), "cuEventRecord"));
  CUresult r = CUDA_ERROR_NOT_READY;
  while (r == CUDA_ERROR_NOT_READY) {
    RP_TRY(d->alive());
    RP_TRY(d->runs.wait_before("a transfer", d->info));
    r = d->wait_for(event, kSlice);
  }
  return d->check(r, "cuEventQuery");
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(std::shared_ptr<const Library> library,
                                                       size_t index,
                                                       const BackendOptions& options) {
  auto d = std::make_shared<Driver>();
  d->library = std::move(library);
  d->runs.patience_ns = options.patience_ns;
  d->lender = options.memory;
  if (options.cuda.context) {
    RP_TRY(adopt_context(*d, options.cuda));
  } else {
    RP_TRY(choose_device(*d, index));
    d->borrowed_stream = static_cast<CUstream>(options.cuda.stream);
  }
  if (!d->info.usable) {
    return Status(Code::Device,
                  d->info.id + " (" + d->info.name + ") cannot be used: " + d->info.reason);
  }
  if (!d->context) {
    RP_TRY(d->check(d->fn().cuDevicePrimaryCtxRetain(&d->context, d->device),
                    "cuDevicePrimaryCtxRetain"));
    d->owned = true;
  }
  RP_TRY(d->check_context());
  RP_TRY(make_streams(*d));
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(d), options.threads));
}

Result<std::unique_ptr<DeviceBuffer>> CudaDevice::allocate(uint64_t bytes, MemoryUse use) {
  RP_CUDA_SCOPE(*driver_);
  driver_->release_kept();
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, CudaBuffer::create(driver_, bytes, use));
  return b;
}

Result<std::unique_ptr<DeviceBuffer>> CudaDevice::borrow(void* handle, uint64_t bytes) {
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, CudaBuffer::borrow(driver_, handle, bytes));
  return b;
}

Result<std::unique_ptr<DeviceBuffer>> CudaDevice::import(const ExternalMemory& memory) {
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, CudaBuffer::import(driver_, memory));
  return b;
}

Result<std::unique_ptr<Recording>> CudaDevice::record(RecordingDesc desc) {
  RP_ASSIGN(std::unique_ptr<Recording> r, CudaRecording::create(driver_, desc));
  return r;
}

Result<std::shared_ptr<void>> CudaDevice::record_into(void* /*command_buffer*/,
                                                      const RecordingDesc& /*desc*/) {
  return unsupported(
      "CUDA has no command buffers; submit runs to the stream that the device was lent");
}

// The driver itself stages memory that is not pinned, in pieces of its choice.
Status CudaDevice::upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) {
  RP_TRY(driver_->alive());
  RP_TRY(leaves_buffer(dst, offset, bytes.size()));
  if (bytes.empty()) return {};
  if (dst.mapped()) {
    std::memcpy(static_cast<std::byte*>(dst.mapped()) + offset, bytes.data(), bytes.size());
    return {};
  }
  RP_CUDA_SCOPE(*driver_);
  RP_TRY(before_transfer(driver_));
  const Table& fn = driver_->fn();
  RP_TRY(driver_->check(fn.cuMemcpyHtoDAsync_v2(dst.address() + offset, bytes.data(), bytes.size(),
                                                driver_->transfers),
                        "cuMemcpyHtoDAsync"));
  return driver_->check(fn.cuStreamSynchronize(driver_->transfers), "cuStreamSynchronize");
}

Status CudaDevice::download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) {
  RP_TRY(driver_->alive());
  RP_TRY(leaves_buffer(src, offset, bytes.size()));
  if (bytes.empty()) return {};
  if (src.mapped()) {
    std::memcpy(bytes.data(), static_cast<const std::byte*>(src.mapped()) + offset, bytes.size());
    return {};
  }
  RP_CUDA_SCOPE(*driver_);
  RP_TRY(before_transfer(driver_));
  const Table& fn = driver_->fn();
  RP_TRY(driver_->check(fn.cuMemcpyDtoHAsync_v2(bytes.data(), src.address() + offset, bytes.size(),
                                                driver_->transfers),
                        "cuMemcpyDtoHAsync"));
  return driver_->check(fn.cuStreamSynchronize(driver_->transfers), "cuStreamSynchronize");
}

Status CudaDevice::write_view(const plan::BoundView& view,
                              std::span<std::byte, plan::BlockLayout::kViewBytes> to) const {
  const auto encode = driver_->fn().cuTensorMapEncodeTiled;
  if (!encode) {
    return unsupported(
        "the NVIDIA driver is too old: it lacks cuTensorMapEncodeTiled; update it, or "
        "compile the model with --targets cuda:sm_" +
        std::to_string(info().facts.cuda_arch));
  }
  constexpr std::array<uint32_t, TensorView::kMostRank> kSteps{1, 1, 1, 1, 1};
  const CUtensorMapDataType type = view.element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                   : view.element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                   : view.element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                                                             : CU_TENSOR_MAP_DATA_TYPE_UINT64;
  RP_CUDA_SCOPE(*driver_);
  CUtensorMap map{};
  static_assert(sizeof map == plan::BlockLayout::kViewBytes);
  // The innermost stride is that of the elements.
  RP_TRY(driver_->check(
      encode(&map, type, static_cast<uint32_t>(view.rank),
             reinterpret_cast<void*>(static_cast<uintptr_t>(view.address)), view.dims.data(),
             view.strides.data() + 1, view.box.data(), kSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
             static_cast<CUtensorMapSwizzle>(view.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled"));
  std::memcpy(to.data(), &map, sizeof map);
  return {};
}

bool CudaDevice::owns(const DeviceBuffer& buffer) const {
  const auto* own = dynamic_cast<const CudaBuffer*>(&buffer);
  return own && own->belongs_to(*driver_);
}

Counters CudaDevice::counters() const {
  return driver_->counters.read();
}

Result<std::vector<std::unique_ptr<DeviceKernel>>> CudaDevice::create_kernels(
    std::span<const plan::KernelCode> code) {
  RP_TRY(driver_->alive());
  std::vector<std::unique_ptr<DeviceKernel>> kernels(code.size());
  std::vector<Status> failures(code.size());
  RP_TRY(in_parallel(code.size(), threads_, "kernels were built", [&](size_t i) {
    auto kernel = CudaKernel::create(driver_, code[i]);
    if (kernel.ok()) {
      kernels[i] = std::move(*kernel);
    } else {
      failures[i] = kernel.status();
    }
  }));
  for (const Status& s : failures) RP_TRY(s);
  return kernels;
}

}  // namespace reprise::cuda
