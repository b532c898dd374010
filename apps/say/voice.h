// What a voice of Piper says about itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace say {

using reprise::Error;
using reprise::Result;

/// How a sentence is spoken. Values of 0 for both noises give the same sound on every device.
struct Style {
  float noise = 0.667F;       // how much the sound varies
  float length = 1;           // of each phoneme, relative to the recordings
  float rhythm_noise = 0.8F;  // how much the lengths vary
};

/// The file of a voice in JSON, which lies beside its model.
struct Voice {
  std::string espeak = "en-us";  // the voice of espeak-ng that makes phonemes
  int rate = 22050;              // samples per second
  int speakers = 1;
  Style style;
  std::map<std::string, std::vector<int64_t>, std::less<>> ids;  // of phonemes, in UTF-8

  static Result<Voice> read(const std::string& path);
  /// What the model takes: a beginning, each phoneme followed by padding, and an end. Appends
  /// phonemes that the voice does not know to `unknown`.
  Result<std::vector<int64_t>> ids_of(const std::string& phonemes, std::string& unknown) const;
};

}  // namespace say
