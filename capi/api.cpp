// The C interface over devices and buffers.
#include "capi/api.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "backends/registry.h"

namespace reprise::capi {

template <>
inline constexpr std::array kStructEnds<reprise_allocator>{
    offsetof(reprise_allocator, allocate_host)};
template <>
inline constexpr std::array kStructEnds<reprise_device_info>{offsetof(reprise_device_info, luid)};

namespace {

reprise_device_info to_c(const DeviceInfo& d) {
  reprise_device_info out = REPRISE_DEVICE_INFO_INIT;
  copy_text(out.id, sizeof(out.id), d.id);
  copy_text(out.kind, sizeof(out.kind), d.kind);
  copy_text(out.name, sizeof(out.name), d.name);
  copy_text(out.driver, sizeof(out.driver), d.driver);
  copy_text(out.api, sizeof(out.api), d.api);
  std::memcpy(out.uuid, d.uuid, sizeof(out.uuid));
  out.has_luid = d.has_luid ? 1 : 0;
  std::memcpy(out.luid, d.luid, sizeof(out.luid));
  out.luid_node_mask = d.luid_node_mask;
  out.usable = d.usable ? 1 : 0;
  copy_text(out.reason, sizeof(out.reason), d.reason);
  return out;
}

void borrow(const reprise_vulkan_device& v, BorrowedVulkan& out) {
  out.get_instance_proc_addr = v.get_instance_proc_addr;
  out.instance = v.instance;
  out.physical_device = v.physical_device;
  out.device = v.device;
  out.queue = v.queue;
  out.queue_family = v.queue_family;
  out.int64 = v.shader_int64 != 0;
  out.float16 = v.shader_float16 != 0;
  out.storage8 = v.storage8 != 0;
  out.storage16 = v.storage16 != 0;
  out.float64 = v.shader_float64 != 0;
  out.no_buffer_address = v.no_buffer_addresses != 0;
  out.update_after_bind = v.update_after_bind != 0;
  out.upload_queue = v.upload_queue;
  out.download_queue = v.download_queue;
  out.transfer_queue_family = v.transfer_queue_family;
  if (v.lock_queue) out.lock_queue = [f = v.lock_queue, user = v.user] { f(user); };
  if (v.unlock_queue) out.unlock_queue = [f = v.unlock_queue, user = v.user] { f(user); };
}

Status check_reserved(uint32_t reserved, const char* of) {
  if (reserved == 0) return {};
  return {Code::Usage, "the reserved member of a " + std::string(of) + " must be zero"};
}

Result<HiddenFeatures> to_hidden(uint32_t bits) {
  constexpr uint32_t kKnown = REPRISE_HIDE_BUFFER_ADDRESSES | REPRISE_HIDE_UPDATE_AFTER_BIND |
                              REPRISE_HIDE_VULKAN_1_2 | REPRISE_HIDE_TRANSFER_QUEUES;
  if ((bits & ~kKnown) != 0) {
    return Status(Code::Usage, "reprise_device_options: `hidden_features` has unknown bits, " +
                                   std::to_string(bits & ~kKnown));
  }
  return HiddenFeatures{
      (bits & REPRISE_HIDE_BUFFER_ADDRESSES) != 0, (bits & REPRISE_HIDE_UPDATE_AFTER_BIND) != 0,
      (bits & REPRISE_HIDE_VULKAN_1_2) != 0, (bits & REPRISE_HIDE_TRANSFER_QUEUES) != 0};
}

reprise_memory to_c(const LentMemory& m) {
  reprise_memory out = REPRISE_MEMORY_INIT;
  out.bytes = m.bytes;
  out.alignment = m.alignment;
  out.use = m.use == MemoryUse::Device   ? REPRISE_MEMORY_DEVICE
            : m.use == MemoryUse::Upload ? REPRISE_MEMORY_UPLOAD
                                         : REPRISE_MEMORY_READBACK;
  out.memory_type = m.type;
  out.handle = m.handle;
  out.offset = m.offset;
  out.mapped = m.mapped;
  out.data = m.data;
  return out;
}

Result<reprise_allocator> read_allocator(const reprise_allocator* given) {
  RP_ASSIGN(const auto a,
            read_struct(given, reprise_allocator REPRISE_ALLOCATOR_INIT, "reprise_allocator"));
  if (!a.allocate != !a.release)
    return Status(Code::Usage, "reprise_allocator: `allocate` or `release` is null");
  if (!a.allocate_host != !a.release_host)
    return Status(Code::Usage, "reprise_allocator: `allocate_host` or `release_host` is null");
  if (given && !a.allocate && !a.allocate_host)
    return Status(Code::Usage, "reprise_allocator: `allocate` and `allocate_host` are null");
  return a;
}

MemoryCallbacks device_memory(const reprise_allocator& a) {
  MemoryCallbacks out;
  if (!a.allocate) return out;
  out.allocate = [a](LentMemory& m) {
    reprise_memory memory = to_c(m);
    if (a.allocate(a.user, &memory) == 0) return false;
    m.handle = memory.handle;
    m.offset = memory.offset;
    m.mapped = memory.mapped;
    m.data = memory.data;
    return true;
  };
  out.release = [a](const LentMemory& m) {
    const reprise_memory memory = to_c(m);
    a.release(a.user, &memory);
  };
  return out;
}

HostMemoryPtr host_memory(const reprise_allocator& a) {
  if (!a.allocate_host) return nullptr;
  HostMemory out;
  out.allocate = [a](size_t bytes, size_t alignment) {
    return a.allocate_host(a.user, bytes, alignment);
  };
  out.release = [a](void* memory, size_t bytes) { a.release_host(a.user, memory, bytes); };
  return std::make_shared<const HostMemory>(std::move(out));
}

Result<BackendOptions> to_options(const reprise_device_options& o) {
  BackendOptions out;
  RP_TRY(check_reserved(o.reserved, "reprise_device_options"));
  RP_ASSIGN(out.hidden, to_hidden(o.hidden_features));
  if (o.cache_dir) out.cache_dir = o.cache_dir;
  out.validation = o.validation != 0;
  out.threads = o.threads;
  RP_ASSIGN(out.threads.executor, read_executor(o.executor));
  out.memory_budget = o.memory_budget;
  if (o.log) {
    out.log = [f = o.log, user = o.log_user](Severity severity, const std::string& m) {
      f(user, static_cast<reprise_severity>(severity), m.c_str());
    };
  }
  if (o.vulkan) {
    RP_ASSIGN(const auto v, read_struct(o.vulkan, reprise_vulkan_device REPRISE_VULKAN_DEVICE_INIT,
                                        "reprise_vulkan_device"));
    RP_TRY(check_reserved(v.reserved, "reprise_vulkan_device"));
    if (!v.device) return Status(Code::Usage, "reprise_vulkan_device: `device` is null");
    if (!v.lock_queue != !v.unlock_queue) {
      return Status(Code::Usage,
                    "reprise_vulkan_device: `lock_queue` or `unlock_queue` is null; set both");
    }
    borrow(v, out.vulkan);
  }
  if (o.cuda) {
    RP_ASSIGN(const auto c, read_struct(o.cuda, reprise_cuda_device REPRISE_CUDA_DEVICE_INIT,
                                        "reprise_cuda_device"));
    if (!c.context) return Status(Code::Usage, "reprise_cuda_device: `context` is null");
    out.cuda = {c.context, c.stream};
  }
  return out;
}

Result<ExternalMemory> external_memory(const reprise_external_memory& m) {
  const auto wrong = [](const std::string& what) {
    return Status(Code::Usage, "reprise_external_memory: " + what);
  };
  RP_TRY(check_reserved(m.reserved, "reprise_external_memory"));
  if (m.kind < REPRISE_EXTERNAL_OPAQUE_FD || m.kind > REPRISE_EXTERNAL_ANDROID_HARDWARE_BUFFER)
    return wrong("`kind` " + std::to_string(m.kind) + " is unknown");
  if (m.bytes == 0 || m.offset > m.size || m.bytes > m.size - m.offset) {
    return wrong(std::to_string(m.bytes) + " bytes at offset " + std::to_string(m.offset) +
                 " are no part of memory of " + std::to_string(m.size) + " bytes");
  }
  if (m.memory_type < -1)
    return wrong("`memory_type` " + std::to_string(m.memory_type) + " is neither a type nor -1");
  const bool is_descriptor =
      m.kind == REPRISE_EXTERNAL_OPAQUE_FD || m.kind == REPRISE_EXTERNAL_DMA_BUF;
  if (m.handle == 0 && !is_descriptor) return wrong("`handle` is null");
  ExternalMemory out;
  out.kind = static_cast<ExternalMemory::Kind>(m.kind - REPRISE_EXTERNAL_OPAQUE_FD);
  out.handle = m.handle;
  out.allocation = m.size;
  out.offset = m.offset;
  out.bytes = m.bytes;
  out.dedicated = m.dedicated != 0;
  if (m.memory_type >= 0) out.memory_type = static_cast<uint32_t>(m.memory_type);
  return out;
}

Result<std::shared_ptr<Device>> with_memory(const reprise_device* handle) {
  RP_ASSIGN(const auto device, find_handle(handle));
  if (device->device) return device->device;
  return Status(Code::Usage, "the host device has no buffers; use host memory");
}

/// A VkBuffer or CUdeviceptr as Device::borrow takes it.
void* handle_pointer(uint64_t handle) {
  void* pointer = nullptr;
  std::memcpy(&pointer, &handle, sizeof(pointer));
  return pointer;
}

reprise_buffer* make_buffer(std::shared_ptr<Device> device, std::unique_ptr<DeviceBuffer> buffer) {
  return make_handle(
      std::make_shared<reprise_buffer>(reprise_buffer{std::move(device), std::move(buffer)}));
}

}  // namespace
}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

