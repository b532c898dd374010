// The tokens of Whisper.
#pragma once

#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace transcribe {

using reprise::Error;
using reprise::Result;

/// Tokens as text, and which of them have a meaning of their own.
class Vocabulary {
 public:
  /// Reads vocabulary.txt, a token in each line as GPT-2 writes bytes, and the lists suppress_ids
  /// and suppress_ids_begin of config.json.
  static Result<Vocabulary> read(const std::string& tokens, const std::string& config);

  size_t size() const { return tokens_.size(); }
  /// The bytes of tokens, without those of special ones.
  std::string text(const std::vector<int64_t>& ids) const;
  /// That text for people: without spaces before it and without what steers a terminal.
  std::string shown(const std::vector<int64_t>& ids) const;

  int64_t end = 0, start = 0, no_speech = 0, no_timestamps = 0;
  /// The first time, 0 s; each that follows is 0.02 s later.
  int64_t first_time = 0;
  std::vector<int64_t> suppressed, suppressed_first;  // are never chosen, or not as the first
  /// Languages and tasks, of models that know several: what follows `start`.
  std::vector<int64_t> prompt;

 private:
  std::vector<std::string> tokens_;
};

}  // namespace transcribe
