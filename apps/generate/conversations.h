// Several conversations of a language model, through one session.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "apps/generate/decoder_session.h"
#include "apps/generate/scheduler.h"

namespace reprise::app {

/// Each conversation has states of its own. They run one after another, and nothing is recorded
/// when another one has its turn.
class Conversations final : public ConversationModel {
 public:
  /// Nobody else may use the session. Code::Unsupported if its caches are no states that grow.
  static Result<std::unique_ptr<Conversations>> create(std::unique_ptr<Session> session,
                                                       int64_t capacity, int64_t vocabulary = 0);
  Result<int64_t> open(const SamplingOptions& options) override;
  void close(int64_t conversation) override;
  Result<int64_t> advance(int64_t conversation, std::span<const int64_t> ids,
                          bool chooses) override;
  Status set_aside(int64_t conversation) override;
  Status bring_back(int64_t conversation) override;
  int64_t capacity() const override { return decoder_->capacity(); }
  /// Another conversation with the first ids of this one, which chooses by these options.
  Result<int64_t> fork(int64_t conversation, int64_t length, const SamplingOptions& options);
  const DecoderSession& decoder() const { return *decoder_; }

 private:
  struct One {
    DecoderSession::Text text;
    SamplingOptions sampling;
    Sampler sampler;
    std::vector<HostTensor> aside;  // the values of all states, if it has none on the device
  };
  explicit Conversations(std::unique_ptr<DecoderSession> decoder) : decoder_(std::move(decoder)) {}
  Result<One*> find(int64_t conversation);
  int64_t add(DecoderSession::Text text, const SamplingOptions& options);

  std::unique_ptr<DecoderSession> decoder_;
  std::map<int64_t, One> all_;
  int64_t last_ = 0, sampling_for_ = 0;  // whose options are on the device
};

}  // namespace reprise::app