size_t reprise_dtype_size(reprise_dtype dtype) {
  return dtype >= REPRISE_F32 && dtype <= REPRISE_F8E8M0 ? size_of(static_cast<DType>(dtype)) : 0;
}

const char* reprise_version(void) {
  return REPRISE_VERSION;
}

const char* reprise_error_node(const reprise_error* error, size_t index) {
  if (!error || error->status == REPRISE_OK) return nullptr;
  const char* const end = error->message + sizeof(error->message);
  const char* at = error->message;
  for (size_t i = 0; i <= index; ++i) {
    at = std::find(at, end, '\0');
    if (end - at < 2 || *++at == '\0') return nullptr;
  }
  return at;
}

uint32_t reprise_abi_version(void) {
  return REPRISE_ABI_VERSION;
}

reprise_status reprise_list_devices(reprise_device_info* infos, size_t capacity, size_t* count,
                                    reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!count || (!infos && capacity > 0)) return missing("count or infos");
    if (capacity > 0) RP_TRY(check_out(infos, "reprise_device_info"));
    const size_t stride = capacity > 0 ? infos->struct_size : 0;
    const auto devices = list_devices();
    *count = devices.size();
    for (size_t i = 0; i < std::min(capacity, devices.size()); ++i) {
      auto* info =
          reinterpret_cast<reprise_device_info*>(reinterpret_cast<char*>(infos) + i * stride);
      info->struct_size = stride;
      write_struct(to_c(devices[i]), info);
    }
    return {};
  });
}

