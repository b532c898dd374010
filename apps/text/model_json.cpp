#include <utility>

#include "apps/text/model.h"

namespace reprise::text {

namespace {

using formats::Json;

Result<SharedVocabulary> read_vocabulary(const Json& model) {
  RP_ASSIGN(const Json vocab, model.at("vocab"));
  RP_TRY(vocab.object().status());
  auto out = std::make_shared<Vocabulary>();
  for (const Json& entry : vocab.items()) {
    RP_ASSIGN(const int64_t id, entry.integer());
    const Status added = out->add(entry.key(), id);
    if (!added.ok()) return vocab.error(added.message());
  }
  return SharedVocabulary(std::move(out));
}

/// A merge is a text "a b" or an array ["a", "b"].
Result<std::pair<std::string_view, std::string_view>> read_merge(const Json& merge) {
  if (merge.is(Json::Kind::Array)) {
    if (merge.size() != 2) return merge.error("must have two tokens");
    std::string_view both[2];
    size_t count = 0;
    for (const Json& token : merge.items()) {
      RP_ASSIGN(both[count++], token.text());
    }
    return std::pair(both[0], both[1]);
  }
  RP_ASSIGN(const std::string_view text, merge.text());
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    return merge.error("must be two tokens with a space between them");
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<LoadedModel> load_bpe(const Json& json) {
  LoadedModel out;
  RP_ASSIGN(out.vocabulary, read_vocabulary(json));
  BpeOptions o;
  RP_ASSIGN(const double dropout, json.number_or("dropout", 0));
  if (dropout != 0)
    return unsupported(
        json.error("has dropout, which makes results random; set it to null").message());
  RP_ASSIGN(o.unk_token, json.text_or("unk_token", ""));
  RP_ASSIGN(o.continuing_prefix, json.text_or("continuing_subword_prefix", ""));
  RP_ASSIGN(o.word_suffix, json.text_or("end_of_word_suffix", ""));
  RP_ASSIGN(o.fuse_unk, json.boolean_or("fuse_unk", false));
  RP_ASSIGN(o.byte_fallback, json.boolean_or("byte_fallback", false));
  RP_ASSIGN(o.ignore_merges, json.boolean_or("ignore_merges", false));
  RP_ASSIGN(const Json merges, json.at("merges"));
  RP_TRY(merges.array().status());
  o.merges.reserve(merges.size());
  for (const Json& merge : merges.items()) {
    RP_ASSIGN(o.merges.emplace_back(), read_merge(merge));
  }
  auto model = make_bpe(out.vocabulary, o);
  if (!model.ok()) return merges.error(model.status().message());
  out.model = std::move(*model);
  return out;
}

Result<LoadedModel> load_word_piece(const Json& json) {
  LoadedModel out;
  RP_ASSIGN(out.vocabulary, read_vocabulary(json));
  WordPieceOptions o;
  RP_ASSIGN(o.unk_token, json.text_or("unk_token", "[UNK]"));
  RP_ASSIGN(o.continuing_prefix, json.text_or("continuing_subword_prefix", "##"));
  RP_ASSIGN(const int64_t most, json.integer_or("max_input_chars_per_word", 100));
  if (most < 0) return json.error("has a negative max_input_chars_per_word");
  o.most_chars = static_cast<size_t>(most);
  RP_ASSIGN(out.model, make_word_piece(out.vocabulary, o));
  return out;
}

Result<LoadedModel> load_word_level(const Json& json) {
  LoadedModel out;
  RP_ASSIGN(out.vocabulary, read_vocabulary(json));
  RP_ASSIGN(const std::string unk, json.text_or("unk_token", "<unk>"));
  RP_ASSIGN(out.model, make_word_level(out.vocabulary, unk));
  return out;
}

Result<LoadedModel> load_unigram(const Json& json) {
  LoadedModel out;
  RP_ASSIGN(const Json vocab, json.at("vocab"));
  RP_TRY(vocab.array().status());
  auto vocabulary = std::make_shared<Vocabulary>();
  UnigramOptions o;
  o.scores.reserve(vocab.size());
  for (const Json& entry : vocab.items()) {
    if (!entry.is(Json::Kind::Array) || entry.size() != 2)
      return entry.error("must be an array of a token and its score");
    auto part = entry.items().begin();
    const Json token_json = *part;
    const Json score_json = *++part;
    RP_ASSIGN(const std::string_view token, token_json.text());
    const Status added = vocabulary->add(token, static_cast<int64_t>(o.scores.size()));
    if (!added.ok()) return entry.error(added.message());
    RP_ASSIGN(o.scores.emplace_back(), score_json.number());
  }
  if (const auto unk = json.find("unk_id")) {
    RP_ASSIGN(const int64_t id, unk->integer(0, static_cast<int64_t>(o.scores.size()) - 1));
    o.unk_id = static_cast<int32_t>(id);
  }
  RP_ASSIGN(o.byte_fallback, json.boolean_or("byte_fallback", false));
  out.vocabulary = std::move(vocabulary);
  auto model = make_unigram(out.vocabulary, o);
  if (!model.ok()) return vocab.error(model.status().message());
  out.model = std::move(*model);
  return out;
}

}  // namespace

Result<LoadedModel> load_model(const Json& json) {
  // Old files have no type; then the members tell.
  RP_TRY(json.object().status());
  std::string otherwise = "WordLevel";
  if (json.find("merges"))
    otherwise = "BPE";
  else if (json.find("continuing_subword_prefix"))
    otherwise = "WordPiece";
  else if (json.find("unk_id"))
    otherwise = "Unigram";
  RP_ASSIGN(const std::string type, json.text_or("type", otherwise));
  if (type == "BPE") return load_bpe(json);
  if (type == "WordPiece") return load_word_piece(json);
  if (type == "WordLevel") return load_word_level(json);
  if (type == "Unigram") return load_unigram(json);
  return unsupported(json.error("the model '" + type + "' is not supported").message());
}

}  // namespace reprise::text
