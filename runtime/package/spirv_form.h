// A form of SPIR-V that compresses well. Nearly all operands of SPIR-V are ids, and kernels that
// differ little number their ids differently, so that equal code has different words. Internal to
// runtime/package.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::package {

/// Replaces ids of values in a function by their distances to the last result, and ids of types and
/// constants by their index among those. All numbers take as few bytes as they need. Accepts any
/// words; if they are not SPIR-V, the result only takes more bytes.
std::vector<std::byte> compact_spirv(std::span<const uint32_t> words);
/// The inverse of compact_spirv(), for `count` words. The bytes are untrusted.
Result<std::vector<uint32_t>> expand_spirv(std::span<const std::byte> bytes, size_t count);
/// An upper bound for the size of `count` words in this form.
uint64_t max_compact_bytes(uint64_t count);

}  // namespace reprise::package
