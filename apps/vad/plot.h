// A picture of a sound, the probability of speech, and where someone speaks.
#pragma once

#include <string>
#include <vector>

#include "apps/samples/wav.h"
#include "apps/vad/segments.h"

namespace vad {

using reprise::Error;
using samples::Sound;

/// Writes an SVG file. `window` is the duration of each probability in seconds.
Error write_plot(const Sound& sound, const std::vector<float>& probabilities, double window,
                 const std::vector<Segment>& segments, float threshold, const std::string& path);

}  // namespace vad
