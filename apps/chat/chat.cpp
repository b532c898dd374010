#include "apps/chat/chat.h"

#include <algorithm>
#include <span>

#include "apps/common/status.h"
#include "apps/generate/language_model.h"
#include "runtime/base/timing.h"

namespace reprise::chat {

namespace {

/// A long prompt is read in parts, between which the user can stop it.
constexpr size_t kPrefillTokens = 512;
/// What prefill() returns if it was stopped.
constexpr int64_t kStopped = -1;

size_t common_beginning(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Chat::Chat(std::unique_ptr<app::DecoderSession> session, std::unique_ptr<app::ModelText> text,
           ChatOptions options)
    : session_(std::move(session)),
      text_(std::move(text)),
      options_(std::move(options)),
      next_(*session_, options_.sampling) {
  begin();
}

void Chat::add(Conversation conversation) {
  conversations_.push_back(std::move(conversation));
  selected_ = conversations_.size() - 1;
}

void Chat::begin() {
  Conversation fresh;
  chat::set_system(fresh, options_.system);
  add(std::move(fresh));
}

Status Chat::fork() {
  note_length();
  Conversation copy = current();
  if (copy.text.states) {
    auto forked = copy.text.states->fork(-1);
    if (forked.status().code() == Code::OutOfMemory && forget_others())
      forked = copy.text.states->fork(-1);
    // Without caches the copy computes them again.
    copy.text.states = forked.ok() ? *std::move(forked) : nullptr;
    if (!copy.text.states) copy.text.length = 0;
  }
  add(std::move(copy));
  return {};
}

Status Chat::select(size_t number) {
  if (number >= conversations_.size())
    return {Code::Usage,
            "there is no conversation " + std::to_string(number + 1) + "; /list shows them"};
  selected_ = number;
  return {};
}

void Chat::note_length() {
  if (owner_) conversations_[*owner_].text.length = session_->length();
}

/// Gives the session to the current conversation.
Status Chat::take_session() {
  if (owner_ == selected_) return {};
  note_length();
  owner_.reset();
  if (session_->has_texts()) {
    if (!current().text.states) {
      auto made = session_->make_text();
      if (made.status().code() == Code::OutOfMemory && forget_others())
        made = session_->make_text();
      RP_ASSIGN(current().text, std::move(made));
    }
    RP_TRY(session_->use(current().text));
  } else {
    RP_TRY(session_->restart());
  }
  owner_ = selected_;
  return {};
}

Result<std::optional<SavedCaches>> Chat::save_caches(const std::string& path) {
  note_length();
  const app::DecoderSession::Text& text = current().text;
  if (!text.states || text.length == 0) return std::optional<SavedCaches>();
  if (options_.model.empty()) {
    app::note("the caches are not saved at the start that compiles the model");
    return std::optional<SavedCaches>();
  }
  RP_TRY(take_session());
  RP_TRY(session_->save(path));
  RP_ASSIGN(std::string digest, app::file_digest(path));
  return std::optional(SavedCaches{text.length, options_.model, std::move(digest)});
}

Status Chat::read_caches(const std::string& path, const SavedCaches& saved) {
  if (saved.model != options_.model || !session_->has_texts())
    return {Code::InvalidInput, "they are of another model"};
  RP_ASSIGN(const std::string digest, app::file_digest(path));
  if (digest != saved.digest)
    return {Code::InvalidInput, "'" + path + "' is not the file that belongs to the conversation"};
  RP_TRY(take_session());
  RP_TRY(session_->load(path));
  return session_->length() == saved.tokens
             ? Status()
             : Status(Code::InvalidInput, "'" + path + "' has " +
                                              std::to_string(session_->length()) + " tokens, not " +
                                              std::to_string(saved.tokens));
}

Status Chat::load_caches(const std::string& path, const SavedCaches& saved) {
  Status read = read_caches(path, saved);
  if (read.ok()) return read;
  current().known = {};
  if (owner_ == selected_) RP_TRY(session_->restart());
  return read;
}

/// Frees the caches of all other conversations. Returns whether there were any.
bool Chat::forget_others() {
  bool any = false;
  for (size_t c = 0; c < conversations_.size(); ++c) {
    if (c == selected_ || !conversations_[c].text.states) continue;
    conversations_[c].text = {};
    any = true;
  }
  if (any) app::note("memory is short: the caches of other conversations will be computed again");
  return any;
}

Result<int64_t> Chat::next(std::span<const int64_t> ids) {
  Result<int64_t> id = next_(ids);
  if (id.status().code() == Code::OutOfMemory && forget_others()) id = next_(ids);
  return id;
}

/// Keeps of the caches what belongs to the ids, but not the last one, which the model must read.
Status Chat::rewind(const std::vector<int64_t>& ids) {
  const size_t equal = std::min(common_beginning(current().known.ids, ids), ids.size() - 1);
  const int64_t keep = std::min(static_cast<int64_t>(equal), session_->length());
  if (keep == session_->length()) return {};
  const Status cut = session_->truncate(keep);
  return cut.code() == Code::Unsupported ? session_->restart() : cut;
}

Result<int64_t> Chat::prefill(const std::vector<int64_t>& ids, const std::atomic<bool>& stop) {
  int64_t id = kStopped;
  for (auto at = static_cast<size_t>(session_->length()); at < ids.size();) {
    if (stop) return kStopped;
    const size_t count = std::min(kPrefillTokens, ids.size() - at);
    RP_ASSIGN(id, next(std::span(ids).subspan(at, count)));
    at += count;
  }
  return id;
}

bool Chat::ends(int64_t id) const {
  return text_->ends(id) || std::ranges::count(options_.end_tokens, id) > 0;
}

/// Shows an id and what the model says after it, until the answer ends.
Status Chat::decode(int64_t id, const Show& show, const std::atomic<bool>& stop, std::string& said,
                    AnswerStats& stats) {
  const auto say = [&](const std::string& piece) {
    said += piece;
    if (!piece.empty()) show(piece);
  };
  while (!ends(id)) {
    current().known.ids.push_back(id);
    ++stats.tokens;
    say(text_->add(id));
    stats.stopped = stop;
    stats.full = session_->length() == session_->capacity();
    if (stats.stopped || stats.full || stats.tokens == options_.max_tokens) break;
    RP_ASSIGN(id, next({&id, 1}));
  }
  say(text_->finish());
  return {};
}

Result<AnswerStats> Chat::answer(const Show& show, const std::atomic<bool>& stop) {
  const double start = now_ms();
  RP_TRY(take_session());
  Conversation& c = current();
  RP_ASSIGN(const std::string prompt, text_->chat_prompt(c.turns));
  RP_ASSIGN(const std::vector<int64_t> ids, text_->encode_prompt(prompt, c.known));
  if (ids.empty()) return Status(Code::InvalidInput, "the chat template gives an empty prompt");
  AnswerStats stats;
  stats.prompt_tokens = std::ssize(ids);
  if (stats.prompt_tokens > session_->capacity())
    return Status(Code::InvalidInput,
                  "the conversation would have " + std::to_string(stats.prompt_tokens) +
                      " tokens, and there is room for " + std::to_string(session_->capacity()) +
                      "; /new begins another one, and --capacity makes more room");
  RP_TRY(rewind(ids));
  stats.new_tokens = stats.prompt_tokens - session_->length();
  c.known = {"", ids};
  RP_ASSIGN(const int64_t first, prefill(ids, stop));
  stats.first_ms = now_ms() - start;
  if (first == kStopped) {
    stats.stopped = true;
    return stats;
  }
  const double decoding = now_ms();
  std::string said;
  if (const Status decoded = decode(first, show, stop, said, stats); !decoded.ok()) {
    text_->finish();  // the next answer does not begin with what is left of this one
    return decoded;
  }
  stats.decode_ms = now_ms() - decoding;
  c.known.text = prompt + said;
  c.turns.push_back({"assistant", said});
  return stats;
}

Result<AnswerStats> Chat::say(const std::string& message, const Show& show,
                              const std::atomic<bool>& stop) {
  const size_t before = current().turns.size();
  current().turns.push_back({"user", message});
  Result<AnswerStats> stats = answer(show, stop);
  // Without an answer, it was not said.
  if (current().turns.size() == before + 1) current().turns.pop_back();
  return stats;
}

Result<AnswerStats> Chat::retry(const Show& show, const std::atomic<bool>& stop) {
  std::vector<app::ChatTurn>& turns = current().turns;
  if (turns.empty() || turns.back().role != "assistant")
    return Status(Code::Usage, "there is no answer to replace");
  app::ChatTurn last = std::move(turns.back());
  turns.pop_back();
  const size_t before = turns.size();
  Result<AnswerStats> stats = answer(show, stop);
  if (current().turns.size() == before) current().turns.push_back(std::move(last));
  return stats;
}

}  // namespace reprise::chat
