// Kernel template: attention on matrix units (the form of FlashAttention-2), for operands of fp16
// or bf16 of which asynchronous copies bring blocks of keys and values to a ring of stages:
//
//   bring the rows of queries to shared memory
//   for each block of keys:
//     wait for its stage; begin to copy the block that is stages - 1 ahead
//     sums = queries * keys
//     weights = exp(score - largest so far), in the registers of the sums; earlier results are
//     scaled results += weights, rounded to the type of the values, * values
//   store results / total of the weights, through shared memory
//
// A subgroup has whole rows, so that it exchanges nothing with others: four neighbouring
// invocations hold a row of sums (kernel::HeldPlaces), and sums become a left operand where they
// are. What lies past the head, or past the last key, is zero in shared memory, so heads and
// numbers of rows and keys may have any size in which the elements of a copy lie side by side.
#pragma once

#include "shaders/attention.h"

namespace reprise::shaders {

/// Adds the tiles, with their costs, that the device and the operands allow.
void add_attention_matrices(std::vector<AttentionTile>& out, const AttentionSize& size,
                            const TargetFacts& device);
Status write_attention_matrices(const AttentionWork& work);

}  // namespace reprise::shaders
