// What models of SentencePiece in GGUF files do to spaces.
#pragma once

#include <memory>
#include <optional>

#include "apps/text/charsmap.h"
#include "apps/text/normalizer.h"
#include "apps/text/pre_tokenizer.h"

namespace reprise::text {

struct SentenceRules {
  bool prefix = true;         // a space before the first word
  bool merge_spaces = false;  // one space between words, and none at the end
  std::optional<Charsmap> map;
};

/// Replaces what the table replaces, the longest first, and writes spaces as U+2581.
std::unique_ptr<Normalizer> make_sentence_normalizer(SentenceRules rules);
/// Writes spaces as U+2581, without cutting; with a space before the text, and before what follows
/// a special token, if `prefix`.
std::unique_ptr<PreTokenizer> make_sentence_pieces(bool prefix);

}  // namespace reprise::text
