// The probability of speech in windows of sound, by Silero's model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace vad {

using reprise::Error;
using reprise::Result;

constexpr int kRate = 16000;     // samples per second that the model takes
constexpr size_t kWindow = 512;  // new samples in each run
constexpr size_t kContext = 64;  // samples before them, which the model takes again

/// Takes sound as it comes in. What the model remembers of earlier windows stays in device memory:
/// it is a state of the package, and a run copies a window to the device and one number back.
class Detector {
 public:
  static Result<Detector> create(const reprise::Package& package, const reprise::Device& device);

  /// The probability of speech in the next window, of at most kWindow samples.
  Result<float> next(std::span<const float> samples);
  /// Forgets everything, for another sound.
  Error reset();

 private:
  /// Memory that runs read and write; it must not move.
  struct Bound {
    std::array<float, kContext + kWindow> window{};
    int64_t rate = kRate;
    float probability = 0;
  };

  Detector(reprise::Session session, std::unique_ptr<Bound> bound, reprise::Run run)
      : session_(std::move(session)), bound_(std::move(bound)), run_(std::move(run)) {}

  reprise::Session session_;
  std::unique_ptr<Bound> bound_;
  reprise::Run run_;  // of the session and the memory above
};

}  // namespace vad
