// Whisper's encoder and decoder, as graphs.
#pragma once

#include "apps/transcribe/weights.h"
#include "reprise/compiler.hpp"

namespace transcribe {

/// The sizes of a Whisper model.
struct Sizes {
  int64_t width = 0, heads = 0, mel_bands = 0, vocabulary = 0;
  int64_t positions = 0, text_positions = 0;  // of the encoder and of the decoder
  int64_t layers = 0;                         // of the decoder
  int64_t head_width() const { return width / heads; }

  static Result<Sizes> of(const WeightFile& weights);
};

/// The input `audio` float[kPadded] is sound. Kernels make the log-mel spectrogram of it. The
/// outputs cross_k.N and cross_v.N, float[heads, positions, head width], are what layer N of the
/// decoder reads in every step.
Result<reprise::Graph> encoder_graph(const WeightFile& weights, const Sizes& sizes);

/// One step. Inputs: `token` int64[1], `position` int64[1], cross_k.N, cross_v.N, and the caches
/// past_k.N and past_v.N float[heads, past, head width], which the outputs present_k.N and
/// present_v.N continue. The output `logits` is float[1, vocabulary].
Result<reprise::Graph> decoder_graph(const WeightFile& weights, const Sizes& sizes);

/// The name of a tensor of a layer, such as "cross_k.3".
std::string of_layer(const std::string& name, int64_t layer);

}  // namespace transcribe
