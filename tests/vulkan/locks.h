// The mutexes that a thread of this test program holds.
#pragma once

#include <cstdint>

namespace reprise::test {

/// Whether they are counted: not under sanitizers, which count themselves.
bool locks_are_counted();
/// How many the calling thread holds.
int64_t locks_held();

}  // namespace reprise::test
