#include "apps/vad/detector.h"

#include <algorithm>

namespace vad {

using reprise::Run;
using reprise::Session;
using reprise::Tensor;

Result<Detector> Detector::create(const reprise::Package& package, const reprise::Device& device) {
  Result<Session> session = Session::create(package, device);
  if (!session) return session.error();
  if (session->states() != std::vector<std::string>{"state"}) {
    return Error{REPRISE_INVALID_MODEL,
                 "the package has no state 'state'; compile the model with: reprise compile "
                 "vad.onnx --state state=stateN --shape input=1x576 --shape state=2x1x128"};
  }
  Result<Run> run = Run::create(*session);
  if (!run) return run.error();
  auto bound = std::make_unique<Bound>();
  const Error e = run->bind(
      {Tensor("input", bound->window.data(), {1, static_cast<int64_t>(bound->window.size())}),
       Tensor("sr", &bound->rate, {})},
      {Tensor("output", &bound->probability, {1, 1})});
  if (e.status != REPRISE_OK) return e;
  return Detector(std::move(*session), std::move(bound), std::move(*run));
}

Result<float> Detector::next(std::span<const float> samples) {
  auto& window = bound_->window;
  std::copy(window.end() - kContext, window.end(), window.begin());
  const size_t count = std::min(samples.size(), kWindow);
  const auto rest = std::copy_n(samples.begin(), count, window.begin() + kContext);
  std::fill(rest, window.end(), 0.0F);
  // A program that does something else meanwhile would call Run::ended().
  Error e = run_.submit();
  if (e.status == REPRISE_OK) e = run_.wait_only();
  if (e.status != REPRISE_OK) return e;
  return bound_->probability;
}

Error Detector::reset() {
  bound_->window.fill(0);
  return session_.reset_states();
}

}  // namespace vad
