// The families of host kernels. host_kernels.cpp joins those of every runtime, and
// extras/extras.cpp those of libreprise_extras.
#pragma once

#include "runtime/host/kernel_set.h"

namespace reprise::host {

Table attention_table();
Table binary_table();
Table boxes_table();
Table cast_table();
Table col2im_table();
Table conv_table();
Table einsum_table();
Table gather_table();
Table generate_table();
Table gradients_table();
Table gridsample_table();
Table invalid_branch_table();
Table linear_attention_table();
Table logic_table();
Table loss_table();
Table matmul_table();
Table ml_encode_table();
Table ml_linear_table();
Table ml_maps_table();
Table ml_svm_table();
Table ml_trees_table();
Table movement_table();
Table ngrams_table();
Table normalization_table();
Table pad_table();
Table pool_table();
Table quantize_table();
Table random_table();
Table recurrent_table();
Table reduce_table();
Table resize_table();
Table sampling_table();
Table scatter_table();
Table select_table();
Table sequences_table();
Table shape_table();
Table signal_table();
Table slice_table();
Table softmax_table();
Table strings_table();
Table tokenizer_table();
Table unary_table();

}  // namespace reprise::host
