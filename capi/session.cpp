// The C interface over sessions.
#include <cstring>

#include "capi/api.h"

namespace reprise::capi {
namespace {

Result<SessionOptions> to_options(const reprise_session_options* given,
                                  const reprise_device& device) {
  RP_ASSIGN(const auto o, read_struct(given, reprise_session_options REPRISE_SESSION_OPTIONS_INIT,
                                      "reprise_session_options"));
  SessionOptions out;
  if (o.max_in_flight != 0) out.max_in_flight = o.max_in_flight;
  if (o.max_recorded != 0) out.max_recorded = o.max_recorded;
  if (o.timeout_ms != 0) out.timeout_ns = std::min<uint64_t>(o.timeout_ms, 1U << 30) * 1'000'000;
  out.slice_ns = std::min<uint64_t>(o.slice_us, 1U << 30) * 1000;
  out.fullgraph = o.fullgraph != 0;
  out.warm_up = o.warm_up != 0;
  out.check_kernels = o.check_kernels != 0;
  if (o.arena) {
    RP_ASSIGN(const auto held, find_handle(o.arena));
    if (!held->arena && device.device)
      return Status(Code::Usage, "the arena of the session belongs to the host");
    out.arena = held->arena;
  }
  return out;
}

Status run(reprise_session& handle, const Tensors& tensors, reprise_results** results,
           reprise_run_stats* stats) {
  RP_TRY(check_out(stats, "reprise_run_stats"));
  const auto call = handle.calls.take();
  const auto session = handle.session();
  RP_TRY(bind_all(tensors, *call));
  RunStats measured;
  const Status done = session->run_into(call->inputs, call->outputs, call->results, &measured);
  call->buffers.clear();
  RP_TRY(done);
  RP_TRY(describe_outputs(*session, *call, tensors.outputs, tensors.n_outputs));
  RP_TRY(write_stats(measured, stats));
  take_results(*session, *call, results);
  return {};
}

}  // namespace
}  // namespace reprise::capi

reprise_session::Opened reprise_session::opened() const {
  const std::lock_guard lock(mutex_);
  return {session_, texts_.back()->variant.c_str(), texts_.back()->notes.c_str()};
}

void reprise_session::put(std::shared_ptr<reprise::Session> session) {
  auto texts = std::make_unique<Texts>();
  texts->variant = session->variant();
  for (const std::string& note : session->variant_notes())
    texts->notes += (texts->notes.empty() ? "" : "\n") + note;
  const std::lock_guard lock(mutex_);
  texts_.push_back(std::move(texts));
  session_.swap(session);
}

reprise::Status reprise_session::open(const reprise_device& device) {
  using namespace reprise;
  const std::lock_guard one_at_a_time(open_mutex_);
  SessionOptions o = options_;
  o.cache_dir = device.cache_dir;
  o.log = device.log;
  o.host_memory = device.host_memory;
  const bool moves = session_ && o.arena && o.arena->device() != device.device;
  if (moves) o.arena = nullptr;
  RP_ASSIGN(std::shared_ptr<Session> made, Session::create(package, device.device, o));
  if (session_) {
    Status moved = made->copy_states_from(*session_);
    const bool nothing_to_read = moved.code() == Code::DeviceLost || moved.code() == Code::Usage;
    if (!moved.ok() && !nothing_to_read) return moved;
    if (!moved.ok() && o.log)
      o.log(Severity::Warning, "the states have their initial values: " + moved.message());
  }
  if (moves) options_.arena = nullptr;
  put(std::move(made));
  return {};
}

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_session_create(const reprise_package* package, reprise_device* device,
                                      const reprise_session_options* options, reprise_session** out,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(const auto held_package, find_handle(package));
    RP_ASSIGN(const auto held_device, find_handle(device));
    RP_ASSIGN(const SessionOptions o, to_options(options, *held_device));
    auto session = std::make_shared<reprise_session>(held_package->package, o);
    RP_TRY(session->open(*held_device));
    *out = make_handle(std::move(session));
    return {};
  });
}

reprise_status reprise_session_reopen(reprise_session* session, reprise_device* device,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    RP_ASSIGN(const auto held_device, find_handle(device));
    return held->open(*held_device);
  });
}

