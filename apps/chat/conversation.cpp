#include "apps/chat/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace reprise::chat {

namespace {

constexpr const char* kFormat = "reprise_chat";

Result<app::ChatTurn> turn_of(const nlohmann::json& json, const std::string& where) {
  const auto text = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  if (!json.is_object() || !json.contains("content") || !json["content"].is_string())
    return Status(Code::InvalidInput,
                  where + " is no object with the texts \"role\" and \"content\"");
  app::ChatTurn turn{text("role"), text("content")};
  if (turn.role != "system" && turn.role != "user" && turn.role != "assistant")
    return Status(Code::InvalidInput,
                  where + " has the role '" + turn.role + "', expected system, user or assistant");
  return turn;
}

Status read_caches(const nlohmann::json& json, Saved& out) {
  const auto text = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_string();
  };
  const auto number = [](const nlohmann::json& j) {
    return j.is_number_integer() && j.get<int64_t>() >= 0 && j.get<int64_t>() <= INT32_MAX;
  };
  const bool right = text("text") && text("model") && text("digest") && json.contains("tokens") &&
                     number(json["tokens"]) && json.contains("ids") && json["ids"].is_array() &&
                     std::ranges::all_of(json["ids"], number);
  if (!right || json["tokens"].get<size_t>() > json["ids"].size())
    return {Code::InvalidInput,
            "what it says about caches is damaged; remove \"caches\", and they are computed again"};
  out.conversation.known = {json["text"], json["ids"]};
  out.caches = {json["tokens"], json["model"], json["digest"]};
  return {};
}

}  // namespace

std::string first_of(const Conversation& conversation, const std::string& role) {
  const auto at = std::ranges::find(conversation.turns, role, &app::ChatTurn::role);
  return at == conversation.turns.end() ? std::string() : at->content;
}

void set_system(Conversation& conversation, const std::string& text) {
  std::vector<app::ChatTurn>& turns = conversation.turns;
  if (!turns.empty() && turns.front().role == "system") turns.erase(turns.begin());
  if (!text.empty()) turns.insert(turns.begin(), {"system", text});
}

std::string to_json(const Conversation& conversation, const std::optional<SavedCaches>& caches) {
  nlohmann::ordered_json out;
  out[kFormat] = 1;
  out["turns"] = nlohmann::ordered_json::array();
  for (const app::ChatTurn& turn : conversation.turns)
    out["turns"].push_back({{"role", turn.role}, {"content", turn.content}});
  if (caches)
    out["caches"] = {{"ids", conversation.known.ids},
                     {"text", conversation.known.text},
                     {"tokens", caches->tokens},
                     {"model", caches->model},
                     {"digest", caches->digest}};
  return out.dump(1) + "\n";
}

Result<Saved> from_json(const std::string& json, const std::string& name) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains(kFormat) || !parsed.contains("turns") ||
      !parsed["turns"].is_array())
    return Status(Code::InvalidInput, "'" + name + "' is no conversation that /save has written");
  if (parsed[kFormat] != 1)
    return Status(Code::InvalidInput, "'" + name + "' is of another version of this program");
  Saved saved;
  Conversation& out = saved.conversation;
  out.turns.reserve(parsed["turns"].size());
  for (const nlohmann::json& turn : parsed["turns"]) {
    const std::string where = "'" + name + "': turn " + std::to_string(out.turns.size() + 1);
    RP_ASSIGN(out.turns.emplace_back(), turn_of(turn, where));
  }
  if (parsed.contains("caches")) {
    RP_TRY(read_caches(parsed["caches"], saved).with_context("'" + name + "'"));
  }
  return saved;
}

}  // namespace reprise::chat
