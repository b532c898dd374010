// Initialisation, devices and contexts.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "tests/cuda_standin/driver/api.h"

using namespace reprise::cuda;
using namespace reprise::standin;

namespace reprise::standin {

CUresult enter_context(Call& call) {
  const auto& stack = current_contexts();
  const uint64_t id = stack.empty() ? 0 : stack.back();
  call.context = call.d.handles.find<Context>(reinterpret_cast<CUcontext>(id));
  if (call.context == nullptr) {
    call.misuse(id == 0 ? "no context is current" : "the current context was destroyed");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return static_cast<CUresult>(call.context->fault.load());
}

std::vector<std::shared_ptr<Stream>> Call::streams() const {
  std::vector<std::shared_ptr<Stream>> list;
  for (const auto& [id, object] : d.handles.all()) {
    if (object->kind != Kind::Stream || object->context != context->id) continue;
    list.push_back(std::static_pointer_cast<Stream>(object));
  }
  if (context->default_stream != nullptr) list.push_back(context->default_stream);
  return list;
}

void Call::wait_for_all() {
  const auto list = streams();
  lock.unlock();
  for (const auto& s : list) s->wait();
  lock.lock();
}

namespace {

struct ErrorText {
  CUresult error;
  const char* name;
};
#define REPRISE_STANDIN_ERROR(name) \
  ErrorText {                       \
    name, #name                     \
  }
constexpr std::array kErrors = {
    REPRISE_STANDIN_ERROR(CUDA_SUCCESS),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_VALUE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_OUT_OF_MEMORY),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_DEINITIALIZED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_STUB_LIBRARY),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NO_DEVICE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_DEVICE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_IMAGE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_CONTEXT),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_PTX),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_CONTAINED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_HANDLE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NOT_FOUND),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NOT_READY),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_ASSERT),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_INVALID_PC),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_LAUNCH_FAILED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_NOT_SUPPORTED),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_SYSTEM_NOT_READY),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_EXTERNAL_DEVICE),
    REPRISE_STANDIN_ERROR(CUDA_ERROR_UNKNOWN),
};
#undef REPRISE_STANDIN_ERROR

/// "illegal address" for CUDA_ERROR_ILLEGAL_ADDRESS
std::string words(const char* name) {
  constexpr std::string_view kPrefix = "CUDA_ERROR_";
  std::string_view rest = name;
  if (rest.substr(0, kPrefix.size()) == kPrefix) rest.remove_prefix(kPrefix.size());
  std::string text;
  for (const char c : rest) {
    text += c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

/// Finds an error's name, or its description; both stay where they are.
CUresult error_text(CUresult error, const char** out, bool described) {
  static const auto* const descriptions = [] {
    auto* all = new std::array<std::string, kErrors.size()>;
    for (size_t n = 0; n < kErrors.size(); ++n) (*all)[n] = words(kErrors[n].name);
    return all;
  }();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  for (size_t n = 0; n < kErrors.size(); ++n) {
    if (kErrors[n].error != error) continue;
    *out = described ? (*descriptions)[n].c_str() : kErrors[n].name;
  }
  return *out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool is_device(const Driver& d, CUdevice device) {
  return device >= 0 && device < d.settings.devices;
}

bool attribute_value(const Settings& s, CUdevice_attribute attribute, int& value) {
  constexpr int kMaxGrid = 65535, kSharedBytes = 49152;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return value = 1024, true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return value = 0x7FFFFFFF, true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return value = kMaxGrid, true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return value = kSharedBytes, true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return value = static_cast<int>(most_shared_bytes(s)), true;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return value = 32, true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return value = 1'000'000, true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return value = 16, true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return value = 256, true;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return value = 0, true;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      return value = 1, true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return value = s.arch / 10, true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return value = s.arch % 10, true;
  }
  return false;
}

/// The last release: whatever the context owns goes with it, and is a leak unless it had a fault,
/// when nothing can be freed.
void destroy(Call& call, const std::shared_ptr<Context>& context) {
  call.context = context;
  call.wait_for_all();
  Driver& d = call.d;
  if (context->fault == 0) {
    for (const std::string& what : d.live(context->id)) {
      ++d.leaks;
      d.log.line("leak: " + what + " is alive when its context goes");
    }
  }
  std::vector<std::shared_ptr<Object>> gone;  // streams end outside of the lock
  for (const auto& [id, object] : d.handles.all()) {
    if (object->context == context->id) gone.push_back(object);
  }
  for (const auto& object : gone) d.handles.remove(object->id);
  d.handles.remove(context->id);
  for (const auto& a : d.memory.all()) {
    if (a->context == context->id) d.memory.take(a->address(), a->place);
  }
  d.primary[context->device] = nullptr;
  call.lock.unlock();
  gone.clear();
  context->default_stream = nullptr;
}

}  // namespace
}  // namespace reprise::standin

