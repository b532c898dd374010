// The C interface over sessions.
#include "backends/api.h"

namespace reprise::capi {
namespace {

Status missing(const char* what) {
  return {Code::Usage, std::string(what) + " is null"};
}

SessionOptions to_options(const reprise_session_options* given) {
  const auto o = read_struct(given, reprise_session_options REPRISE_SESSION_OPTIONS_INIT);
  SessionOptions out;
  if (o.max_in_flight != 0) out.max_in_flight = o.max_in_flight;
  if (o.timeout_ms != 0) out.timeout_ns = std::min<uint64_t>(o.timeout_ms, 1U << 30) * 1'000'000;
  out.fullgraph = o.fullgraph != 0;
  out.warm_up = o.warm_up != 0;
  return out;
}

Status describe_slot(const std::vector<plan::Slot>& slots, size_t index, reprise_slot* out) {
  if (index >= slots.size())
    return {Code::Usage, "there are " + std::to_string(slots.size()) + ", not more than " +
                             std::to_string(index)};
  const plan::Slot& slot = slots[index];
  if (slot.shape.size() > REPRISE_MAX_RANK)
    return unsupported("'" + slot.name + "' has a rank over 16");
  reprise_slot s = REPRISE_SLOT_INIT;
  s.name = slot.name.c_str();
  s.dtype = static_cast<reprise_dtype>(slot.dtype);
  s.rank = static_cast<uint32_t>(slot.shape.size());
  for (size_t a = 0; a < slot.shape.size(); ++a)
    s.dims[a] = slot.shape[a].is_const() ? slot.shape[a].value() : -1;
  write_struct(s, out);
  return {};
}

// Elements of the caller's array, whatever version of the struct it holds.
template <typename T>
T* element(T* array, size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + i * array->struct_size);
}

struct Bindings {
  std::vector<HostTensor> hosts;  // reserved: bindings point into it
  std::vector<Binding> inputs, outputs;
};

Status check_tensor(const reprise_tensor& t) {
  if (!t.name) return missing("the name of a tensor");
  if (t.rank > REPRISE_MAX_RANK)
    return invalid_input("tensor '" + std::string(t.name) + "' has a rank over 16");
  if (t.bytes > 0 && !t.data)
    return invalid_input("tensor '" + std::string(t.name) + "' has bytes but no data");
  return {};
}

Status bind_input(const reprise_tensor& t, Bindings& out) {
  RP_TRY(check_tensor(t));
  Binding b;
  b.name = t.name;
  b.dims.assign(t.dims, t.dims + t.rank);
  if (t.buffer) {
    b.device = t.buffer->buffer.get();
    b.device_offset = t.offset;
    out.inputs.push_back(std::move(b));
    return {};
  }
  const auto dtype = static_cast<DType>(t.dtype);
  const std::string who = "input '" + b.name + "'";
  if (size_of(dtype) == 0) return invalid_input(who + " has no known dtype");
  const auto count = checked_element_count(b.dims, dtype);
  if (!count.ok()) return invalid_input(who + ": " + count.status().message());
  const size_t bytes = static_cast<size_t>(*count) * size_of(dtype);
  if (t.bytes != bytes) {
    return invalid_input(who + " " + describe(dtype, b.dims) + " needs " + std::to_string(bytes) +
                         " bytes, " + std::to_string(t.bytes) + " are given");
  }
  out.hosts.push_back(HostTensor::borrow(dtype, std::move(b.dims),
                                         {static_cast<const std::byte*>(t.data), bytes}, nullptr));
  b.dims = {};
  b.host = &out.hosts.back();
  out.inputs.push_back(std::move(b));
  return {};
}

Status bind_output(const reprise_tensor& t, Bindings& out) {
  RP_TRY(check_tensor(t));
  Binding b;
  b.name = t.name;
  if (t.buffer) {
    b.device = t.buffer->buffer.get();
    b.device_offset = t.offset;
  } else {
    b.host_output = {static_cast<std::byte*>(t.data), t.bytes};
  }
  out.outputs.push_back(std::move(b));
  return {};
}

Status to_c(const HostTensor& from, const char* name, reprise_tensor& to) {
  if (from.dims().size() > REPRISE_MAX_RANK)
    return unsupported("output '" + std::string(name) + "' has a rank over 16");
  to.dtype = static_cast<reprise_dtype>(from.dtype());
  to.rank = static_cast<uint32_t>(from.dims().size());
  std::copy(from.dims().begin(), from.dims().end(), to.dims);
  return {};
}

Status run(Session& session, const reprise_tensor* inputs, size_t n_inputs, reprise_tensor* outputs,
           size_t n_outputs, reprise_results** results, reprise_run_stats* stats) {
  const reprise_tensor fresh = REPRISE_TENSOR_INIT;
  Bindings b;
  b.hosts.reserve(n_inputs);
  for (size_t i = 0; i < n_inputs; ++i)
    RP_TRY(bind_input(read_struct(element(inputs, i), fresh), b));
  for (size_t i = 0; i < n_outputs; ++i)
    RP_TRY(bind_output(read_struct(element(outputs, i), fresh), b));
  RunStats measured;
  RP_ASSIGN(auto values, session.run(b.inputs, b.outputs, &measured));
  for (size_t i = 0; i < n_outputs; ++i) {
    reprise_tensor* to = element(outputs, i);
    const auto& slots = session.io().outputs;
    for (size_t o = 0; o < slots.size(); ++o) {
      if (slots[o].name != b.outputs[i].name) continue;
      reprise_tensor t = read_struct(to, fresh);
      RP_TRY(to_c(values[o], slots[o].name.c_str(), t));
      write_struct(t, to);
    }
  }
  if (stats) {
    reprise_run_stats out = REPRISE_RUN_STATS_INIT;
    out.host_submit_us = measured.host_submit_us;
    out.total_us = measured.total_us;
    out.bytes_copied = measured.bytes_copied;
    write_struct(out, stats);
  }
  if (results) *results = new reprise_results{std::move(values)};
  return {};
}

}  // namespace
}  // namespace reprise::capi

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_session_create(const reprise_package* package, reprise_device* device,
                                      const reprise_session_options* options, reprise_session** out,
                                      reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!package || !device || !out) return missing("package, device or out");
    RP_ASSIGN(auto session, Session::create(package->package, device->device, to_options(options)));
    *out = new reprise_session{std::move(session)};
    return {};
  });
}

