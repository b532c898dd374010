#include <utility>

#include "apps/text/tokenizer_parts.h"
#include "codegen/formats/json.h"

namespace reprise::text {

namespace {

using formats::Json;

Result<AddedToken> read_added(const Json& json) {
  AddedToken out;
  RP_ASSIGN(const Json content, json.at("content"));
  RP_ASSIGN(const std::string_view text, content.text());
  out.content = text;
  RP_ASSIGN(const Json id, json.at("id"));
  RP_ASSIGN(const int64_t number, id.integer(0, (1 << 23) - 1));
  out.id = static_cast<int32_t>(number);
  RP_ASSIGN(out.special, json.boolean_or("special", false));
  RP_ASSIGN(out.single_word, json.boolean_or("single_word", false));
  RP_ASSIGN(out.left_strip, json.boolean_or("lstrip", false));
  RP_ASSIGN(out.right_strip, json.boolean_or("rstrip", false));
  RP_ASSIGN(out.normalized, json.boolean_or("normalized", !out.special));
  return out;
}

Result<std::vector<AddedToken>> read_all_added(const Json& root) {
  std::vector<AddedToken> out;
  const auto list = root.find("added_tokens");
  if (!list) return out;
  RP_TRY(list->array().status());
  out.reserve(list->size());
  for (const Json& token : list->items()) {
    RP_ASSIGN(out.emplace_back(), read_added(token));
  }
  return out;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(std::string_view json, const std::string& name) {
  RP_ASSIGN(const Json root, Json::parse(json, name));
  auto parts = std::make_shared<Parts>();
  parts->name = name;
  RP_ASSIGN(const Json model, root.at("model"));
  RP_ASSIGN(LoadedModel loaded, load_model(model));
  parts->vocabulary = std::move(loaded.vocabulary);
  parts->model = std::move(loaded.model);
  if (const auto part = root.find("normalizer")) {
    RP_ASSIGN(parts->normalizer, make_normalizer(*part));
  }
  if (const auto part = root.find("pre_tokenizer")) {
    RP_ASSIGN(parts->pre_tokenizer, make_pre_tokenizer(*part));
  }
  if (const auto part = root.find("decoder")) {
    RP_ASSIGN(parts->decoder, make_decoder(*part));
  }
  if (const auto part = root.find("post_processor")) {
    RP_ASSIGN(parts->frame, read_frame(*part));
  }
  RP_ASSIGN(const std::vector<AddedToken> added, read_all_added(root));
  RP_TRY(parts->set_added(added).with_context(name));
  return Tokenizer(std::move(parts), {});
}

}  // namespace reprise::text