REPRISE_STANDIN_API cuInit(unsigned flags) {
  return enter(Symbol::cuInit, Needs::Nothing, [&](Call& call) {
    Driver& d = call.d;
    if (!d.settings_problem.empty()) {
      d.log.line(d.settings_problem);
      return CUDA_ERROR_UNKNOWN;
    }
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (d.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
    d.initialised = true;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDriverGetVersion(int* version) {
  return enter(Symbol::cuDriverGetVersion, Needs::Nothing, [&](Call& call) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = call.d.settings.driver;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGetErrorName(CUresult error, const char** name) {
  return enter(Symbol::cuGetErrorName, Needs::Nothing,
               [&](Call&) { return error_text(error, name, false); });
}

REPRISE_STANDIN_API cuGetErrorString(CUresult error, const char** text) {
  return enter(Symbol::cuGetErrorString, Needs::Nothing,
               [&](Call&) { return error_text(error, text, true); });
}

REPRISE_STANDIN_API cuDeviceGetCount(int* count) {
  return enter(Symbol::cuDeviceGetCount, Needs::Init, [&](Call& call) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = call.d.settings.devices;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDeviceGet(CUdevice* device, int ordinal) {
  return enter(Symbol::cuDeviceGet, Needs::Init, [&](Call& call) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDeviceGetName(char* name, int bytes, CUdevice device) {
  return enter(Symbol::cuDeviceGetName, Needs::Init, [&](Call& call) {
    if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::string text =
        "Reprise stand-in" + (device == 0 ? "" : " " + std::to_string(device + 1));
    const size_t n = std::min(text.size(), static_cast<size_t>(bytes) - 1);
    std::memcpy(name, text.data(), n);
    name[n] = 0;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return enter(Symbol::cuDeviceGetUuid_v2, Needs::Init, [&](Call& call) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "reprise-standin", 16);
    uuid->bytes[15] = static_cast<char>(device);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return enter(Symbol::cuDeviceTotalMem_v2, Needs::Init, [&](Call& call) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = call.d.settings.memory;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                         CUdevice device) {
  return enter(Symbol::cuDeviceGetAttribute, Needs::Init, [&](Call& call) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    return attribute_value(call.d.settings, attribute, *value) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
  });
}

REPRISE_STANDIN_API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return enter(Symbol::cuDevicePrimaryCtxRetain, Needs::Init, [&](Call& call) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    auto& primary = call.d.primary[device];
    if (primary == nullptr) {
      primary = std::make_shared<Context>();
      primary->device = device;
      call.d.handles.add(primary);
    }
    ++primary->retained;
    *context = reinterpret_cast<CUcontext>(primary->id);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter(Symbol::cuDevicePrimaryCtxRelease_v2, Needs::Init, [&](Call& call) {
    if (!is_device(call.d, device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto primary = call.d.primary[device];
    if (primary == nullptr || primary->retained == 0) {
      call.misuse("the primary context is not retained");
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--primary->retained == 0) destroy(call, primary);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuCtxPushCurrent_v2(CUcontext context) {
  return enter(Symbol::cuCtxPushCurrent_v2, Needs::Init, [&](Call& call) {
    if (call.find<Context>(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    current_contexts().push_back(reinterpret_cast<uint64_t>(context));
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuCtxPopCurrent_v2(CUcontext* context) {
  return enter(Symbol::cuCtxPopCurrent_v2, Needs::Init, [&](Call& call) {
    auto& stack = current_contexts();
    if (stack.empty()) {
      call.misuse("no context is current");
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuCtxGetDevice(CUdevice* device) {
  return enter(Symbol::cuCtxGetDevice, Needs::Context, [&](Call& call) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = call.context->device;
    return CUDA_SUCCESS;
  });
}
