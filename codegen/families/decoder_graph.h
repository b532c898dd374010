// The graph of a decoder.
#pragma once

#include "codegen/builder/graph_builder.h"
#include "codegen/families/decoder.h"

namespace reprise::families {

struct DecoderGraphOptions {
  int64_t batch = 1;        // 0: any
  int64_t sequence = 0;     // new positions of a run; 0: any
  bool all_logits = false;  // those of every new position, not of the last one alone
  bool floats = false;      // weights in blocks become float32
};

/// Inputs: `input_ids` int64 [batch, sequence], and for each layer N `past_key_values.N.key` and
/// `past_key_values.N.value` float32 [batch, kv_heads, past, head_size]. Positions count on from
/// the past. Outputs: `logits` float32 [batch, 1 or sequence, vocabulary], and `present.N.key` and
/// `present.N.value`: the past followed by the new rows. The graph borrows the memory of the file,
/// except for weights in blocks, which it has as numbers and scales.
Result<builder::BuiltGraph> build_decoder(const Decoder& decoder,
                                          const DecoderGraphOptions& options = {});

}  // namespace reprise::families
