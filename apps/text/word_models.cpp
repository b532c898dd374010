#include <algorithm>
#include <utility>

#include "apps/text/model.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

Result<int32_t> unknown_id(const Vocabulary& vocabulary, const std::string& token) {
  if (const auto id = vocabulary.find(token)) return *id;
  return invalid_input("the text has a word that the vocabulary lacks, as it does the token '" +
                       token + "' for unknown words");
}

class WordPieceModel final : public TokenModel {
 public:
  WordPieceModel(SharedVocabulary vocabulary, WordPieceOptions options)
      : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

  Status encode(std::string_view piece, std::vector<int32_t>& out) const override {
    const size_t before = out.size();
    bool known = count_chars(piece) <= options_.most_chars;
    for (size_t begin = 0; known && begin < piece.size();) {
      const size_t end = longest(piece, begin, out);
      known = end > begin;
      begin = end;
    }
    if (known) return {};
    out.resize(before);
    RP_ASSIGN(const int32_t unk, unknown_id(*vocabulary_, options_.unk_token));
    out.push_back(unk);
    return {};
  }

 private:
  /// Appends the longest token at `begin` and returns its end, which is `begin` if there is none.
  size_t longest(std::string_view piece, size_t begin, std::vector<int32_t>& out) const {
    std::string text = begin == 0 ? options_.first_prefix : options_.continuing_prefix;
    const size_t prefix = text.size();
    size_t size = std::min(piece.size() - begin, vocabulary_->longest());
    text += piece.substr(begin, size);
    for (; size > 0; --size) {
      const size_t end = begin + size;
      if (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80) continue;
      const auto id = vocabulary_->find(std::string_view(text).substr(0, prefix + size));
      if (!id) continue;
      out.push_back(*id);
      return end;
    }
    return begin;
  }

  SharedVocabulary vocabulary_;
  WordPieceOptions options_;
};

class WordLevelModel final : public TokenModel {
 public:
  WordLevelModel(SharedVocabulary vocabulary, std::string unk_token)
      : vocabulary_(std::move(vocabulary)), unk_token_(std::move(unk_token)) {}

  Status encode(std::string_view piece, std::vector<int32_t>& out) const override {
    const auto id = vocabulary_->find(piece);
    if (id) {
      out.push_back(*id);
      return {};
    }
    RP_ASSIGN(const int32_t unk, unknown_id(*vocabulary_, unk_token_));
    out.push_back(unk);
    return {};
  }

 private:
  SharedVocabulary vocabulary_;
  std::string unk_token_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_word_piece(SharedVocabulary vocabulary,
                                                    const WordPieceOptions& options) {
  return std::unique_ptr<TokenModel>(
      std::make_unique<WordPieceModel>(std::move(vocabulary), options));
}

Result<std::unique_ptr<TokenModel>> make_word_level(SharedVocabulary vocabulary,
                                                    const std::string& unk_token) {
  return std::unique_ptr<TokenModel>(
      std::make_unique<WordLevelModel>(std::move(vocabulary), unk_token));
}

}  // namespace reprise::text
