// Sound, from and to WAV files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace samples {

using reprise::Error;
using reprise::Result;

/// The most samples of a sound, which are 4 hours and a half at 16,000 per second, and 1 GiB.
inline constexpr size_t kMostSamples = size_t{1} << 28;

struct Sound {
  int rate = 0;                // samples per second
  std::vector<float> samples;  // between -1 and 1; the mean of all channels
};

/// Reads PCM of 8, 16, 24 or 32 bits and floats of 32 bits, which are cut off at -1 and 1.
Result<Sound> read_wav(const std::string& path);
/// Writes PCM of 16 bits with one channel; louder samples are cut off at -1 and 1.
Error write_wav(const Sound& sound, const std::string& path);
/// The same sound at another rate; frequencies above half of it are left out. Fails if it would
/// have more than kMostSamples.
Result<Sound> resampled(const Sound& sound, int rate);

}  // namespace samples
