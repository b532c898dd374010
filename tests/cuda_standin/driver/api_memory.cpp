// Memory, copies, streams and events.
#include <chrono>
#include <cstring>

#include "tests/cuda_standin/driver/api.h"

using namespace reprise::cuda;
using namespace reprise::standin;

namespace reprise::standin {
namespace {

uint64_t address_of(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

template <typename T>
void put(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// The copy of an immediate call. Where the application's own memory is not page-locked, it is read
/// now and written before the call returns, as drivers do.
CUresult copy_async(Call& call, uint64_t to, bool to_host, uint64_t from, bool from_host,
                    size_t bytes, CUstream handle) {
  Driver& d = call.d;
  const auto stream = call.stream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == 0 || from == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto target = d.memory.range(to, bytes), source = d.memory.range(from, bytes);
  if ((target == nullptr && !to_host) || (source == nullptr && !from_host)) {
    call.misuse("the range is not within one live allocation");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (target != nullptr) target->written_outside = true;
  if (source != nullptr) source->read_outside = true;
  auto held = std::make_shared<std::vector<std::byte>>();
  CopyWork copy{from, to, bytes, from_host, to_host};
  if (source == nullptr) {
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    held->assign(begin, begin + bytes);
    copy.from = address_of(held->data());
  }
  const auto work = std::make_shared<Work>(Work{copy, true});
  stream->push([&d, held, work, context = call.context, settings = d.settings] {
    run_work(d, *context, *work, settings);
  });
  if (target != nullptr) return CUDA_SUCCESS;
  call.lock.unlock();
  stream->wait();
  return call.outcome();
}

CUresult allocate(Call& call, Place place, size_t bytes, uint64_t& address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto a = call.d.memory.make(place, bytes, call.context->id, call.d.settings.memory);
  if (a == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  address = a->address();
  return CUDA_SUCCESS;
}

/// Frees after all work that might use the memory, as drivers do.
CUresult release(Call& call, Place place, uint64_t address) {
  call.wait_for_all();
  const auto a = call.d.memory.take(address, place);
  if (a == nullptr) {
    call.misuse("no live allocation begins here");
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::string damage = a->damage();
  if (!damage.empty() && call.d.settings.check != Check::Off && call.context->fault == 0) {
    call.d.violate(*call.context, CUDA_ERROR_ILLEGAL_ADDRESS, "something wrote " + damage);
  }
  return call.outcome();
}

}  // namespace
}  // namespace reprise::standin

REPRISE_STANDIN_API cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return enter(Symbol::cuMemAlloc_v2, Needs::Context, [&](Call& call) {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    uint64_t at = 0;
    const CUresult result = allocate(call, Place::Device, bytes, at);
    if (result == CUDA_SUCCESS) *address = at;
    return result;
  });
}

REPRISE_STANDIN_API cuMemFree_v2(CUdeviceptr address) {
  return enter(Symbol::cuMemFree_v2, Needs::Context,
               [&](Call& call) { return release(call, Place::Device, address); });
}

REPRISE_STANDIN_API cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return enter(Symbol::cuMemHostAlloc, Needs::Context, [&](Call& call) {
    constexpr unsigned kFlags = 7;
    if (pointer == nullptr || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t at = 0;
    const CUresult result = allocate(call, Place::Host, bytes, at);
    if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<void*>(at);
    return result;
  });
}

REPRISE_STANDIN_API cuMemFreeHost(void* pointer) {
  return enter(Symbol::cuMemFreeHost, Needs::Context,
               [&](Call& call) { return release(call, Place::Host, address_of(pointer)); });
}

REPRISE_STANDIN_API cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer,
                                                 unsigned flags) {
  return enter(Symbol::cuMemHostGetDevicePointer_v2, Needs::Context, [&](Call& call) {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto a = call.d.memory.find(address_of(pointer));
    if (a == nullptr || a->place != Place::Host) {
      call.misuse("the pointer is in no page-locked allocation");
      return CUDA_ERROR_INVALID_VALUE;
    }
    *address = address_of(pointer);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuPointerGetAttributes(unsigned n, CUpointer_attribute* attributes,
                                           void** values, CUdeviceptr pointer) {
  return enter(Symbol::cuPointerGetAttributes, Needs::Context, [&](Call& call) {
    if (n == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto a = call.d.memory.find(pointer);
    if (a != nullptr && pointer - a->address() >= a->bytes) a = nullptr;  // at its end
    const auto owner = a == nullptr
                           ? nullptr
                           : call.d.handles.find<Context>(reinterpret_cast<CUcontext>(a->context));
    const bool host = a != nullptr && a->place == Place::Host;
    for (unsigned i = 0; i < n; ++i) {
      switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
          put(values[i], a == nullptr ? uint64_t{0} : a->context);
          break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          put(values[i], a == nullptr ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
          break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
          put(values[i], 0);
          break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          put(values[i], owner == nullptr ? -2 : owner->device);
          break;
        default:
          return CUDA_ERROR_INVALID_VALUE;
      }
    }
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return enter(Symbol::cuMemGetAddressRange_v2, Needs::Context, [&](Call& call) {
    const auto a = call.d.memory.find(pointer);
    if (a == nullptr || pointer - a->address() >= a->bytes) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = a->address();
    if (bytes != nullptr) *bytes = a->bytes;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                         CUstream stream) {
  return enter(Symbol::cuMemcpyHtoDAsync_v2, Needs::Context, [&](Call& call) {
    return copy_async(call, to, false, address_of(from), true, bytes, stream);
  });
}

REPRISE_STANDIN_API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return enter(Symbol::cuMemcpyDtoHAsync_v2, Needs::Context, [&](Call& call) {
    return copy_async(call, address_of(to), true, from, false, bytes, stream);
  });
}

REPRISE_STANDIN_API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return enter(Symbol::cuMemcpyAsync, Needs::Context,
               [&](Call& call) { return copy_async(call, to, false, from, false, bytes, stream); });
}

REPRISE_STANDIN_API cuStreamCreate(CUstream* stream, unsigned flags) {
  return enter(Symbol::cuStreamCreate, Needs::Context, [&](Call& call) {
    if (stream == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *stream = call.add(std::make_shared<Stream>());
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuStreamDestroy_v2(CUstream stream) {
  return enter(Symbol::cuStreamDestroy_v2, Needs::Context, [&](Call& call) {
    auto s = call.find<Stream>(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.d.handles.remove(s->id);
    call.lock.unlock();
    s = nullptr;  // waits for what was queued
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuStreamSynchronize(CUstream stream) {
  return enter(Symbol::cuStreamSynchronize, Needs::Context, [&](Call& call) {
    const auto s = call.stream(stream);
    if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.lock.unlock();
    s->wait();
    return call.outcome();
  });
}

REPRISE_STANDIN_API cuEventCreate(CUevent* event, unsigned flags) {
  return enter(Symbol::cuEventCreate, Needs::Context, [&](Call& call) {
    constexpr unsigned kBlockingSync = 1;
    if (event == nullptr || (flags & ~(CU_EVENT_DISABLE_TIMING | kBlockingSync)) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *event = call.add(std::make_shared<Event>((flags & CU_EVENT_DISABLE_TIMING) == 0));
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuEventDestroy_v2(CUevent event) {
  return enter(Symbol::cuEventDestroy_v2, Needs::Context, [&](Call& call) {
    const auto e = call.find<Event>(event);
    if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.d.handles.remove(e->id);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuEventRecord(CUevent event, CUstream stream) {
  return enter(Symbol::cuEventRecord, Needs::Context, [&](Call& call) {
    const auto e = call.find<Event>(event);
    const auto s = call.stream(stream);
    if (e == nullptr || s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    e->queued();
    s->push([e] { e->recorded(); });
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuEventQuery(CUevent event) {
  return enter(Symbol::cuEventQuery, Needs::Context, [&](Call& call) {
    const auto e = call.find<Event>(event);
    if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // A fault since this call began comes before what it was in.
    return e->complete() ? call.outcome() : CUDA_ERROR_NOT_READY;
  });
}

REPRISE_STANDIN_API cuEventSynchronize(CUevent event) {
  return enter(Symbol::cuEventSynchronize, Needs::Context, [&](Call& call) {
    const auto e = call.find<Event>(event);
    if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.lock.unlock();
    e->wait();
    return call.outcome();
  });
}

REPRISE_STANDIN_API cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return enter(Symbol::cuEventElapsedTime, Needs::Context, [&](Call& call) {
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto a = call.find<Event>(start), b = call.find<Event>(end);
    if (a == nullptr || b == nullptr || !a->timed || !b->timed) return CUDA_ERROR_INVALID_HANDLE;
    if (!a->complete() || !b->complete()) return CUDA_ERROR_NOT_READY;
    Event::Clock::time_point from, to;
    if (!a->time(from) || !b->time(to)) return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = std::chrono::duration<float, std::milli>(to - from).count();
    return CUDA_SUCCESS;
  });
}
