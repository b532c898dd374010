// The handles of the C interface that need devices, and the earlier sizes of its structs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/api_handles.h"
#include "runtime/base/pool.h"
#include "runtime/session.h"

struct reprise_buffer {
  std::shared_ptr<reprise::Device> device;
  std::unique_ptr<reprise::DeviceBuffer> buffer;
};

/// A value, and the strings of a tensor in the form of the C interface.
struct reprise_value {
  explicit reprise_value(reprise::HostTensor of);
  reprise::HostTensor value;
  std::vector<reprise_string> strings;
};

struct reprise_results {
  std::vector<std::shared_ptr<reprise_value>> outputs;
};

namespace reprise::capi {

/// The tensors of one run in the form that sessions take. Later runs reuse the object, so that they
/// allocate nothing on the heap.
struct CallBindings {
  std::vector<HostTensor> hosts;                         // inputs in host memory
  std::vector<std::shared_ptr<reprise_buffer>> buffers;  // keeps them alive until the run ends
  std::vector<Binding> inputs, outputs;
  std::vector<HostTensor> results;
};

}  // namespace reprise::capi

struct reprise_session {
  explicit reprise_session(std::shared_ptr<reprise::Session> of) : session(std::move(of)) {}
  std::shared_ptr<reprise::Session> session;
  reprise::Pool<reprise::capi::CallBindings> calls;
};

namespace reprise::capi {

template <>
inline constexpr std::string_view kHandleName<reprise_buffer> = "buffer";
template <>
inline constexpr std::string_view kHandleName<reprise_session> = "session";
template <>
inline constexpr std::string_view kHandleName<reprise_results> = "results";
template <>
inline constexpr std::string_view kHandleName<reprise_value> = "value";

template <>
inline constexpr std::array kStructEnds<reprise_device_info>{
    offsetof(reprise_device_info, kind),   offsetof(reprise_device_info, name),
    offsetof(reprise_device_info, driver), offsetof(reprise_device_info, api),
    offsetof(reprise_device_info, usable), offsetof(reprise_device_info, reason)};

template <>
inline constexpr std::array kStructEnds<reprise_slot>{offsetof(reprise_slot, kind)};
template <>
inline constexpr std::array kStructEnds<reprise_tensor>{offsetof(reprise_tensor, value)};

/// The tensor or value that the caller gives in host memory. Numbers are borrowed.
Status read_value(const reprise_tensor& from, const std::string& subject, HostTensor& to);
/// Fills the dtype and the dims of `to`.
Status write_shape(const HostTensor& from, const std::string& subject, reprise_tensor& to);
/// Fills the dtype, the dims and the data. Code::Usage if the value is no tensor.
Status write_tensor(const reprise_value& from, const std::string& subject, reprise_tensor& to);

}  // namespace reprise::capi
