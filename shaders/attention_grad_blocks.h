// Kernel template: the gradients of attention for GPUs, by workgroups with shared memory
// (shared_blocks.h):
//
//   for each block of others:
//     both products of rows and others, one after the other
//     pulls and weights of their pairs, in registers
//     for each result: pulls or weights to shared memory; add them * the others' factor
#pragma once

#include "shaders/attention_grad.h"

namespace reprise::shaders {

/// Whether the template can compute this: the head is a multiple of 4, and vectors are consecutive.
bool fits_attention_grad_blocks(const AttentionGradSize& size);
/// The tile, without its cost.
AttentionGradTile attention_grad_blocks(const AttentionGradSize& size);
/// Its estimated time.
double attention_grad_blocks_time(const AttentionGradSize& size, const AttentionGradTile& tile);
Status write_attention_grad_blocks(const AttentionGradWork& work);

}  // namespace reprise::shaders
