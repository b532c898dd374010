// From the probability of speech in each window of sound to the times at which someone speaks.
#pragma once

#include <vector>

namespace vad {

struct Segment {
  double begin = 0, end = 0;  // seconds
};

struct SegmentOptions {
  float threshold = 0.5F;                                 // speech begins at this probability
  float hysteresis = 0.15F;                               // and ends this much below
  double shortest_speech = 0.25, shortest_silence = 0.1;  // seconds; what is shorter is ignored
  double padding = 0.03;                                  // seconds before and after
};

/// `window` is the duration of each window and `duration` that of the sound, in seconds.
std::vector<Segment> find_segments(const std::vector<float>& probabilities, double window,
                                   double duration, const SegmentOptions& options);

}  // namespace vad
