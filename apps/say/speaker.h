// A voice on a device.
#pragma once

#include <vector>

#include "apps/say/voice.h"

namespace say {

/// Makes sound of phonemes. The model decides how long it is, so the sizes of most of its tensors
/// are known only during a run.
class Speaker {
 public:
  /// `who` is one of the people whose voices the model has learned, from 0 on.
  static Result<Speaker> create(const reprise::Package& package, const reprise::Device& device,
                                const Voice& voice, int64_t who);
  /// The samples of a sentence, at the rate of the voice.
  Result<std::vector<float>> speak(const std::vector<int64_t>& ids, const Style& style);

 private:
  Speaker(reprise::Session session, int64_t who, bool has_who)
      : session_(std::move(session)), who_(who), has_who_(has_who) {}

  reprise::Session session_;
  int64_t who_;
  bool has_who_;
};

}  // namespace say
