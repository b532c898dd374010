#include <algorithm>
#include <limits>
#include <utility>

#include "apps/text/charsmap.h"
#include "apps/text/gguf_patterns.h"
#include "apps/text/sentence_normalizer.h"
#include "apps/text/tokenizer_parts.h"
#include "apps/text/unicode.h"
#include "codegen/formats/gguf.h"

namespace reprise::text {

namespace {

using formats::Gguf;
using formats::GgufValue;

// The key tokenizer.ggml.token_type.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

/// Reads the keys tokenizer.ggml.*.
class GgufLoader {
 public:
  GgufLoader(const Gguf& file, Tokenizer::Parts& parts) : file_(file), parts_(parts) {}

  Status load() {
    parts_.name = file_.name();
    RP_ASSIGN(kind_, file_.text("tokenizer.ggml.model"));
    RP_ASSIGN(const std::string_view chat, file_.text_or("tokenizer.chat_template", ""));
    parts_.chat_template = chat;
    RP_TRY(load_tokens());
    RP_TRY(read_ids());
    if (kind_ == "gpt2")
      RP_TRY(load_bpe());
    else if (kind_ == "llama")
      RP_TRY(load_scored_merges());
    else if (kind_ == "bert")
      RP_TRY(load_word_piece());
    else if (kind_ == "t5")
      RP_TRY(load_unigram());
    else
      return unsupported(file_.name() + ": tokenizer.ggml.model is '" + std::string(kind_) +
                         "', but only gpt2, llama, bert and t5 are supported");
    RP_TRY(parts_.set_added(added_));
    return set_frame();
  }

  Tokenizer::Special special() const {
    Tokenizer::Special out;
    out.bos = id_or_none(bos_);
    out.eos = id_or_none(eos_);
    out.eot = id_or_none(eot_);
    return out;
  }

 private:
  static std::optional<int32_t> id_or_none(int64_t id) {
    return id < 0 ? std::nullopt : std::optional<int32_t>(static_cast<int32_t>(id));
  }

  Status load_tokens() {
    RP_ASSIGN(const GgufValue* tokens, file_.texts("tokenizer.ggml.tokens"));
    const GgufValue* types = nullptr;
    if (file_.find("tokenizer.ggml.token_type") != nullptr) {
      RP_ASSIGN(types, file_.numbers("tokenizer.ggml.token_type"));
      if (types->size() != tokens->size()) {
        return invalid_model(file_.name() + ": tokenizer.ggml.token_type has " +
                             std::to_string(types->size()) + " items, but there are " +
                             std::to_string(tokens->size()) + " tokens");
      }
    }
    auto vocabulary = std::make_shared<Vocabulary>();
    types_.reserve(tokens->size());
    for (size_t i = 0; i < tokens->size(); ++i) {
      const std::string_view token = *tokens->text(i);
      RP_TRY(vocabulary->add(token, static_cast<int64_t>(i)).with_context(file_.name()));
      types_.push_back(types == nullptr ? kNormal : types->integer(i).value_or(kNormal));
      if (types_[i] != kControl && types_[i] != kUserDefined && types_[i] != kUnknown) continue;
      AddedToken t;
      t.content = token;
      t.id = static_cast<int32_t>(i);
      t.special = types_[i] != kUserDefined;
      added_.push_back(std::move(t));
    }
    parts_.vocabulary = std::move(vocabulary);
    return {};
  }

  /// The id that a key has; -1 if the file lacks the key.
  Result<int64_t> read_id(const char* key, int64_t otherwise = -1) const {
    RP_ASSIGN(const int64_t id, file_.integer_or(key, otherwise));
    const auto count = static_cast<int64_t>(types_.size());
    // Some converters write the largest number of 32 bits for none.
    if (id == std::numeric_limits<uint32_t>::max() || id == -1) return -1;
    if (id >= 0 && id < count) return id;
    if (file_.find(key) == nullptr) return -1;
    return invalid_model(file_.name() + ": " + key + " is " + std::to_string(id) +
                         ", but there are " + std::to_string(count) + " tokens");
  }

