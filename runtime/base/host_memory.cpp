#include "runtime/base/host_memory.h"

#include <cstring>
#include <new>

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

std::shared_ptr<std::byte[]> allocate_elements(size_t bytes) {
  const HostMemoryPtr memory = tls_memory ? *tls_memory : nullptr;
  if (!memory || bytes == 0) return std::make_unique<std::byte[]>(bytes);
  auto* const got = static_cast<std::byte*>(memory->allocate(bytes, alignof(std::max_align_t)));
  if (!got) throw std::bad_alloc();
  std::memset(got, 0, bytes);
  return {got, [memory, bytes](std::byte* p) { memory->release(p, bytes); }};
}

}  // namespace reprise
