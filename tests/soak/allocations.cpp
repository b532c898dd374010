#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local uint64_t allocations = 0;
thread_local uint64_t fail_at = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) {
    ++allocations;
    if (fail_at != 0 && allocations >= fail_at) throw std::bad_alloc();
  }
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* p = alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? std::aligned_alloc(alignment, size)
                                                         : std::malloc(bytes > 0 ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}

void* allocate_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  try {
    return allocate(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// Sanitizers have their own, which would not go with the operators below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace reprise::test {

CountAllocations::CountAllocations(uint64_t at) {
  allocations = 0;
  fail_at = at;
  counting = true;
}

CountAllocations::~CountAllocations() {
  counting = false;
  fail_at = 0;
}

uint64_t CountAllocations::count() const {
  return allocations;
}

}  // namespace reprise::test