  Status read_ids() {
    const bool sentence = kind_ == "llama";
    RP_ASSIGN(bos_, read_id("tokenizer.ggml.bos_token_id", sentence ? 1 : -1));
    RP_ASSIGN(eos_, read_id("tokenizer.ggml.eos_token_id", sentence ? 2 : -1));
    RP_ASSIGN(eot_, read_id("tokenizer.ggml.eot_token_id"));
    RP_ASSIGN(unk_, read_id("tokenizer.ggml.unknown_token_id", sentence ? 0 : -1));
    RP_ASSIGN(separator_, read_id("tokenizer.ggml.seperator_token_id"));
    if (separator_ < 0) {
      RP_ASSIGN(separator_, read_id("tokenizer.ggml.separator_token_id"));
    }
    RP_ASSIGN(cls_, read_id("tokenizer.ggml.cls_token_id"));
    return {};
  }

  Status load_bpe() {
    RP_ASSIGN(const std::string_view pre, file_.text_or("tokenizer.ggml.pre", "default"));
    const GgufPattern* pattern = find_gguf_pattern(pre);
    if (pattern == nullptr) {
      return unsupported(file_.name() + ": tokenizer.ggml.pre is '" + std::string(pre) +
                         "', which is not supported");
    }
    adds_bos_ = pattern->adds_bos;
    std::vector<Regex> patterns;
    patterns.reserve(pattern->patterns.size());
    for (const std::string_view p : pattern->patterns) {
      RP_ASSIGN(patterns.emplace_back(), Regex::compile(p, std::string(pre)));
    }
    parts_.pre_tokenizer = make_byte_level(std::move(patterns));
    BpeOptions options;
    options.ignore_merges = pattern->ignore_merges;
    RP_ASSIGN(const GgufValue* merges, file_.texts("tokenizer.ggml.merges"));
    options.merges.reserve(merges->size());
    for (size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = *merges->text(i);
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos) {
        return invalid_model(file_.name() + ": tokenizer.ggml.merges: item " + std::to_string(i) +
                             " must be two tokens with a space between them");
      }
      options.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    auto model = make_bpe(parts_.vocabulary, options);
    if (!model.ok()) return model.status().with_context(file_.name());
    parts_.model = std::move(*model);
    parts_.decoder = make_byte_level_decoder();
    return {};
  }

  Result<std::vector<float>> scores() const {
    RP_ASSIGN(const GgufValue* values, file_.numbers("tokenizer.ggml.scores"));
    std::vector<float> out;
    out.reserve(values->size());
    for (size_t i = 0; i < values->size(); ++i)
      out.push_back(static_cast<float>(values->number(i).value_or(0)));
    if (out.size() == types_.size()) return out;
    return invalid_model(file_.name() + ": tokenizer.ggml.scores has " +
                         std::to_string(out.size()) + " items, but there are " +
                         std::to_string(types_.size()) + " tokens");
  }

  Status load_scored_merges() {
    adds_bos_ = true;
    RP_ASSIGN(std::vector<float> all, scores());
    RP_ASSIGN(const bool prefix, file_.boolean_or("tokenizer.ggml.add_space_prefix", true));
    parts_.pre_tokenizer = make_sentence_pieces(prefix);
    auto model = make_scored_merges(parts_.vocabulary, std::move(all), static_cast<int32_t>(unk_));
    if (!model.ok()) return model.status().with_context(file_.name());
    parts_.model = std::move(*model);
    parts_.decoder = make_sentence_decoder(prefix);
    return {};
  }

