// The session on the host, which is the reference: it runs the imported graph, one host kernel
// after another.
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "runtime/check.h"
#include "runtime/host_program.h"
#include "runtime/session_impl.h"
#include "runtime/session_io.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point t, double per_second) {
  return std::chrono::duration<double>(Clock::now() - t).count() * per_second;
}

class HostSession final : public Session {
 public:
  HostSession(std::shared_ptr<const package::Package> package, std::vector<std::string> notes,
              const SessionOptions& options)
      : package_(std::move(package)),
        plan_(package_->host_plan),
        binder_(package_->io),
        notes_(std::move(notes)),
        timeout_ns_(options.timeout_ns != 0 ? options.timeout_ns
                                            : default_timeout_ns(DeviceKind::Cpu)),
        seed_(options.seed) {}

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
  static Result<HostTensor> deliver(HostTensor value, const Binding* binding);

  std::shared_ptr<const package::Package> package_;
  const plan::Plan& plan_;
  IoBinder binder_;
  std::string variant_ = "host";
  std::vector<std::string> notes_;
  const uint64_t timeout_ns_, seed_;
  std::atomic<uint64_t> started_ = 0;
  std::optional<HostProgram> program_;
  HostBodies bodies_;
  mutable std::mutex mutex_;
  SessionStats stats_;
};

Status HostSession::load() {
  const auto start = Clock::now();
  RP_ASSIGN(program_, HostProgram::load(*package_, package_->host_plan, package_->io));
  RP_ASSIGN(bodies_, HostBodies::load(*package_));
  stats_.load_ms = since(start, 1e3);
  return {};
}

Result<HostTensor> HostSession::deliver(HostTensor value, const Binding* binding) {
  if (!binding) return value;
  RP_TRY(check_room(*binding, value.bytes().size(), "output"));
  if (!value.bytes().empty()) {
    std::memcpy(binding->host_output.data(), value.bytes().data(), value.bytes().size());
  }
  HostTensor shape;
  shape.borrow_again(value.dtype(), value.dims(), {});
  return shape;
}

Status HostSession::run_into(std::span<const Binding> inputs, std::span<const Binding> outputs,
                             std::vector<HostTensor>& results, RunStats* stats) {
  const auto start = Clock::now();
  BoundIo bound;
  RP_TRY(binder_.bind(inputs, outputs, nullptr, bound));
  std::vector<const HostTensor*> values;
  for (const Binding* input : bound.inputs) values.push_back(&*input->host);
  RP_ASSIGN(std::vector<HostTensor> computed,
            program_->run(values, bound.symbols, bodies_,
                          HostRun::create(deadline_in(timeout_ns_), seed_, started_++)));
  // Values may be views of inputs. The caller may free their memory after the run, or bind the same
  // memory to outputs.
  for (HostTensor& value : computed) value = value.detached();
  results.resize(computed.size());
  for (size_t o = 0; o < computed.size(); ++o) {
    RP_ASSIGN(results[o], deliver(std::move(computed[o]), bound.outputs[o]));
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
    std::shared_ptr<const package::Package> package, std::vector<std::string> notes,
    const SessionOptions& options) {
  auto session = std::make_unique<HostSession>(std::move(package), std::move(notes), options);
  RP_TRY(session->load());
  return Result<std::unique_ptr<Session>>(std::move(session));
}

}  // namespace reprise