reprise_status reprise_device_open(const char* id, const reprise_device_options* options,
                                   reprise_device** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!id || !out) return missing("id or out");
    RP_ASSIGN(const auto given,
              read_struct(options, reprise_device_options REPRISE_DEVICE_OPTIONS_INIT,
                          "reprise_device_options"));
    RP_ASSIGN(const reprise_allocator allocator, read_allocator(given.allocator));
    RP_ASSIGN(BackendOptions backend, to_options(given));
    backend.memory = device_memory(allocator);
    Refusal refusal;
    if (given.package) {
      RP_ASSIGN(const auto held, find_handle(given.package));
      refusal = [held](const DeviceInfo& d) { return why_unfit(*held->package, d.facts); };
    }
    RP_ASSIGN(auto opened, open_device(id, backend, refusal));
    if (backend.log && !opened.note.empty())
      backend.log(opened.device ? Severity::Info : Severity::Warning, opened.note);
    *out = make_handle(std::make_shared<reprise_device>(reprise_device{
        std::move(opened.device), backend.cache_dir, backend.log, host_memory(allocator)}));
    return {};
  });
}

reprise_status reprise_device_get_info(const reprise_device* device, reprise_device_info* info,
                                       reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!info) return missing("info");
    RP_TRY(check_out(info, "reprise_device_info"));
    RP_ASSIGN(const auto held, find_handle(device));
    write_struct(to_c(held->device ? held->device->info() : host_info()), info);
    return {};
  });
}

