// The tables of the operator families, which registry.cpp joins. They have static storage.
#pragma once

#include <span>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

std::span<const OpDef> unary_ops();
std::span<const OpDef> activation_ops();
std::span<const OpDef> binary_ops();
std::span<const OpDef> logic_ops();
std::span<const OpDef> cast_ops();
std::span<const OpDef> shape_ops();
std::span<const OpDef> reshape_ops();
std::span<const OpDef> view_ops();
std::span<const OpDef> state_ops();
std::span<const OpDef> generator_ops();
std::span<const OpDef> slice_ops();
std::span<const OpDef> gather_ops();
std::span<const OpDef> scatter_ops();
std::span<const OpDef> select_ops();
std::span<const OpDef> pad_tile_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> scan_ops();
std::span<const OpDef> sort_ops();
std::span<const OpDef> normalization_ops();
std::span<const OpDef> softmax_ops();
std::span<const OpDef> matmul_ops();
std::span<const OpDef> einsum_ops();
std::span<const OpDef> conv_ops();
std::span<const OpDef> col2im_ops();
std::span<const OpDef> pool_ops();
std::span<const OpDef> resize_ops();
std::span<const OpDef> quantize_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> attention_grad_ops();
std::span<const OpDef> recurrent_ops();
std::span<const OpDef> loss_ops();
std::span<const OpDef> sampling_ops();
std::span<const OpDef> token_sampling_ops();
std::span<const OpDef> grid_sample_ops();
std::span<const OpDef> roi_align_ops();
std::span<const OpDef> signal_ops();
std::span<const OpDef> ml_ops();
std::span<const OpDef> ml_map_ops();
std::span<const OpDef> string_ops();
std::span<const OpDef> sequence_ops();
std::span<const OpDef> random_ops();
std::span<const OpDef> training_ops();
std::span<const OpDef> linear_attention_ops();
std::span<const OpDef> microsoft_ops();
std::span<const OpDef> microsoft_quantized_ops();
std::span<const OpDef> microsoft_attention_ops();
std::span<const OpDef> microsoft_heads_ops();
std::span<const OpDef> microsoft_grouped_query_ops();
std::span<const OpDef> microsoft_sparse_ops();
std::span<const OpDef> microsoft_layers_ops();
std::span<const OpDef> microsoft_linear_ops();
std::span<const OpDef> microsoft_experts_ops();
std::span<const OpDef> microsoft_tensors_ops();
std::span<const OpDef> microsoft_sequences_ops();
std::span<const OpDef> roi_pool_ops();
std::span<const OpDef> old_arithmetic_ops();
std::span<const OpDef> old_shape_ops();
std::span<const OpDef> old_layer_ops();
std::span<const OpDef> host_only_ops();

}  // namespace reprise::ops
