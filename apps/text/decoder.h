// How tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/formats/json.h"

namespace reprise::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes a chain of tokens, whose texts put together are the result. They may have bytes that
  /// are no UTF-8.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// From the member "decoder" of a tokenizer.json.
Result<std::unique_ptr<Decoder>> make_decoder(const formats::Json& json);
std::unique_ptr<Decoder> make_byte_level_decoder();
/// Of models of SentencePiece: bytes, and spaces; one space at the beginning goes if `strip_first`.
std::unique_ptr<Decoder> make_sentence_decoder(bool strip_first);
/// Of BERT's vocabularies in GGUF files, whose words begin with U+2581.
std::unique_ptr<Decoder> make_word_decoder();

}  // namespace reprise::text
