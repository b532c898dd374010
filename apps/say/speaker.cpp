#include "apps/say/speaker.h"

#include <array>
#include <string>

namespace say {

using reprise::Output;
using reprise::Session;
using reprise::Tensor;

Result<Speaker> Speaker::create(const reprise::Package& package, const reprise::Device& device,
                                const Voice& voice, int64_t who) {
  if (who < 0 || who >= voice.speakers) {
    return Error{REPRISE_USAGE, "--speaker is " + std::to_string(who) + ", but the voice has " +
                                    std::to_string(voice.speakers) + " from 0 on"};
  }
  std::vector<std::string> names;
  for (const reprise_slot& input : package.inputs()) names.emplace_back(input.name);
  const bool has_who = names.size() == 4 && names[3] == "sid";
  if (has_who) names.pop_back();
  if (names != std::vector<std::string>{"input", "input_lengths", "scales"} ||
      package.outputs().size() != 1) {
    return Error{REPRISE_INVALID_MODEL,
                 "the model is no voice of Piper: expected the inputs input, input_lengths, scales "
                 "and perhaps sid, and one output"};
  }
  Result<Session> session = Session::create(package, device);
  if (!session) return session.error();
  return Speaker(std::move(*session), who, has_who);
}

Result<std::vector<float>> Speaker::speak(const std::vector<int64_t>& ids, const Style& style) {
  const auto length = static_cast<int64_t>(ids.size());
  const std::array<float, 3> scales = {style.noise, style.length, style.rhythm_noise};
  std::vector<Tensor> inputs = {Tensor("input", ids.data(), {1, length}),
                                Tensor("input_lengths", &length, {1}),
                                Tensor("scales", scales.data(), {3})};
  if (has_who_) inputs.emplace_back("sid", &who_, reprise::Dims{1});
  const Result<std::vector<Output>> outputs = session_.run(inputs);
  if (!outputs) return outputs.error();
  return outputs->front().as<float>();
}

}  // namespace say
