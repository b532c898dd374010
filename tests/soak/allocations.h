// The heap of this test program: operator new of one thread is counted, and made to fail.
#pragma once

#include <cstdint>

namespace reprise::test {

/// While it lives, what this thread takes from operator new is counted; with `fail_at` not 0, the
/// call of that number and all later ones throw std::bad_alloc.
class CountAllocations {
 public:
  explicit CountAllocations(uint64_t fail_at = 0);
  ~CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  uint64_t count() const;
};

}  // namespace reprise::test