reprise_status reprise_session_get_info(const reprise_session* session, reprise_session_info* info,
                                        reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!info) return missing("info");
    RP_TRY(check_out(info, "reprise_session_info"));
    RP_ASSIGN(const auto held, find_handle(session));
    const reprise_session::Opened opened = held->opened();
    const SessionStats stats = opened.session->stats();
    reprise_session_info out = REPRISE_SESSION_INFO_INIT;
    out.variant = opened.variant;
    out.notes = opened.notes;
    if (const package::Variant* v = opened.session->compiled()) out.plan_count = v->plans.size();
    out.runs = stats.runs;
    out.recordings = stats.recordings;
    out.submits = stats.submits;
    out.dispatches = stats.dispatches;
    out.barriers = stats.barriers;
    out.copies = stats.copies;
    out.device_bytes = stats.device_bytes;
    out.load_ms = stats.load_ms;
    write_struct(out, info);
    return {};
  });
}

void reprise_session_free(reprise_session* session) {
  free_handle(session);
}

size_t reprise_session_input_count(const reprise_session* session) {
  size_t n = 0;
  guarded(nullptr, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    n = held->package->io.inputs.size();
    return {};
  });
  return n;
}

size_t reprise_session_state_count(const reprise_session* session) {
  size_t n = 0;
  guarded(nullptr, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    n = held->package->io.states.size();
    return {};
  });
  return n;
}

reprise_status reprise_session_state(const reprise_session* session, size_t index,
                                     reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    return describe_slot(held->package->io.states, held->shapes.states, index, slot, "states");
  });
}

size_t reprise_session_output_count(const reprise_session* session) {
  size_t n = 0;
  guarded(nullptr, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    n = held->package->io.outputs.size();
    return {};
  });
  return n;
}

reprise_status reprise_session_input(const reprise_session* session, size_t index,
                                     reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    return describe_slot(held->package->io.inputs, held->shapes.inputs, index, slot, "inputs");
  });
}

reprise_status reprise_session_output(const reprise_session* session, size_t index,
                                      reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    RP_ASSIGN(const auto held, find_handle(session));
    return describe_slot(held->package->io.outputs, held->shapes.outputs, index, slot, "outputs");
  });
}

// The run keeps the session alive, which may be freed meanwhile. The parameters are those of the
// API. NOLINTNEXTLINE(readability-function-size)
reprise_status reprise_session_run(reprise_session* session, const reprise_tensor* inputs,
                                   size_t input_count, reprise_tensor* outputs, size_t output_count,
                                   reprise_results** results, reprise_run_stats* stats,
                                   reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if ((!inputs && input_count > 0) || (!outputs && output_count > 0))
      return missing("inputs or outputs");
    RP_ASSIGN(const auto held, find_handle(session));
    return run(*held, {inputs, input_count, outputs, output_count}, results, stats);
  });
}

reprise_status reprise_results_get(const reprise_results* results, size_t index,
                                   reprise_tensor* tensor, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!tensor) return missing("tensor");
    RP_TRY(check_out(tensor, "reprise_tensor"));
    RP_ASSIGN(const auto held, find_handle(results));
    if (index >= held->outputs.size())
      return {Code::Usage, "there is no output " + std::to_string(index)};
    reprise_tensor t = REPRISE_TENSOR_INIT;
    RP_TRY(write_tensor(*held->outputs[index].value, "output " + std::to_string(index), t));
    write_struct(t, tensor);
    return {};
  });
}

reprise_status reprise_results_get_value(const reprise_results* results, size_t index,
                                         reprise_value** out, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(const auto held, find_handle(results));
    if (index >= held->outputs.size())
      return {Code::Usage, "there is no output " + std::to_string(index)};
    const auto& [value, name] = held->outputs[index];
    if (!name.empty()) {
      return {Code::Usage, "output '" + name +
                               "' was written to the memory that the call of the run gave for it, "
                               "so it has no value in the results"};
    }
    *out = make_handle(value);
    return {};
  });
}

void reprise_results_free(reprise_results* results) {
  free_handle(results);
}
