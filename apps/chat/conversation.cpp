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

std::string to_json(const Conversation& conversation) {
  nlohmann::ordered_json out;
  out[kFormat] = 1;
  out["turns"] = nlohmann::ordered_json::array();
  for (const app::ChatTurn& turn : conversation.turns)
    out["turns"].push_back({{"role", turn.role}, {"content", turn.content}});
  return out.dump(1) + "\n";
}

Result<Conversation> from_json(const std::string& json, const std::string& name) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains(kFormat) || !parsed.contains("turns") ||
      !parsed["turns"].is_array())
    return Status(Code::InvalidInput, "'" + name + "' is no conversation that /save has written");
  if (parsed[kFormat] != 1)
    return Status(Code::InvalidInput, "'" + name + "' is of another version of this program");
  Conversation out;
  out.turns.reserve(parsed["turns"].size());
  for (const nlohmann::json& turn : parsed["turns"]) {
    const std::string where = "'" + name + "': turn " + std::to_string(out.turns.size() + 1);
    RP_ASSIGN(out.turns.emplace_back(), turn_of(turn, where));
  }
  return out;
}

}  // namespace reprise::chat