  Status load_word_piece() {
    adds_bos_ = true;
    adds_separator_ = true;
    static constexpr const char* kParts =
        R"([{"type": "BertNormalizer"}, {"type": "BertPreTokenizer"}])";
    RP_ASSIGN(const formats::Json parts, formats::Json::parse(kParts, "bert"));
    auto part = parts.items().begin();
    RP_ASSIGN(parts_.normalizer, make_normalizer(*part));
    RP_ASSIGN(parts_.pre_tokenizer, make_pre_tokenizer(*++part));
    WordPieceOptions options;
    options.first_prefix = "\xE2\x96\x81";
    options.continuing_prefix = "";
    options.most_chars = std::numeric_limits<size_t>::max();
    options.unk_token = unk_ < 0 ? "[UNK]" : parts_.vocabulary->token(static_cast<int32_t>(unk_));
    RP_ASSIGN(parts_.model, make_word_piece(parts_.vocabulary, options));
    parts_.decoder = make_word_decoder();
    return {};
  }

  Status load_unigram() {
    adds_eos_ = true;
    SentenceRules rules;
    RP_ASSIGN(rules.prefix, file_.boolean_or("tokenizer.ggml.add_space_prefix", true));
    RP_ASSIGN(rules.merge_spaces,
              file_.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
    if (const GgufValue* map = file_.find("tokenizer.ggml.precompiled_charsmap")) {
      std::string bytes;
      bytes.reserve(map->size());
      for (size_t i = 0; i < map->size(); ++i)
        bytes.push_back(static_cast<char>(map->integer(i).value_or(0)));
      RP_ASSIGN(rules.map,
                Charsmap::parse(bytes, file_.name() + ": tokenizer.ggml.precompiled_charsmap"));
    }
    parts_.normalizer = make_sentence_normalizer(std::move(rules));
    RP_ASSIGN(const std::vector<float> all, scores());
    UnigramOptions options;
    options.scores.assign(all.begin(), all.end());
    options.unk_id = static_cast<int32_t>(unk_);
    options.hidden.reserve(types_.size());
    for (const int64_t type : types_)
      options.hidden.push_back(type != kNormal && type != kUserDefined && type != kUnused);
    for (size_t i = 0; i < types_.size(); ++i) {
      if (types_[i] == kUserDefined) options.scores[i] = 0;
    }
    auto model = make_unigram(parts_.vocabulary, options);
    if (!model.ok()) return model.status().with_context(file_.name());
    parts_.model = std::move(*model);
    parts_.decoder = make_sentence_decoder(true);
    return {};
  }

  Status set_frame() {
    RP_ASSIGN(const bool bos, file_.boolean_or("tokenizer.ggml.add_bos_token", adds_bos_));
    RP_ASSIGN(const bool eos, file_.boolean_or("tokenizer.ggml.add_eos_token", adds_eos_));
    RP_ASSIGN(const bool separator,
              file_.boolean_or("tokenizer.ggml.add_sep_token", adds_separator_));
    const int64_t first = kind_ == "bert" && cls_ >= 0 ? cls_ : bos_;
    if (bos && first >= 0) parts_.frame.before.push_back(static_cast<int32_t>(first));
    if (separator && separator_ >= 0)
      parts_.frame.after.push_back(static_cast<int32_t>(separator_));
    if (eos && eos_ >= 0) parts_.frame.after.push_back(static_cast<int32_t>(eos_));
    return {};
  }

  const Gguf& file_;
  Tokenizer::Parts& parts_;
  std::string_view kind_;
  std::vector<int64_t> types_;
  std::vector<AddedToken> added_;
  int64_t bos_ = -1, eos_ = -1, eot_ = -1, unk_ = -1, separator_ = -1, cls_ = -1;
  bool adds_bos_ = false, adds_eos_ = false, adds_separator_ = false;
};

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const Gguf& file) {
  auto parts = std::make_shared<Parts>();
  GgufLoader loader(file, *parts);
  RP_TRY(loader.load());
  return Tokenizer(std::move(parts), loader.special());
}

}  // namespace reprise::text
