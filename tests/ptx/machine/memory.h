// The memory of a launch, with the checks that a GPU does not make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/ptx/machine/clocks.h"
#include "tests/ptx/machine/program.h"

namespace reprise::test::ptx {

/// Memory of the device that a launch may access.
struct Buffer {
  uint64_t address = 0;
  std::span<std::byte> bytes;
};

/// An access that is about to take place.
struct Access {
  Stamp stamp;
  const View* view = nullptr;    // of who executes it
  uint32_t warp = 0, lanes = 0;  // whose earlier accesses are before it in any case
  bool async = false;            // by the async proxy
  bool writes = false, atomic = false;
};

/// Shared memory of one workgroup. Reads of bytes that nobody wrote, of bytes that a copy may still
/// write, races, and missing fences of the async proxy are errors.
class SharedMemory {
 public:
  /// Forgets all contents. `warps`: of each workgroup of a cluster; 0: there is one workgroup.
  void reset(uint32_t bytes, uint32_t rank, uint32_t warps);
  /// What is wrong with the access; empty if nothing is.
  std::string check(uint64_t offset, uint32_t bytes, const Access& a);
  std::byte* at(uint64_t offset) { return bytes_.data() + offset; }
  uint64_t size() const { return bytes_.size(); }
  /// Bytes that a copy in flight will write, and those that it has written.
  void expect(uint64_t offset, uint32_t bytes, bool in_flight);
  /// What a copy has written that nobody awaits but by `who`'s time.
  void wrote(uint64_t offset, uint32_t bytes, const Stamp& who);
  /// Bytes that are an mbarrier, and those that are none any more.
  void set_signal(uint64_t offset, uint32_t bytes, bool is_one);

 private:
  struct Byte {
    Stamp writer;
    std::array<Stamp, 2> readers;
    uint32_t more_readers = 0;  // place in more_, from 1
    uint8_t in_flight = 0;
    bool written = false, atomic = false, by_async = false, signal = false;
  };
  static bool ordered(const Stamp& before, const Access& now);
  const char* check(Byte& b, const Access& a);
  std::string thread(uint32_t warp, uint32_t lanes) const;
  const char* check_readers(const Byte& b, const Access& a) const;
  bool follows_reads(const Byte& b, const Access& a) const;
  void add_reader(Byte& b, const Access& a);

  uint32_t rank_ = 0, warps_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<Byte> shadow_;
  std::vector<std::vector<Stamp>> more_;  // readers that do not fit in a byte
};

/// A copy to shared memory that has been issued (cp.async).
struct Copy {
  uint64_t to = 0, from = 0;
  uint32_t bytes = 0, taken = 0;  // the rest is zeros
  bool done = false, awaited = false;
  uint32_t line = 0;
};

}  // namespace reprise::test::ptx