reprise_status reprise_device_trim(reprise_device* device, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(device));
    if (held->device) held->device->idle_memory().free_all();
    return {};
  });
}

reprise_status reprise_device_set_memory_budget(reprise_device* device, uint64_t bytes,
                                                reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(device));
    if (!held->device) return {};
    MemoryBudget& budget = held->device->memory_budget();
    budget.set_most(bytes);
    if (bytes != 0 && budget.used() > bytes) held->device->idle_memory().free_all();
    return {};
  });
}

void reprise_device_free(reprise_device* device) {
  free_handle(device);
}

reprise_status reprise_buffer_create(reprise_device* device, uint64_t bytes, reprise_buffer** out,
                                     reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(auto held, with_memory(device));
    RP_ASSIGN(auto buffer, held->allocate_or_free_idle(bytes, MemoryUse::Device));
    *out = make_buffer(std::move(held), std::move(buffer));
    return {};
  });
}

reprise_status reprise_buffer_borrow(reprise_device* device, uint64_t handle, uint64_t bytes,
                                     reprise_buffer** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(auto held, with_memory(device));
    RP_ASSIGN(auto buffer, held->borrow(handle_pointer(handle), bytes));
    *out = make_buffer(std::move(held), std::move(buffer));
    return {};
  });
}

reprise_status reprise_buffer_import(reprise_device* device, const reprise_external_memory* memory,
                                     reprise_buffer** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    if (!memory) return missing("memory");
    RP_ASSIGN(auto held, with_memory(device));
    RP_ASSIGN(const auto m,
              read_struct(memory, reprise_external_memory REPRISE_EXTERNAL_MEMORY_INIT,
                          "reprise_external_memory"));
    RP_ASSIGN(const ExternalMemory from, external_memory(m));
    RP_ASSIGN(auto buffer, held->import(from));
    *out = make_buffer(std::move(held), std::move(buffer));
    return {};
  });
}

reprise_status reprise_buffer_write(reprise_buffer* buffer, uint64_t offset, const void* data,
                                    uint64_t bytes, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!data && bytes > 0) return missing("data");
    RP_ASSIGN(const auto held, find_handle(buffer));
    return held->device->upload(*held->buffer, offset,
                                {static_cast<const std::byte*>(data), bytes});
  });
}

reprise_status reprise_buffer_read(const reprise_buffer* buffer, uint64_t offset, void* data,
                                   uint64_t bytes, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!data && bytes > 0) return missing("data");
    RP_ASSIGN(const auto held, find_handle(buffer));
    return held->device->download(*held->buffer, offset, {static_cast<std::byte*>(data), bytes});
  });
}

void reprise_buffer_free(reprise_buffer* buffer) {
  free_handle(buffer);
}
