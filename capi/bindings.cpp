// How the tensors of the C interface become the bindings of a run, and results become handles.
#include "capi/api.h"

namespace reprise::capi {
namespace {

Status check_tensor(const reprise_tensor& t) {
  if (!t.name) return missing("the name of a tensor");
  const auto refuse = [&](const char* why) {
    return invalid_input("tensor '" + std::string(t.name) + "' has " + why);
  };
  if (t.rank > REPRISE_MAX_RANK) return refuse("a rank over 16");
  if ((t.buffer && t.data) || (t.value && (t.buffer || t.data)))
    return refuse("more than one of `data`, `buffer` and `value`; give one of them");
  if (t.image && (t.buffer || t.value || t.data || t.row_pitch != 0))
    return refuse("an image and also memory, a value or a row pitch; give one of them");
  if (t.bytes > 0 && !t.data) return refuse("bytes but no data");
  return {};
}

Result<DeviceImage> read_image(const reprise_vulkan_image* given) {
  RP_ASSIGN(const auto i, read_struct(given, reprise_vulkan_image REPRISE_VULKAN_IMAGE_INIT,
                                      "reprise_vulkan_image"));
  DeviceImage out;
  out.handle = i.image;
  out.second = i.second;
  out.format = i.format;
  out.usage = i.usage;
  out.width = i.width;
  out.height = i.height;
  out.mip_level = i.mip_level;
  out.layer = i.array_layer;
  out.layout = i.layout;
  out.final_layout = i.final_layout;
  out.acquire_from = i.acquire_from;
  out.release_to = i.release_to;
  return out;
}

// Converts a tensor to a binding. Reuses the memory of the binding's strings and vectors.
Status bind(const reprise_tensor& t, CallBindings& call, Binding& b, DeviceImage& image) {
  RP_TRY(check_tensor(t));
  b.name = t.name;
  b.host = nullptr;
  b.host_output = {};
  b.device = nullptr;
  b.device_offset = t.offset;
  b.dims.clear();
  b.image = nullptr;
  b.row_pitch = t.row_pitch;
  if (t.image) {
    RP_ASSIGN(image, read_image(t.image));
    b.image = &image;
    return {};
  }
  if (!t.buffer) return {};
  auto held = find_handle(t.buffer);
  if (!held.ok()) return held.status().with_context("tensor '" + b.name + "'");
  b.device = (*held)->buffer.get();
  call.buffers.push_back(std::move(*held));
  return {};
}

Status bind_input(const reprise_tensor& t, CallBindings& call, size_t i) {
  Binding& b = call.inputs[i];
  RP_TRY(bind(t, call, b, call.images[i]));
  if (t.image) return {};
  if (t.buffer) {
    const int32_t number = dtype_number(t);
    if (number == REPRISE_STRING)
      return invalid_input("input '" + b.name + "' has strings, which cannot be in a buffer");
    if (reprise_dtype_size(static_cast<reprise_dtype>(number)) == 0)
      return invalid_input("input '" + b.name + "' has the unknown dtype " +
                           std::to_string(number));
    b.dims.assign(t.dims, t.dims + t.rank);
    // Callers that state no dtype leave the initial one.
    b.dtype.reset();
    if (number != REPRISE_F32) b.dtype = static_cast<DType>(number);
    return {};
  }
  RP_TRY(read_value(t, &b.name, call.hosts[i]));
  b.host = &call.hosts[i];
  if (!t.value && b.host->dtype() == DType::String)
    call.strings[i] = static_cast<const reprise_string*>(t.data);
  return {};
}

Status bind_output(const reprise_tensor& t, CallBindings& call, size_t i) {
  Binding& b = call.outputs[i];
  RP_TRY(bind(t, call, b, call.images[call.inputs.size() + i]));
  if (t.value) {
    return {Code::Usage, "output '" + b.name +
                             "' has a value; results that are no tensors are "
                             "returned, not written to the caller's memory"};
  }
  if (!t.buffer && !t.image) b.host_output = {static_cast<std::byte*>(t.data), t.bytes};
  return {};
}

}  // namespace

Status bind_all(const Tensors& given, CallBindings& call) {
  const auto [inputs, n_inputs, outputs, n_outputs] = given;
  const reprise_tensor fresh = REPRISE_TENSOR_INIT;
  RP_TRY(check_array(inputs, n_inputs, "reprise_tensor"));
  RP_TRY(check_array(outputs, n_outputs, "reprise_tensor"));
  call.buffers.clear();
  call.hosts.resize(n_inputs);
  call.strings.assign(n_inputs, nullptr);
  call.inputs.resize(n_inputs);
  call.outputs.resize(n_outputs);
  call.images.resize(n_inputs + n_outputs);
  for (size_t i = 0; i < n_inputs; ++i) {
    RP_ASSIGN(const reprise_tensor t, read_struct(element(inputs, i), fresh, "reprise_tensor"));
    RP_TRY(bind_input(t, call, i));
  }
  for (size_t i = 0; i < n_outputs; ++i) {
    RP_ASSIGN(const reprise_tensor t, read_struct(element(outputs, i), fresh, "reprise_tensor"));
    RP_TRY(bind_output(t, call, i));
  }
  return {};
}

// A tensor that is replaced stays whole until all strings have been read, because a run may still
// be bound to it.
Result<bool> read_strings_again(CallBindings& call) {
  std::vector<std::pair<size_t, HostTensor>> read;
  for (size_t i = 0; i < call.strings.size(); ++i) {
    if (!call.strings[i]) continue;
    HostTensor fresh(DType::String, call.hosts[i].dims());
    RP_TRY(
        read_strings(call.strings[i], fresh).with_context("input '" + call.inputs[i].name + "'"));
    read.emplace_back(i, std::move(fresh));
  }
  for (auto& [i, fresh] : read) call.hosts[i] = std::move(fresh);
  return !read.empty();
}

Status describe_outputs(const Session& session, const CallBindings& call, reprise_tensor* outputs,
                        size_t n_outputs) {
  const reprise_tensor fresh = REPRISE_TENSOR_INIT;
  const auto& slots = session.io().outputs;
  for (size_t i = 0; i < n_outputs; ++i) {
    reprise_tensor* to = element(outputs, i);
    for (size_t o = 0; o < slots.size(); ++o) {
      if (slots[o].name != call.outputs[i].name) continue;
      RP_ASSIGN(reprise_tensor t, read_struct(to, fresh, "reprise_tensor"));
      const HostTensor& result = call.results[o];
      if (const Status s = write_shape(result, t); !s.ok())
        return s.with_context("output '" + slots[o].name + "'");
      write_struct(t, to);
    }
  }
  return {};
}

Status write_stats(const RunStats& measured, reprise_run_stats* stats) {
  if (!stats) return {};
  reprise_run_stats out = REPRISE_RUN_STATS_INIT;
  out.host_submit_us = measured.host_submit_us;
  out.total_us = measured.total_us;
  out.bytes_copied = measured.bytes_copied;
  out.longest_slice_us = measured.longest_slice_us;
  out.plan = measured.plan;
  write_struct(out, stats);
  return {};
}

void take_results(const Session& session, CallBindings& call, reprise_results** results) {
  if (results) {
    auto kept = std::make_shared<reprise_results>();
    for (HostTensor& t : call.results) {
      const std::string& name = session.io().outputs[kept->outputs.size()].name;
      const bool bound = std::ranges::any_of(call.outputs, [&](auto& b) { return b.name == name; });
      kept->outputs.push_back(
          {std::make_shared<reprise_value>(std::move(t)), bound ? name : std::string()});
    }
    call.results.clear();
    *results = make_handle(std::move(kept));
  }
  for (HostTensor& t : call.results)  // outputs that the caller did not request
    if (!t.bytes().empty() || is_host_only(t.dtype())) t = {};
}

}  // namespace reprise::capi
