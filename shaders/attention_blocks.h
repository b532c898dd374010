// Kernel template: attention for GPUs, by workgroups with shared memory (shared_blocks.h):
//
//   for each block of keys:
//     scores = products of queries and keys
//     weights = exp(score - largest so far), to shared memory; earlier sums are scaled
//     add weights * values
//   store sums / total of the weights
//
// The eight invocations that share rows exchange their largest scores through shared memory.
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
