#include "apps/text/sentence_normalizer.h"

#include <utility>

#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";

class SentenceNormalizer final : public Normalizer {
 public:
  explicit SentenceNormalizer(SentenceRules rules) : rules_(std::move(rules)) {}

  Status apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4 + 8);
    const size_t most = 64 * text.size() + 65536;
    bool prepended = false, in_word = false;
    for (size_t i = 0, taken = 0; i < text.size(); i += taken) {
      const std::string_view replaced = next(std::string_view(text).substr(i), taken);
      for (const char c : replaced) {
        if (c != ' ') {
          if (!std::exchange(in_word, true) &&
              ((rules_.prefix && !prepended) || rules_.merge_spaces)) {
            out += kSpace;
            prepended = true;
          }
          out += c;
          continue;
        }
        in_word = false;
        if (!rules_.merge_spaces) out += kSpace;
      }
      if (out.size() > most)
        return invalid_input("a text becomes more than 64 times as long by its normalisation");
    }
    text = std::move(out);
    return {};
  }

 private:
  std::string_view next(std::string_view text, size_t& taken) const {
    if (rules_.map) {
      if (const auto found = rules_.map->longest(text)) {
        taken = found->length;
        return found->replacement;
      }
    }
    taken = char_length(text[0]);
    return text.substr(0, taken);
  }
  SentenceRules rules_;
};

struct SentencePieces final : PreTokenizer {
  explicit SentencePieces(bool p) : prefix(p) {}
  Status cut(Piece piece, Pieces& out) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 4 + 8);
    if (prefix) text += kSpace;
    for (const char c : piece.text) {
      if (c == ' ')
        text += kSpace;
      else
        text += c;
    }
    piece.text = std::move(text);
    out.push_back(std::move(piece));
    return {};
  }
  bool prefix;
};

}  // namespace

std::unique_ptr<Normalizer> make_sentence_normalizer(SentenceRules rules) {
  return std::make_unique<SentenceNormalizer>(std::move(rules));
}

std::unique_ptr<PreTokenizer> make_sentence_pieces(bool prefix) {
  return std::make_unique<SentencePieces>(prefix);
}

}  // namespace reprise::text
