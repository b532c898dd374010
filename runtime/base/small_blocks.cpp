#include "runtime/base/small_blocks.h"

#include <array>
#include <cstdint>

namespace reprise {

#if defined(__SANITIZE_ADDRESS__)

// Under AddressSanitizer no blocks are kept, because that would hide uses after free.
void* allocate_small(size_t bytes) {
  return ::operator new(bytes);
}
void free_small(void* block, size_t bytes) noexcept {
  ::operator delete(block, bytes);
}

#else

namespace {

constexpr size_t kStep = 16, kLargest = 256;  // bytes
constexpr uint32_t kKept = 4096;              // maximum of free blocks per size and thread

struct Block {
  Block* next;
};

/// Trivially destructible, because expressions in static variables are freed after the other
/// variables of the thread have been destroyed.
struct FreeBlocks {
  std::array<Block*, kLargest / kStep> first;
  std::array<uint32_t, kLargest / kStep> count;
  bool open;    // the thread has a Closer
  bool closed;  // the Closer has run
};
constinit thread_local FreeBlocks tls_free{};

/// Frees all blocks at the end of the thread.
struct Closer {
  ~Closer() {
    tls_free.closed = true;
    for (Block*& first : tls_free.first) {
      while (first != nullptr) {
        Block* next = first->next;
        ::operator delete(first);
        first = next;
      }
    }
  }
};

void open() {
  static thread_local const Closer closer;
  (void)closer;
  tls_free.open = true;
}

size_t class_of(size_t bytes) {
  return bytes == 0 ? 0 : (bytes - 1) / kStep;
}

}  // namespace

void* allocate_small(size_t bytes) {
  if (bytes > kLargest) return ::operator new(bytes);
  FreeBlocks& free = tls_free;
  const size_t size = class_of(bytes);
  Block* block = free.first[size];
  if (block == nullptr) return ::operator new((size + 1) * kStep);
  free.first[size] = block->next;
  --free.count[size];
  return block;
}

void free_small(void* block, size_t bytes) noexcept {
  FreeBlocks& free = tls_free;
  const size_t size = class_of(bytes);
  if (bytes > kLargest || free.closed || free.count[size] == kKept) return ::operator delete(block);
  if (!free.open) open();
  free.first[size] = new (block) Block{free.first[size]};
  ++free.count[size];
}

#endif

}  // namespace reprise
