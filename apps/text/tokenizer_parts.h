// What a tokenizer consists of.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/text/added_tokens.h"
#include "apps/text/decoder.h"
#include "apps/text/model.h"
#include "apps/text/normalizer.h"
#include "apps/text/post_processor.h"
#include "apps/text/pre_tokenizer.h"
#include "apps/text/tokenizer.h"

namespace reprise::text {

struct Tokenizer::Parts {
  std::string name;                             // for messages
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  SharedVocabulary vocabulary;                  // of the model
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<Decoder> decoder;  // null: tokens with spaces between them
  Frame frame;
  std::unordered_map<int32_t, AddedToken> added;  // by id
  std::unordered_map<std::string, int32_t> added_ids;
  AddedTokens plain, normalized;
  size_t size = 0;
  std::string chat_template;

  /// Takes the added tokens, when the normalizer is there.
  Status set_added(const std::vector<AddedToken>& tokens);
};

}  // namespace reprise::text
