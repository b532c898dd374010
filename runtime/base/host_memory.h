// Where the elements of host tensors are: on the heap, or in memory of the application.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace reprise {

/// Memory of the application. Any thread may call the functions, also several at the same time.
struct HostMemory {
  /// Returns null if there is no such memory.
  std::function<void*(size_t bytes, size_t alignment)> allocate;
  std::function<void(void* memory, size_t bytes)> release;
};
/// Null: the heap.
using HostMemoryPtr = std::shared_ptr<const HostMemory>;

/// As long as it exists, tensors that this thread makes have their elements in `memory`. They keep
/// it alive. What a session does for its caller happens in the caller's thread, so that a scope at
/// its entry reaches every kernel of the host.
class HostMemoryScope {
 public:
  /// `memory` must outlive the scope.
  explicit HostMemoryScope(const HostMemoryPtr& memory);
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;
  ~HostMemoryScope();

 private:
  const HostMemoryPtr* before_;
};

/// Zeros, aligned for every fundamental type. Throws std::bad_alloc if there is no memory.
std::shared_ptr<std::byte[]> allocate_elements(size_t bytes);

}  // namespace reprise
