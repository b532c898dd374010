// Kernel template: attention for GPUs, by workgroups with shared memory. A workgroup computes a
// tile of kRows rows and all of the tile's columns:
//
//   for each block of kKeys keys:
//     for each chunk of the head: load queries and keys to shared memory, add their products
//     weights = exp(score - largest so far), to shared memory; earlier sums are scaled
//     for each part of the block: load values to shared memory, add weights * values
//   store sums / total of the weights
//
// An invocation computes 4 rows x 4 keys of the scores, and 4 rows x columns / 8 of the result. The
// eight invocations that share rows exchange their largest scores through shared memory. Everything
// fits in 16 KB, which is what every Vulkan device has.
#pragma once

#include "shaders/attention.h"

namespace reprise::shaders {

/// Whether the template can compute this: the head is a known multiple of 4.
bool fits_attention_blocks(const AttentionSize& size);
/// The tile, without its cost, for so many columns of values.
AttentionTile attention_blocks(const AttentionSize& size, int columns);
/// Its estimated time.
double attention_blocks_time(const AttentionSize& size, const AttentionTile& tile);
Status write_attention_blocks(const AttentionWork& work);

}  // namespace reprise::shaders
