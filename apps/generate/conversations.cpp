#include "apps/generate/conversations.h"

#include <string>
#include <utility>

namespace reprise::app {

Result<std::unique_ptr<Conversations>> Conversations::create(std::unique_ptr<Session> session,
                                                             int64_t capacity, int64_t vocabulary) {
  RP_ASSIGN(auto decoder, DecoderSession::create(std::move(session), capacity, vocabulary, true));
  return std::unique_ptr<Conversations>(new Conversations(std::move(decoder)));
}

Result<Conversations::One*> Conversations::find(int64_t conversation) {
  const auto at = all_.find(conversation);
  if (at != all_.end()) return &at->second;
  return Status(Code::Usage, "there is no conversation " + std::to_string(conversation) +
                                 "; it was closed, or never opened");
}

int64_t Conversations::add(DecoderSession::Text text, const SamplingOptions& options) {
  all_.try_emplace(++last_, One{std::move(text), options, Sampler(options), {}});
  return last_;
}

Result<int64_t> Conversations::open(const SamplingOptions& options) {
  RP_TRY(check_sampling(options));
  RP_ASSIGN(DecoderSession::Text text, decoder_->make_text());
  return add(std::move(text), options);
}

Result<int64_t> Conversations::fork(int64_t conversation, int64_t length,
                                    const SamplingOptions& options) {
  RP_TRY(check_sampling(options));
  if (length < 0)
    return Status(Code::Usage, "a fork cannot have " + std::to_string(length) + " tokens");
  RP_ASSIGN(One* const one, find(conversation));
  if (!one->text.states)
    return Status(Code::Usage, "the conversation " + std::to_string(conversation) +
                                   " is set aside; bring it back before you fork it");
  RP_ASSIGN(auto states, one->text.states->fork(length));
  return add({std::move(states), length}, options);
}

void Conversations::close(int64_t conversation) {
  const auto at = all_.find(conversation);
  if (at == all_.end()) return;
  decoder_->leave(at->second.text);
  all_.erase(at);
}

Result<int64_t> Conversations::advance(int64_t conversation, std::span<const int64_t> ids,
                                       bool chooses) {
  RP_ASSIGN(One* const one, find(conversation));
  if (!one->text.states) RP_TRY(bring_back(conversation));
  RP_TRY(decoder_->use(one->text));
  if (!decoder_->samples()) {
    RP_ASSIGN(const std::span<const float> logits, decoder_->advance(ids));
    one->text.length = decoder_->length();
    return chooses ? one->sampler.choose(logits) : Result<int64_t>(-1);
  }
  if (sampling_for_ != conversation) RP_TRY(decoder_->set_sampling(one->sampling));
  sampling_for_ = conversation;
  RP_ASSIGN(const int64_t id, decoder_->sample(ids));
  one->text.length = decoder_->length();
  return chooses ? id : -1;
}

Status Conversations::set_aside(int64_t conversation) {
  RP_ASSIGN(One* const one, find(conversation));
  if (!one->text.states) return {};
  RP_TRY(decoder_->use(one->text));
  RP_ASSIGN(one->aside, decoder_->read_states());
  decoder_->leave(one->text);
  one->text.states = nullptr;
  return {};
}

Status Conversations::bring_back(int64_t conversation) {
  RP_ASSIGN(One* const one, find(conversation));
  if (one->text.states) return {};
  RP_ASSIGN(DecoderSession::Text text, decoder_->make_text());
  RP_TRY(decoder_->use(text));
  const Status written = decoder_->write_states(one->aside);
  decoder_->leave(text);
  RP_TRY(written);
  one->text.states = std::move(text.states);
  one->aside.clear();
  return {};
}

}  // namespace reprise::app
