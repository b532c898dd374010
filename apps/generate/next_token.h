// Chooses tokens where the package does it, or else on the host.
#pragma once

#include <span>

#include "apps/generate/decoder_session.h"
#include "apps/generate/sampler.h"

namespace reprise::app {

/// One thread at a time may use it.
class NextToken {
 public:
  /// The session must outlive it. If it samples, its sampling is set already.
  NextToken(DecoderSession& session, const SamplingOptions& options)
      : session_(session), sampler_(options) {}

  /// Runs on ids that follow those of earlier calls, and returns the next one.
  Result<int64_t> operator()(std::span<const int64_t> ids) {
    if (session_.samples()) return session_.sample(ids);
    RP_ASSIGN(const std::span<const float> logits, session_.advance(ids));
    return sampler_.choose(logits);
  }

 private:
  DecoderSession& session_;
  Sampler sampler_;
};

}  // namespace reprise::app
