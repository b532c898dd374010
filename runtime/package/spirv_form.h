// SPIR-V words in a form that compresses well: nearly all operands are ids, and near-copies of a
// kernel number their ids differently, so that equal code has other words. Inside of the package,
// not for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::package {

/// Ids of a function's own values become distances to the last result, those of types and constants
/// their place among such; all numbers take as few bytes as they need. Any words may be given: what
/// is not SPIR-V comes back as it was, and only takes more bytes.
std::vector<std::byte> compact_spirv(std::span<const uint32_t> words);
/// The words again, `count` of them. The bytes are hostile.
Result<std::vector<uint32_t>> expand_spirv(std::span<const std::byte> bytes, size_t count);
/// The most bytes that so many words take in this form.
uint64_t max_compact_bytes(uint64_t count);

}  // namespace reprise::package
