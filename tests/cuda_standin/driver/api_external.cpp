// Memory that others exported: a file descriptor of shared memory stands for it.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda_standin/driver/api.h"

using namespace reprise::cuda;
using namespace reprise::standin;

namespace reprise::standin {
namespace {

struct External final : Object {
  using Handle = CUexternalMemory;
  static constexpr Kind kKind = Kind::External;

  External(int fd, size_t size) : Object(kKind), descriptor(fd), bytes(size) {}
  ~External() override { ::close(descriptor); }

  const int descriptor;
  const size_t bytes;
};

}  // namespace
}  // namespace reprise::standin

REPRISE_STANDIN_API cuImportExternalMemory(CUexternalMemory* memory,
                                           const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  return enter(Symbol::cuImportExternalMemory, Needs::Context, [&](Call& call) {
    if (memory == nullptr || description == nullptr || description->size == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
      return CUDA_ERROR_NOT_SUPPORTED;
    struct stat info {};
    const int fd = description->handle.fd;
    if (::fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < description->size) {
      call.misuse("the descriptor is no memory of that size");
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto object = std::make_shared<External>(fd, description->size);
    object->context = call.context->id;
    *memory = call.d.handles.add(object);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuExternalMemoryGetMappedBuffer(
    CUdeviceptr* address, CUexternalMemory memory,
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  return enter(Symbol::cuExternalMemoryGetMappedBuffer, Needs::Context, [&](Call& call) {
    const auto object = call.find<External>(memory);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (address == nullptr || description == nullptr || description->size == 0 ||
        description->offset > object->bytes ||
        description->size > object->bytes - description->offset)
      return CUDA_ERROR_INVALID_VALUE;
    const auto a = call.d.memory.map(object->descriptor, object->bytes, description->offset,
                                     description->size, call.context->id);
    if (a == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    a->mapped_from = object->id;
    *address = a->address();
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDestroyExternalMemory(CUexternalMemory memory) {
  return enter(Symbol::cuDestroyExternalMemory, Needs::Context, [&](Call& call) {
    const auto object = call.find<External>(memory);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (call.d.memory.is_mapped(object->id)) call.misuse("a buffer of the memory is still mapped");
    call.d.handles.remove(object->id);
    return CUDA_SUCCESS;
  });
}
