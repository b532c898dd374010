// How a text is spoken, by espeak-ng.
#pragma once

#include <string>
#include <vector>

#include "reprise/reprise.hpp"

namespace say {

using reprise::Error;
using reprise::Result;

/// The sentences of a text in the International Phonetic Alphabet, each with its marks of
/// punctuation, as voices of Piper take them. `voice` is a name of espeak-ng, such as "en-us".
/// espeak-ng has one voice at a time, so only one thread may call this.
Result<std::vector<std::string>> phonemes_of(const std::string& text, const std::string& voice);

}  // namespace say
