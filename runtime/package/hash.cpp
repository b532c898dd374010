#include <xxhash.h>

#include "runtime/package/package.h"

namespace reprise::package {

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace reprise::package
