// An allocator for many small, short-lived objects: each thread keeps freed blocks for its next
// objects. Expressions are such objects, and the general allocator took a third of compile time.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace reprise {

/// A block of at least `bytes`, aligned for every fundamental type. Any thread may free it.
void* allocate_small(size_t bytes);
/// `bytes` must be the size that was requested from allocate_small().
void free_small(void* block, size_t bytes) noexcept;

/// A standard allocator over these functions, for containers and std::allocate_shared.
template <typename T>
struct SmallAllocator {
  using value_type = T;
  SmallAllocator() = default;
  template <typename U>
  SmallAllocator(const SmallAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)
  // NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer.
  T* allocate(size_t n) {
    if (n > std::numeric_limits<size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_small(n * sizeof(T)));
  }
  void deallocate(T* p, size_t n) noexcept { free_small(p, n * sizeof(T)); }
  // NOLINTEND(bugprone-sizeof-expression)
  template <typename U>
  bool operator==(const SmallAllocator<U>& /*other*/) const {
    return true;
  }
};

template <typename T>
using SmallVector = std::vector<T, SmallAllocator<T>>;

}  // namespace reprise
