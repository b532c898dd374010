// What was said in a conversation, as an object and as a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/generate/decoder_session.h"
#include "apps/generate/model_text.h"

namespace reprise::chat {

struct Conversation {
  std::vector<app::ChatTurn> turns;  // the first may be that of the system
  /// Ids of which the caches have the first ones, and their text; without a text if it is not sure.
  app::KnownText known;
  /// Its caches. No states: it has none yet, or the package keeps none for several conversations.
  app::DecoderSession::Text text;
};

/// The caches of a conversation in a file.
struct SavedCaches {
  int64_t tokens = 0;  // the first ones of Conversation::known
  std::string model;   // that has computed them
  std::string digest;  // of the file
};

/// The text of the first turn of a role; empty if there is none.
std::string first_of(const Conversation& conversation, const std::string& role);
/// Replaces the turn of the system, whose text is UTF-8; an empty text removes it.
void set_system(Conversation& conversation, const std::string& text);

/// The turns as JSON: {"reprise_chat": 1, "turns": [{"role": "user", "content": "Hello"}, ...]}.
/// With caches also the ids that they are of.
std::string to_json(const Conversation& conversation,
                    const std::optional<SavedCaches>& caches = std::nullopt);
struct Saved {
  Conversation conversation;
  std::optional<SavedCaches> caches;
};
/// `name` is for messages.
Result<Saved> from_json(const std::string& json, const std::string& name);

}  // namespace reprise::chat
