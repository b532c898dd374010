// Conversations with a language model that take turns on one session.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/conversation.h"
#include "apps/generate/next_token.h"

namespace reprise::chat {

struct ChatOptions {
  app::SamplingOptions sampling;
  std::string system;               // of each new conversation
  std::vector<int64_t> end_tokens;  // beside those of the tokenizer
  int64_t max_tokens = 0;           // of an answer; 0: as many as there is room for
  std::string model;                // what tells it apart; empty: its caches are not saved
};

struct AnswerStats {
  int64_t prompt_tokens = 0;  // of the whole conversation
  int64_t new_tokens = 0;     // of these, those that the caches did not have
  int64_t tokens = 0;         // of the answer
  double first_ms = 0;        // to the first token
  double decode_ms = 0;       // for all others
  bool stopped = false;       // by the user
  bool full = false;          // the caches have no more room
};

/// One thread at a time may use it.
class Chat {
 public:
  using Show = std::function<void(const std::string& piece)>;

  Chat(std::unique_ptr<app::DecoderSession> session, std::unique_ptr<app::ModelText> text,
       ChatOptions options);

  /// Answers a message. Pieces of the answer are complete UTF-8. If `stop` is set meanwhile, the
  /// answer ends and stays as it is. After an error, the message was not said.
  Result<AnswerStats> say(const std::string& message, const Show& show,
                          const std::atomic<bool>& stop);
  /// Answers the last message again. After an error, the last answer stays.
  Result<AnswerStats> retry(const Show& show, const std::atomic<bool>& stop);
  /// Replaces the text of the system; an empty one removes it.
  void set_system(const std::string& text) { chat::set_system(current(), text); }

  /// Begins a conversation, which becomes the current one.
  void begin();
  /// Copies the current conversation. The copy becomes the current one. Caches are copied when both
  /// go on.
  Status fork();
  /// The number counts from 0.
  Status select(size_t number);
  /// Writes the caches of the current conversation to a file, if it has any.
  Result<std::optional<SavedCaches>> save_caches(const std::string& path);
  /// Goes on with what save_caches() has written. If that fails, the caches are computed again.
  Status load_caches(const std::string& path, const SavedCaches& saved);
  /// Adds a conversation, which becomes the current one.
  void add(Conversation conversation);

  const std::vector<Conversation>& conversations() const { return conversations_; }
  size_t selected() const { return selected_; }
  int64_t capacity() const { return session_->capacity(); }

 private:
  Conversation& current() { return conversations_[selected_]; }
  Result<AnswerStats> answer(const Show& show, const std::atomic<bool>& stop);
  Status take_session();
  void note_length();
  bool forget_others();
  Status read_caches(const std::string& path, const SavedCaches& saved);
  Result<int64_t> next(std::span<const int64_t> ids);
  Status rewind(const std::vector<int64_t>& ids);
  Result<int64_t> prefill(const std::vector<int64_t>& ids, const std::atomic<bool>& stop);
  Status decode(int64_t id, const Show& show, const std::atomic<bool>& stop, std::string& said,
                AnswerStats& stats);
  bool ends(int64_t id) const;

  std::unique_ptr<app::DecoderSession> session_;
  std::unique_ptr<app::ModelText> text_;
  ChatOptions options_;
  app::NextToken next_;
  std::vector<Conversation> conversations_;
  size_t selected_ = 0;
  std::optional<size_t> owner_;  // whose caches the session uses
};

}  // namespace reprise::chat
