// Between compiled kernels and the scheduler that runs them.
#pragma once

#include <cstdint>

namespace reprise::test {

struct ShimIndex {
  uint32_t x, y, z;
};

/// What a running kernel sees; the text in shim_text() declares the same struct.
struct Shim {
  ShimIndex thread, group, group_size, grid_size;
  void (*barrier)();
  /// Hands over `in` and returns that of another lane of the warp, which is `lane`, or this one's
  /// index ^ lane when is_xor. All lanes in `active` take part.
  uint64_t (*shuffle)(uint32_t active, uint64_t in, uint32_t lane, bool is_xor);
  /// The lanes in `active` that hand over true.
  uint32_t (*ballot)(uint32_t active, bool in);
};

using KernelFn = void (*)(const void* block);

/// Precedes the prelude in the translation unit.
const char* shim_text();

}  // namespace reprise::test