void reprise_session_free(reprise_session* session) {
  delete session;
}

size_t reprise_session_input_count(const reprise_session* session) {
  return session ? session->session->io().inputs.size() : 0;
}

size_t reprise_session_output_count(const reprise_session* session) {
  return session ? session->session->io().outputs.size() : 0;
}

reprise_status reprise_session_input(const reprise_session* session, size_t index,
                                     reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!session || !slot) return missing("session or slot");
    return describe_slot(session->session->io().inputs, index, slot).with_context("inputs");
  });
}

reprise_status reprise_session_output(const reprise_session* session, size_t index,
                                      reprise_slot* slot, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!session || !slot) return missing("session or slot");
    return describe_slot(session->session->io().outputs, index, slot).with_context("outputs");
  });
}

reprise_status reprise_session_run(reprise_session* session, const reprise_tensor* inputs,
                                   size_t input_count, reprise_tensor* outputs, size_t output_count,
                                   reprise_results** results, reprise_run_stats* stats,
                                   reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!session || (!inputs && input_count > 0) || (!outputs && output_count > 0))
      return missing("session, inputs or outputs");
    const std::shared_ptr<Session> held = session->session;
    return run(*held, inputs, input_count, outputs, output_count, results, stats);
  });
}

reprise_status reprise_results_get(const reprise_results* results, size_t index,
                                   reprise_tensor* tensor, reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!results || !tensor) return missing("results or tensor");
    if (index >= results->outputs.size())
      return {Code::Usage, "there is no output " + std::to_string(index)};
    const HostTensor& from = results->outputs[index];
    reprise_tensor t = REPRISE_TENSOR_INIT;
    RP_TRY(to_c(from, "result", t));
    t.data = const_cast<std::byte*>(from.bytes().data());  // documented as not to be written
    t.bytes = from.bytes().size();
    write_struct(t, tensor);
    return {};
  });
}

void reprise_results_free(reprise_results* results) {
  delete results;
}
