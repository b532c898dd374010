// The session on the host, which is the reference: it runs the imported graph, one host kernel
// after another.
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "runtime/host_step.h"
#include "runtime/plan/bind.h"
#include "runtime/session_impl.h"
#include "runtime/session_io.h"
#include "runtime/weights.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point t, double per_second) {
  return std::chrono::duration<double>(Clock::now() - t).count() * per_second;
}

class HostSession final : public Session {
 public:
  HostSession(std::shared_ptr<const package::Package> package, std::vector<std::string> notes)
      : package_(std::move(package)),
        plan_(package_->host_plan),
        binder_(package_->io),
        notes_(std::move(notes)) {}

  Status load();
  Status run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                  std::vector<HostTensor>& results, RunStats* stats) override;
  const plan::Interface& io() const override { return package_->io; }
  const std::string& variant() const override { return variant_; }
  const std::vector<std::string>& variant_notes() const override { return notes_; }
  const plan::Plan& plan() const override { return plan_; }
  SessionStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  Device* device() override { return nullptr; }

 private:
  using Values = IdVector<plan::BufferId, std::optional<HostTensor>>;
  Status run_step(size_t step, Values& values, std::vector<int64_t>& symbols) const;
  Result<HostTensor> deliver(size_t output, const BoundIo& io, const Values& values) const;

  std::shared_ptr<const package::Package> package_;
  const plan::Plan& plan_;
  IoBinder binder_;
  std::string variant_ = "host";
  std::vector<std::string> notes_;
  Values weights_;                                 // per buffer
  std::vector<std::vector<plan::BufferId>> dead_;  // per step: buffers that are not needed after it
  std::vector<plan::BufferId> output_buffer_;      // per output, with aliases resolved
  mutable std::mutex mutex_;
  SessionStats stats_;
};

Status HostSession::load() {
  const auto start = Clock::now();
  const size_t n = plan_.buffers.size();
  weights_.resize(n);
  for (const plan::BufferId b : plan_.buffers.ids()) {
    if (plan_.buffers[b].kind != plan::BufferKind::Weight) continue;
    RP_TRY(check_segment(*package_, plan_.weights[static_cast<size_t>(plan_.buffers[b].index)]));
    RP_ASSIGN(weights_[b], raw_weight(*package_, plan_, plan_.buffers[b]));
  }
  output_buffer_.assign(io().outputs.size(), {});
  IdVector<plan::BufferId, bool> keep(n, false);
  for (const plan::BufferId b : plan_.buffers.ids()) {
    if (plan_.buffers[b].kind == plan::BufferKind::Output)
      output_buffer_[static_cast<size_t>(plan_.buffers[b].index)] = b;
  }
  for (const auto& alias : plan_.aliases) {
    const plan::Buffer& to = plan_.buffers[alias.output];
    output_buffer_[static_cast<size_t>(to.index)] = alias.from;
  }
  for (size_t o = 0; o < output_buffer_.size(); ++o) {
    if (output_buffer_[o].is_none())
      return invalid_model("no buffer of the host plan is output '" + io().outputs[o].name + "'");
    keep[output_buffer_[o]] = true;
  }
  IdVector<plan::BufferId, size_t> last(n, 0);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const auto* call = std::get_if<plan::HostCall>(&plan_.steps[s].what);
    if (!call) return invalid_model("the host plan holds a launch");
    for (const plan::BufferId b : call->inputs)
      if (!b.is_none()) last[b] = s;
    for (const plan::BufferId b : call->outputs)
      if (!b.is_none()) last[b] = s;
  }
  dead_.resize(plan_.steps.size());
  for (const plan::BufferId b : plan_.buffers.ids())
    if (!plan_.steps.empty() && !keep[b] && !weights_[b]) dead_[last[b]].push_back(b);
  stats_.load_ms = since(start, 1e3);
  return {};
}

Status HostSession::run_step(size_t step, Values& values, std::vector<int64_t>& symbols) const {
  const auto& call = std::get<plan::HostCall>(plan_.steps[step].what);
  std::vector<const HostTensor*> inputs(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    const plan::BufferId b = call.inputs[i];
    const auto& value = weights_[b] ? weights_[b] : values[b];
    if (!value) {
      return internal_error(describe_call(call) + ": tensor '" + plan_.buffers[b].name +
                            "' has no value yet");
    }
    inputs[i] = &*value;
  }
  RP_ASSIGN(auto results, run_host_call(plan_, io(), call, inputs, symbols));
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (!call.outputs[i].is_none()) values[call.outputs[i]] = std::move(results[i]);
  for (const plan::BufferId b : dead_[step]) values[b].reset();
  return {};
}

Result<HostTensor> HostSession::deliver(size_t output, const BoundIo& io,
                                        const Values& values) const {
  const plan::BufferId b = output_buffer_[output];
  const auto& value = weights_[b] ? weights_[b] : values[b];
  if (!value)
    return internal_error("output '" + package_->io.outputs[output].name + "' has no value");
  const Binding* binding = io.outputs[output];
  if (!binding) return value->detached();
  RP_TRY(check_room(*binding, value->bytes().size(), "output"));
  if (!value->bytes().empty()) {
    std::memcpy(binding->host_output.data(), value->bytes().data(), value->bytes().size());
  }
  HostTensor shape;
  shape.borrow_again(value->dtype(), value->dims(), {});
  return shape;
}

Status HostSession::run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                             std::vector<HostTensor>& results, RunStats* stats) {
  const auto start = Clock::now();
  BoundIo bound;
  RP_TRY(binder_.bind(inputs, outputs, nullptr, bound));
  Values values(plan_.buffers.size());
  for (const plan::BufferId b : plan_.buffers.ids()) {
    if (plan_.buffers[b].kind == plan::BufferKind::Input)
      values[b] = *bound.inputs[static_cast<size_t>(plan_.buffers[b].index)]->host;
  }
  for (size_t s = 0; s < plan_.steps.size(); ++s) RP_TRY(run_step(s, values, bound.symbols));
  // Values may be views of inputs. The caller may free their memory after the run, or bind the same
  // memory to outputs.
  for (const plan::BufferId b : output_buffer_) {
    auto& value = values[b];
    if (value) value = value->detached();
  }
  results.resize(output_buffer_.size());
  for (size_t o = 0; o < output_buffer_.size(); ++o) {
    RP_ASSIGN(results[o], deliver(o, bound, values));
  }
  if (stats) {
    *stats = {};
    stats->total_us = since(start, 1e6);
  }
  const std::lock_guard lock(mutex_);
  ++stats_.runs;
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> create_host_session(
    std::shared_ptr<const package::Package> package, std::vector<std::string> notes) {
  auto session = std::make_unique<HostSession>(std::move(package), std::move(notes));
  RP_TRY(session->load());
  return Result<std::unique_ptr<Session>>(std::move(session));
}

}  // namespace reprise
