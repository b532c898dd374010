// Between compiled kernels and the scheduler that runs them.
#pragma once

#include <cstdint>

namespace reprise::test {

struct ShimIndex {
  uint32_t x, y, z;
};

/// What a running kernel sees; the text in shim_text() declares the same struct. Each worker thread
/// has one of its own.
struct Shim {
  ShimIndex thread, group, group_size, grid_size;
  void* fibers;  // the FiberGroup, for the callbacks
  void (*barrier)(Shim* shim);
  /// Hands over `in` and returns that of another lane of the warp, which is `lane`, or this one's
  /// index ^ lane when is_xor. All lanes in `active` take part.
  uint64_t (*shuffle)(Shim* shim, uint32_t active, uint64_t in, uint32_t lane, bool is_xor);
  /// The lanes in `active` that hand over true.
  uint32_t (*ballot)(Shim* shim, uint32_t active, bool in);
  /// All lanes of the warp hand over an address. The first lane goes on before the others do, and
  /// gets the 32 addresses; the others get null.
  void** (*meet)(Shim* shim, void* in);

  // Of libraries whose accesses are checked: the running fiber's stack, the parameter block, and
  // who is asked about everything that is neither in them nor in the library.
  uint64_t stack, stack_bytes, block, block_bytes;
  void* checker;
  void (*access)(Shim* shim, uint64_t address, uint64_t bytes, uint32_t kind);

  // Whether this invocation has awaited earlier launches, and how many have ended without.
  uint32_t awaited, unaware;
};

/// The kinds of accesses.
inline constexpr uint32_t kReads = 0, kWrites = 1, kAtomic = 2;

/// One invocation of a kernel, the one that shim.thread names; or, of kernels whose invocations
/// never wait for each other, a whole workgroup.
using KernelFn = void (*)(const void* block, Shim* shim);

/// Precedes the prelude in the translation unit.
const char* shim_text();
/// Follows it: what tells the scheduler of calls that are nothing else on a host.
const char* shim_hooks_text();
/// Follows it as well: what is slow with the prelude's own functions.
const char* shim_fast_text();

}  // namespace reprise::test
