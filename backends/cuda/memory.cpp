#include "backends/cuda/memory.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace reprise::cuda {
namespace {

constexpr uint64_t kAlignment = 16;  // kernels rely on it

/// The driver's information about a pointer; zeros for memory that CUDA does not know.
struct PointerInfo {
  CUcontext context = nullptr;
  CUmemorytype type{};
  int managed = 0, device = -1;
};

Result<PointerInfo> pointer_info(Driver& d, uint64_t address) {
  PointerInfo p;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&p.context, &p.type, &p.managed, &p.device};
  const CUresult r =
      d.fn().cuPointerGetAttributes(std::size(attributes), attributes, values, address);
  if (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_CONTEXT) return PointerInfo{};
  RP_TRY(d.check(r, "cuPointerGetAttributes"));
  return p;
}

/// The bytes from the address to the end of its allocation or mapped piece. Pointer attributes
/// would give the range of reserved addresses, whether or not they have memory.
Result<uint64_t> bytes_from(Driver& d, uint64_t address) {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  const CUresult r = d.fn().cuMemGetAddressRange_v2(&begin, &bytes, address);
  if (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_FOUND) return 0;
  RP_TRY(d.check(r, "cuMemGetAddressRange"));
  const uint64_t offset = address - begin;
  return offset < bytes ? bytes - offset : 0;
}

/// Why kernels of the context cannot use that memory; empty if they can.
std::string why_foreign(const Driver& d, const PointerInfo& p) {
  if (p.managed != 0) return {};
  if (p.type != CU_MEMORYTYPE_DEVICE) return "is not device or managed memory";
  if (p.device != d.device) return "is memory of another device than " + d.info.id;
  // Memory of pools and mapped memory belong to no context.
  if (p.context && p.context != d.context) return "is memory of another context";
  return {};
}

// If memory was mapped in pieces, the range may continue in the next piece.
Status check_range(Driver& d, uint64_t address, uint64_t bytes) {
  const std::string subject = "the borrowed CUdeviceptr of " + std::to_string(bytes) + " bytes ";
  uint64_t room = 0;
  while (true) {
    RP_ASSIGN(const PointerInfo p, pointer_info(d, address + room));
    const std::string foreign = why_foreign(d, p);
    uint64_t more = 0;
    if (foreign.empty()) {
      RP_ASSIGN(more, bytes_from(d, address + room));
    }
    if (more == 0 && room == 0)
      return {Code::Usage, subject + (foreign.empty() ? "has no memory" : foreign)};
    room += more;
    if (room >= bytes) return {};
    if (more == 0 || p.context) break;
  }
  return {Code::Usage, subject + "leaves its allocation, which has " + std::to_string(room) +
                           " bytes from there on"};
}

}  // namespace

Status CudaBuffer::make_device_memory() {
  CUdeviceptr address = 0;
  RP_TRY(driver_->check(driver_->fn().cuMemAlloc_v2(&address, size_), "cuMemAlloc"));
  memory_ = {driver_, address};
  address_ = address;
  return {};
}

Status CudaBuffer::make_host_memory() {
  void* pointer = nullptr;
  RP_TRY(driver_->check(driver_->fn().cuMemHostAlloc(
                            &pointer, size_, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                        "cuMemHostAlloc"));
  host_memory_ = {driver_, pointer};
  return find_address(pointer);
}

Status CudaBuffer::find_address(void* host) {
  mapped_ = host;
  CUdeviceptr address = 0;
  RP_TRY(driver_->check(driver_->fn().cuMemHostGetDevicePointer_v2(&address, host, 0),
                        "cuMemHostGetDevicePointer"));
  address_ = address;
  return {};
}

Status CudaBuffer::make_lent(MemoryUse use) {
  constexpr uint64_t kOfCuda = 256;  // the alignment of cuMemAlloc
  LentMemory memory;
  memory.bytes = size_;
  memory.alignment = kOfCuda;
  memory.use = use;
  if (!driver_->lender.allocate(memory)) {
    return {Code::OutOfMemory,
            "the application's reprise_allocator has no such memory for " + driver_->info.id};
  }
  lent_ = memory;
  if (memory.handle == 0 || memory.handle % kOfCuda != 0)
    return {Code::Usage,
            "the application's reprise_allocator gave null, or memory that is not "
            "aligned"};
  if (use != MemoryUse::Device) return find_address(reinterpret_cast<void*>(memory.handle));
  address_ = memory.handle;
  return {};
}

CudaBuffer::~CudaBuffer() {
  if (lent_) driver_->release(*lent_);
}

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::create(const std::shared_ptr<Driver>& driver,
                                                       uint64_t bytes, MemoryUse use) {
  RP_TRY(driver->alive());
  const uint64_t limit = driver->info.facts.max_buffer_bytes;
  if (bytes > limit) {
    return unsupported("a buffer of " + std::to_string(bytes) + " bytes exceeds the memory of " +
                       driver->info.id + ", " + std::to_string(limit) + " bytes");
  }
  RP_CUDA_SCOPE(*driver);
  std::unique_ptr<CudaBuffer> b(new CudaBuffer(driver));
  b->size_ = std::max<uint64_t>(bytes, kAlignment);
  const Status made = driver->lender.allocate    ? b->make_lent(use)
                      : use == MemoryUse::Device ? b->make_device_memory()
                                                 : b->make_host_memory();
  RP_TRY(made.with_context("allocating " + std::to_string(b->size_) + " bytes"));
  ++driver->counters.allocations;
  return b;
}

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::borrow(std::shared_ptr<Driver> driver, void* handle,
                                                       uint64_t bytes) {
  RP_TRY(driver->alive());
  const auto address = reinterpret_cast<uint64_t>(handle);
  if (address == 0) return Status(Code::Usage, "a borrowed buffer needs its CUdeviceptr");
  if (address % kAlignment != 0) {
    return Status(Code::Usage, "a borrowed CUdeviceptr must be a multiple of " +
                                   std::to_string(kAlignment) + "; the one given is not");
  }
  {
    RP_CUDA_SCOPE(*driver);
    RP_TRY(check_range(*driver, address, bytes));
  }
  std::unique_ptr<CudaBuffer> b(new CudaBuffer(std::move(driver)));
  b->size_ = bytes;
  b->address_ = address;
  return b;
}

}  // namespace reprise::cuda
