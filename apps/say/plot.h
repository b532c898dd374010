// A picture of speech.
#pragma once

#include <string>
#include <vector>

#include "apps/samples/wav.h"

namespace say {

/// A sentence in the sound.
struct Spoken {
  std::string phonemes;
  double begin = 0, end = 0;  // seconds
};

/// Writes an SVG file: the sound, with the phonemes of each sentence above it.
reprise::Error write_plot(const samples::Sound& sound, const std::vector<Spoken>& sentences,
                          const std::string& path);

}  // namespace say
