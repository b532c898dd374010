// What was said in a conversation, as an object and as a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/generate/decoder_session.h"
#include "apps/generate/model_text.h"

namespace reprise::chat {

struct Conversation {
  std::vector<app::ChatTurn> turns;  // the first may be that of the system
  /// Ids of which the caches have the first ones, and their text; without a text if it is not sure.
  app::KnownText known;
  /// The caches while another conversation uses the session. Forks share them. Null: there are
  /// none, or the session has them.
  std::shared_ptr<const app::KeptCaches> kept;
};

/// The text of the first turn of a role; empty if there is none.
std::string first_of(const Conversation& conversation, const std::string& role);
/// Replaces the turn of the system; an empty text removes it.
void set_system(Conversation& conversation, const std::string& text);

/// The turns as JSON: {"reprise_chat": 1, "turns": [{"role": "user", "content": "Hello"}, ...]}.
std::string to_json(const Conversation& conversation);
/// `name` is for messages.
Result<Conversation> from_json(const std::string& json, const std::string& name);

}  // namespace reprise::chat
