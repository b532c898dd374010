#include "apps/vad/segments.h"

#include <algorithm>
#include <optional>

namespace vad {
namespace {

/// Moves the ends of segments apart from the speech, but not beyond the middle of a pause.
void pad(std::vector<Segment>& segments, double duration, double padding) {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (i == 0) segments[i].begin = std::max(0.0, segments[i].begin - padding);
    const bool last = i + 1 == segments.size();
    const double pause =
        last ? 2 * (duration - segments[i].end) : segments[i + 1].begin - segments[i].end;
    const double by = std::min(padding, std::max(pause, 0.0) / 2);
    segments[i].end += by;
    if (!last) segments[i + 1].begin -= by;
  }
}

}  // namespace

std::vector<Segment> find_segments(const std::vector<float>& probabilities, double window,
                                   double duration, const SegmentOptions& options) {
  std::vector<Segment> segments;
  std::optional<double> begin;  // of the speech that goes on
  std::optional<double> quiet;  // when it may have ended
  const auto finish = [&](double end) {
    if (end - *begin >= options.shortest_speech) segments.push_back({*begin, end});
    begin = quiet = std::nullopt;
  };
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const double now = static_cast<double>(i) * window;
    if (probabilities[i] >= options.threshold) {
      if (!begin) begin = now;
      quiet = std::nullopt;
    } else if (begin && probabilities[i] < options.threshold - options.hysteresis) {
      if (!quiet) quiet = now;
      if (now + window - *quiet >= options.shortest_silence) finish(*quiet);
    }
  }
  if (begin) finish(quiet ? *quiet : duration);
  pad(segments, duration, options.padding);
  return segments;
}

}  // namespace vad
