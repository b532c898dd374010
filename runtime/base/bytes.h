// Access to values in raw memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace reprise {

/// Writes the bytes of `value` to `at`, which need not be aligned for T.
template <typename T>
void store_bytes(std::byte* at, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace reprise
