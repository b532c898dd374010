// Sound for the tests of reprise-vad.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vad {

/// Seconds of silence with a vowel-like voice between the given times: harmonics of a pitch that
/// moves, louder near three formants that move as well, as those of a speaker.
std::vector<float> voice(int rate, double seconds,
                         const std::vector<std::pair<double, double>>& parts);

/// The bytes of a WAV file: `kind` 1 is PCM, 3 is float.
std::string wav(const std::vector<float>& samples, int rate, int channels, int kind, int bits);

}  // namespace vad
