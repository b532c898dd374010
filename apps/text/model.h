// Models that turn a piece of text into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/text/vocabulary.h"
#include "codegen/formats/json.h"

namespace reprise::text {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a piece, which is valid UTF-8 and not empty.
  virtual Status encode(std::string_view piece, std::vector<int32_t>& out) const = 0;
  /// What a decoder removes from the beginning or the end of tokens; empty for most models.
  virtual std::string_view suffix() const { return {}; }
};

using SharedVocabulary = std::shared_ptr<const Vocabulary>;

/// Merges pairs of neighbours, the pair of the lowest rank first.
struct BpeOptions {
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank
  std::string unk_token, continuing_prefix, word_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};
Result<std::unique_ptr<TokenModel>> make_bpe(SharedVocabulary vocabulary,
                                             const BpeOptions& options);

/// Takes the longest token again and again.
struct WordPieceOptions {
  std::string unk_token = "[UNK]", first_prefix, continuing_prefix = "##";
  size_t most_chars = 100;  // of a word; longer ones are unknown
};
Result<std::unique_ptr<TokenModel>> make_word_piece(SharedVocabulary vocabulary,
                                                    const WordPieceOptions& options);

/// One token for each piece.
Result<std::unique_ptr<TokenModel>> make_word_level(SharedVocabulary vocabulary,
                                                    const std::string& unk_token);

/// The tokens whose scores have the largest sum (Viterbi's algorithm).
struct UnigramOptions {
  std::vector<double> scores;  // by id
  std::vector<bool> hidden;    // ids that no text becomes; may be empty
  int32_t unk_id = -1;
  bool byte_fallback = false;
};
Result<std::unique_ptr<TokenModel>> make_unigram(SharedVocabulary vocabulary,
                                                 const UnigramOptions& options);

/// Merges neighbours to the token with the highest score, as SentencePiece's model of kind BPE
/// does. What is no token becomes the tokens of its bytes.
Result<std::unique_ptr<TokenModel>> make_scored_merges(SharedVocabulary vocabulary,
                                                       std::vector<float> scores, int32_t unk_id);

struct LoadedModel {
  SharedVocabulary vocabulary;
  std::unique_ptr<TokenModel> model;
};
/// From the member "model" of a tokenizer.json.
Result<LoadedModel> load_model(const formats::Json& json);

}  // namespace reprise::text
