#include "runtime/base/host_memory.h"

#include <cstring>
#include <new>

#include "runtime/base/current_host_memory.h"

namespace reprise {
namespace {

constinit thread_local const HostMemoryPtr* tls_memory = nullptr;

}  // namespace

HostMemoryScope::HostMemoryScope(const HostMemoryPtr& memory) : before_(tls_memory) {
  tls_memory = &memory;
}

HostMemoryScope::~HostMemoryScope() {
  tls_memory = before_;
}

HostMemoryPtr current_host_memory() {
  return tls_memory ? *tls_memory : nullptr;
}

std::shared_ptr<std::byte[]> allocate_elements(size_t bytes) {
  const HostMemoryPtr memory = current_host_memory();
  if (!memory || bytes == 0) return std::make_unique<std::byte[]>(bytes);
  auto* const got = static_cast<std::byte*>(memory->allocate(bytes, alignof(std::max_align_t)));
  if (!got) throw std::bad_alloc();
  std::memset(got, 0, bytes);
  return {got, [memory, bytes](std::byte* p) { memory->release(p, bytes); }};
}

}  // namespace reprise
