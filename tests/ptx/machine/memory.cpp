#include "tests/ptx/machine/memory.h"

#include <algorithm>

namespace reprise::test::ptx {

void SharedMemory::reset(uint32_t bytes) {
  bytes_.assign(bytes, std::byte{0xA5});
  shadow_.assign(bytes, {});
}

bool SharedMemory::ordered(const Access& before, const Access& now) {
  if (before.thread == kNobody || before.thread == now.thread) return true;
  if (before.group_epoch != now.group_epoch) return true;
  return before.warp == now.warp && before.warp_epoch != now.warp_epoch;
}

std::string SharedMemory::check(uint64_t offset, uint32_t bytes, bool writes, bool atomic,
                                const Access& by) {
  if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
    return "an access to " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
           " of shared memory, which has " + std::to_string(bytes_.size());
  }
  if (offset % bytes != 0) return "an access to shared memory that is not aligned";
  for (uint64_t n = offset; n < offset + bytes; ++n) {
    const char* wrong = check(shadow_[n], writes, atomic, by);
    if (wrong == nullptr) continue;
    return std::string(wrong) + ": byte " + std::to_string(n) + " of shared memory, thread " +
           std::to_string(by.thread) +
           (shadow_[n].written ? ", last written by " + std::to_string(shadow_[n].writer.thread)
                               : "");
  }
  return "";
}

const char* SharedMemory::check(Byte& b, bool writes, bool atomic, const Access& by) {
  if (b.in_flight != 0) return "an access to a copy's destination before it was awaited";
  if (!writes && !b.written) return "a read of what nobody wrote";
  if (!ordered(b.writer, by) && !(atomic && b.atomic)) return "a race with a write";
  if (!writes) {
    const bool another = b.reader.thread != kNobody && b.reader.thread != by.thread;
    if (another && b.reader.group_epoch == by.group_epoch) {
      b.reader.thread = kSeveral;
      b.reader.warp_epoch = by.warp_epoch;
      if (b.reader.warp != by.warp) b.reader.warp = kSeveral;
    } else {
      b.reader = by;
    }
    return nullptr;
  }
  if (!ordered(b.reader, by) && !(atomic && b.atomic)) return "a race of a write with a read";
  b.writer = by;
  b.written = true;
  b.atomic = atomic;
  return nullptr;
}

void SharedMemory::expect(uint64_t offset, uint32_t bytes, bool in_flight) {
  for (uint64_t n = offset; n < offset + bytes; ++n) {
    if (in_flight)
      ++shadow_[n].in_flight;
    else
      --shadow_[n].in_flight;
  }
}

}  // namespace reprise::test::ptx
