// What an application of its own lends: a device or context, and memory on it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise::test {

struct Lender {
  BackendOptions options;
  void* memory = nullptr;          // 400 bytes
  std::function<bool()> unharmed;  // whether the application's objects still work
  // Timeline semaphores of a Vulkan application; null on CUDA. They live as long as `keep`.
  std::function<uint64_t()> make_semaphore;
  std::function<void(uint64_t semaphore, uint64_t value)> signal;
  std::function<bool(uint64_t semaphore, uint64_t value, uint64_t timeout_ns)> wait_for;
  /// Fills the first 192 bytes of `memory` with `word`, lets `between` record what follows, copies
  /// 384 bytes of `memory` to the host, and executes that so often. Null on CUDA.
  std::function<std::vector<float>(uint32_t word, std::function<void(void* command_buffer)> between,
                                   int times)>
      execute;
  /// The application's memory, of which it keeps count.
  std::function<bool(LentMemory&)> allocate;
  std::function<void(const LentMemory&)> release;
  std::shared_ptr<void> keep;
};
Lender lend_vulkan(size_t index);
Lender lend_cuda(size_t index);

}  // namespace reprise::test
