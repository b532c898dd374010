// The constants of log-mel spectrograms, which kernels of the model compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace transcribe {

constexpr int kRate = 16000;                // samples per second that the model takes
constexpr int64_t kWindow = 400;            // samples of a frame
constexpr int64_t kHop = 160;               // samples from one frame to the next
constexpr int64_t kFrames = 3000;           // of a chunk
constexpr int64_t kChunk = kFrames * kHop;  // samples: 30 s
constexpr int64_t kBins = kWindow / 2 + 1;
/// Samples that the model takes: the chunk, with half a frame before and after it but for a hop.
constexpr int64_t kPadded = kChunk + kWindow - kHop;

/// Cosines, then sines of each bin in a Hann window [2 * kBins, kWindow].
std::vector<float> fourier_window();
/// Weights of bins in each mel band [bands, kBins], each a triangle of area 1 (Slaney's scale).
std::vector<float> mel_filters(int64_t bands);
/// A chunk of the sound with its ends mirrored and silence after it [kPadded].
std::vector<float> padded_chunk(const std::vector<float>& samples, size_t begin);

}  // namespace transcribe
