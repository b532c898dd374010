#include "apps/text/post_processor.h"

#include <string>
#include <utility>

namespace reprise::text {

namespace {

using formats::Json;

constexpr int64_t kMostId = int64_t{1} << 23;

/// The members "cls" and "sep" of Bert's and Roberta's: [token, id].
Result<int32_t> read_pair(const Json& json, const char* key) {
  RP_ASSIGN(const Json pair, json.at(key));
  if (!pair.is(Json::Kind::Array) || pair.size() != 2)
    return pair.error("must be an array of a token and its id");
  auto part = pair.items().begin();
  const Json id_json = *++part;
  RP_ASSIGN(const int64_t id, id_json.integer(0, kMostId));
  return static_cast<int32_t>(id);
}

Result<Frame> read_cls_sep(const Json& json) {
  Frame out;
  RP_ASSIGN(out.before.emplace_back(), read_pair(json, "cls"));
  RP_ASSIGN(out.after.emplace_back(), read_pair(json, "sep"));
  return out;
}

/// The ids of a special token of a template.
Result<std::vector<int32_t>> read_special(const Json& template_json, const Json& item) {
  RP_ASSIGN(const Json id, item.at("id"));
  RP_ASSIGN(const std::string_view name, id.text());
  RP_ASSIGN(const Json all, template_json.at("special_tokens"));
  RP_ASSIGN(const Json special, all.at(name));
  RP_ASSIGN(const Json ids, special.at("ids"));
  RP_TRY(ids.array().status());
  std::vector<int32_t> out;
  out.reserve(ids.size());
  for (const Json& one : ids.items()) {
    RP_ASSIGN(const int64_t value, one.integer(0, kMostId));
    out.push_back(static_cast<int32_t>(value));
  }
  return out;
}

Result<Frame> read_template(const Json& json) {
  Frame out;
  RP_ASSIGN(const Json single, json.at("single"));
  RP_TRY(single.array().status());
  size_t texts = 0;
  for (const Json& item : single.items()) {
    RP_TRY(item.object().status());
    if (item.find("Sequence")) {
      ++texts;
      continue;
    }
    RP_ASSIGN(const Json special, item.at("SpecialToken"));
    RP_ASSIGN(const std::vector<int32_t> ids, read_special(json, special));
    std::vector<int32_t>& side = texts == 0 ? out.before : out.after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (texts == 1) return out;
  return single.error("must have the text once, but has it " + std::to_string(texts) + " times");
}

Result<Frame> read_frames(const Json& json) {
  Frame out;
  RP_ASSIGN(const Json parts, json.at("processors"));
  RP_TRY(parts.array().status());
  for (const Json& part : parts.items()) {
    RP_ASSIGN(const Frame inner, read_frame(part));
    out.before.insert(out.before.begin(), inner.before.begin(), inner.before.end());
    out.after.insert(out.after.end(), inner.after.begin(), inner.after.end());
  }
  return out;
}

}  // namespace

Result<Frame> read_frame(const Json& json) {
  RP_ASSIGN(const Json type_of, json.at("type"));
  RP_ASSIGN(const std::string_view type, type_of.text());
  if (type == "ByteLevel") return Frame();  // changes offsets only
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_cls_sep(json);
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "Sequence") return read_frames(json);
  return unsupported(
      type_of.error("the post-processor '" + std::string(type) + "' is not supported").message());
}

}  // namespace reprise::text
