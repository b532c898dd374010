#include "tests/ptx/machine/memory.h"

#include <algorithm>
#include <bit>

namespace reprise::test::ptx {

void SharedMemory::reset(uint32_t bytes, uint32_t rank, uint32_t warps) {
  rank_ = rank;
  warps_ = warps;
  bytes_.assign(bytes, std::byte{0xA5});
  shadow_.assign(bytes, {});
  more_.clear();
}

bool SharedMemory::ordered(const Stamp& before, const Access& now) {
  if (!before.somebody()) return true;
  if (before.component == now.warp && before.lanes != 0 && (before.lanes & ~now.lanes) == 0)
    return true;
  return now.view->seen.knows(before);
}

/// The first of some lanes, for people.
std::string SharedMemory::thread(uint32_t warp, uint32_t lanes) const {
  const auto lane = static_cast<uint32_t>(std::countr_zero(lanes));
  if (warps_ == 0) return std::to_string(32 * warp + lane);
  return std::to_string(32 * (warp % warps_) + lane) + " of rank " + std::to_string(warp / warps_);
}

std::string SharedMemory::check(uint64_t offset, uint32_t bytes, const Access& a) {
  if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
    return "an access to " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
           " of shared memory, which has " + std::to_string(bytes_.size());
  }
  if (offset % bytes != 0) return "an access to shared memory that is not aligned";
  for (uint64_t n = offset; n < offset + bytes; ++n) {
    const Stamp before = shadow_[n].writer;
    const char* wrong = check(shadow_[n], a);
    if (wrong == nullptr) continue;
    return std::string(wrong) + ": byte " + std::to_string(n) + " of shared memory" +
           (warps_ == 0 ? "" : " of rank " + std::to_string(rank_)) + ", thread " +
           thread(a.warp, a.lanes) +
           (before.somebody() && before.lanes != 0
                ? ", last written by " + thread(before.component, before.lanes)
                : "");
  }
  return "";
}

const char* SharedMemory::check_readers(const Byte& b, const Access& a) const {
  const auto wrong = [&](const Stamp& r) -> const char* {
    if (ordered(r, a) || a.view->read.knows(r) || (a.atomic && b.atomic)) return nullptr;
    return r.lanes != 0 ? "a race of a write with a read"
                        : "a write to what an asynchronous operation may still read";
  };
  for (const Stamp& r : b.readers)
    if (const char* w = wrong(r); w != nullptr) return w;
  if (b.more_readers == 0) return nullptr;
  for (const Stamp& r : more_[b.more_readers - 1])
    if (const char* w = wrong(r); w != nullptr) return w;
  return nullptr;
}

/// Whether the access is a write after that of what a byte holds, whoever sees that value: it is
/// after all who have read it, or what wrote it was asynchronous and has landed.
bool SharedMemory::follows_reads(const Byte& b, const Access& a) const {
  const auto is_one = [](const Stamp& r) { return r.somebody(); };
  const bool was_read = std::ranges::any_of(b.readers, is_one) ||
                        (b.more_readers != 0 && !more_[b.more_readers - 1].empty());
  const bool landed = b.writer.lanes == 0 && a.view->read.knows(b.writer);
  return a.writes && !b.atomic && (landed || (was_read && check_readers(b, a) == nullptr));
}

/// Those before this one need not be remembered: who is after it is after them, too.
void SharedMemory::add_reader(Byte& b, const Access& a) {
  Stamp* free = nullptr;
  for (Stamp& r : b.readers) {
    if (r.somebody() && r.component == a.stamp.component && r.time == a.stamp.time) {
      r.lanes |= a.stamp.lanes;
      return;
    }
    if (ordered(r, a)) r = {};
    if (!r.somebody() && free == nullptr) free = &r;
  }
  if (free != nullptr) {
    *free = a.stamp;
    return;
  }
  if (b.more_readers == 0) {
    more_.emplace_back();
    b.more_readers = static_cast<uint32_t>(more_.size());
  }
  std::vector<Stamp>& more = more_[b.more_readers - 1];
  std::erase_if(more, [&](const Stamp& r) { return ordered(r, a); });
  for (Stamp& r : more) {
    if (r.component != a.stamp.component || r.time != a.stamp.time) continue;
    r.lanes |= a.stamp.lanes;
    return;
  }
  more.push_back(a.stamp);
}

const char* SharedMemory::check(Byte& b, const Access& a) {
  if (b.signal) return "an access to an mbarrier";
  if (b.in_flight != 0) return "an access to a copy's destination before it was awaited";
  if (!a.writes && !b.written) return "a read of what nobody wrote";
  if (!ordered(b.writer, a) && !(a.atomic && b.atomic) && !follows_reads(b, a))
    return b.writer.lanes == 0 ? "an access to a copy's destination before it was awaited"
                               : "a race with a write";
  if (a.async && !b.by_async && b.writer.somebody() && !a.view->fenced.knows(b.writer))
    return "the async proxy accesses what was written without fence.proxy.async";
  if (!a.writes) {
    add_reader(b, a);
    return nullptr;
  }
  if (const char* wrong = check_readers(b, a); wrong != nullptr) return wrong;
  b.writer = a.stamp;
  b.written = true;
  b.atomic = a.atomic;
  b.by_async = a.async;
  b.readers = {};
  if (b.more_readers != 0) more_[b.more_readers - 1].clear();
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

void SharedMemory::wrote(uint64_t offset, uint32_t bytes, const Stamp& who) {
  for (uint64_t n = offset; n < offset + bytes; ++n) shadow_[n].writer = who;
}

void SharedMemory::set_signal(uint64_t offset, uint32_t bytes, bool is_one) {
  for (uint64_t n = offset; n < offset + bytes; ++n) {
    shadow_[n].signal = is_one;
    shadow_[n].written = false;
  }
}

}  // namespace reprise::test::ptx
