// The memory of a launch, with the checks that a GPU does not make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx/machine/program.h"

namespace reprise::test::ptx {

/// Memory of the device that a launch may access.
struct Buffer {
  uint64_t address = 0;
  std::span<std::byte> bytes;
};

/// Who accesses memory, and when: accesses of two threads are ordered by a barrier of the workgroup
/// between them, or by one of the warp if both are in it.
struct Access {
  uint32_t thread = 0, warp = 0, group_epoch = 0, warp_epoch = 0;
};

/// Shared memory of one workgroup. Reads of bytes that nobody wrote, of bytes that a copy may still
/// write, and races are errors.
class SharedMemory {
 public:
  /// Forgets all contents.
  void reset(uint32_t bytes);
  /// What is wrong with the access; empty if nothing is.
  std::string check(uint64_t offset, uint32_t bytes, bool writes, bool atomic, const Access& by);
  std::byte* at(uint64_t offset) { return bytes_.data() + offset; }
  uint64_t size() const { return bytes_.size(); }
  /// Bytes that a copy in flight will write, and those that it has written.
  void expect(uint64_t offset, uint32_t bytes, bool in_flight);

 private:
  static constexpr uint32_t kNobody = ~0U, kSeveral = ~0U - 1;
  struct Byte {
    Access writer{kNobody}, reader{kNobody};
    uint8_t in_flight = 0;
    bool written = false, atomic = false;
  };
  static bool ordered(const Access& before, const Access& now);
  static const char* check(Byte& b, bool writes, bool atomic, const Access& by);

  std::vector<std::byte> bytes_;
  std::vector<Byte> shadow_;
};

/// A copy to shared memory that has been issued (cp.async).
struct Copy {
  uint64_t to = 0, from = 0;
  uint32_t bytes = 0, taken = 0;  // the rest is zeros
  bool done = false;
  uint32_t line = 0;
};

}  // namespace reprise::test::ptx
