// Whisper on a device.
#pragma once

#include <functional>
#include <memory>

#include "apps/transcribe/choice.h"
#include "apps/transcribe/network.h"

namespace transcribe {

/// Both parts of the model, compiled.
struct Packages {
  reprise::Package encoder, decoder;
};

/// How many milliseconds parts of the work took, and how often they ran.
struct Times {
  double encode = 0, decode = 0;
  int64_t chunks = 0, steps = 0;
};

/// Writes down what is said. The encoder runs once for each chunk of 30 s and leaves keys and
/// values in device memory, which each step of the decoder reads. The decoder's own keys and values
/// are states that grow by a row in each step.
class Whisper {
 public:
  static Result<Whisper> create(const Packages& packages, const reprise::Device& device,
                                const Vocabulary& vocabulary);

  /// The parts of a sound of kRate samples per second, with times from its beginning. Calls `heard`
  /// with each as soon as it is known.
  Result<std::vector<Segment>> transcribe(const std::vector<float>& samples,
                                          const std::function<void(const Segment&)>& heard);
  /// The tokens of one chunk of kPadded samples; none if nobody speaks.
  Result<std::vector<int64_t>> tokens_of(std::vector<float> padded);
  const Times& times() const { return times_; }

 private:
  /// Memory that runs read and write; it must not move.
  struct Bound {
    std::vector<float> audio, logits;
    int64_t token = 0, position = 0;
    std::vector<std::string> names;           // of the keys and values
    std::vector<reprise::Buffer> on_device;   // these, on a device
    std::vector<std::vector<float>> on_host;  // or on the host
    reprise::Dims dims;                       // of each
    std::vector<reprise::Tensor> tensors() const;
  };
  Whisper(reprise::Session encoder, reprise::Session decoder, Vocabulary vocabulary);
  Error set_up(const reprise::Device& device, const reprise_slot& cross);
  Error step(int64_t token);

  reprise::Session encoder_, decoder_;
  Vocabulary vocabulary_;
  std::unique_ptr<Bound> bound_;
  std::vector<reprise::Run> runs_;  // of the encoder and the decoder
  int64_t longest_ = 0;             // tokens that the decoder can take
  Times times_;
};

}  // namespace transcribe
