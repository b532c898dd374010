// The handles of the C interface that need devices, and the earlier sizes of its structs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/handles/handles.h"
#include "runtime/base/pool.h"
#include "runtime/run/shared_arena.h"
#include "runtime/session/session.h"

struct reprise_buffer {
  std::shared_ptr<reprise::Device> device;
  std::unique_ptr<reprise::DeviceBuffer> buffer;
};

struct reprise_arena {
  std::shared_ptr<reprise::SharedArena> arena;  // null on the host, where nothing is shared
};

/// A value, and the strings of a tensor in the form of the C interface.
struct reprise_value {
  explicit reprise_value(reprise::HostTensor of);
  reprise::HostTensor value;
  std::vector<reprise_string> strings;
};

struct reprise_results {
  struct Output {
    std::shared_ptr<reprise_value> value;
    std::string in_memory_of_caller;  // the name of an output that is there and has no value here
  };
  std::vector<Output> outputs;
};

namespace reprise::capi {

/// Describes a slot with the text of its shape.
Status describe_slot(const plan::Slot& slot, const std::string& shape, reprise_slot* out);

/// The tensors of one run in the form that sessions take. Later runs reuse the object, so that they
/// allocate nothing on the heap.
struct CallBindings {
  std::vector<HostTensor> hosts;                         // inputs in host memory
  std::vector<const reprise_string*> strings;            // of those that are tensors of strings
  std::vector<DeviceImage> images;                       // of inputs, then of outputs
  std::vector<std::shared_ptr<reprise_buffer>> buffers;  // keeps them alive until the run ends
  std::vector<Binding> inputs, outputs;
  std::vector<HostTensor> results;
};

/// The tensors of a call, as the application passes them.
struct Tensors {
  const reprise_tensor* inputs;
  size_t n_inputs;
  reprise_tensor* outputs;
  size_t n_outputs;
};

}  // namespace reprise::capi

/// A session, which may move to another device.
struct reprise_session {
  reprise_session(std::shared_ptr<const reprise::package::Package> of,
                  const reprise::SessionOptions& with)
      : package(std::move(of)), shapes(package->io), options_(with) {}
  /// Creates the session on a device, or replaces it there. If that fails, nothing changes.
  reprise::Status open(const reprise_device& device);
  /// Replaces the session. The old one ends with the last call that uses it.
  void put(std::shared_ptr<reprise::Session> session);
  /// The session and its texts, which stay valid for as long as the handle.
  struct Opened {
    std::shared_ptr<reprise::Session> session;
    const char* variant;
    const char* notes;
  };
  Opened opened() const;
  std::shared_ptr<reprise::Session> session() const { return opened().session; }

  const std::shared_ptr<const reprise::package::Package> package;
  const reprise::capi::ShapeTexts shapes;
  reprise::Pool<reprise::capi::CallBindings> calls;

 private:
  struct Texts {
    std::string variant, notes;  // the notes of variants, one a line
  };
  std::mutex open_mutex_;
  reprise::SessionOptions options_;  // without those of the device; open_mutex_ guards it
  mutable std::mutex mutex_;
  std::shared_ptr<reprise::Session> session_;
  std::vector<std::unique_ptr<Texts>> texts_;  // of all devices so far
};

struct reprise_run {
  explicit reprise_run(std::shared_ptr<reprise_session> of) : handle(std::move(of)) {}
  std::shared_ptr<reprise_session> handle;
  std::shared_ptr<reprise::Session> session;  // on the device where the run was bound
  reprise::capi::CallBindings call;
  reprise_tensor* outputs = nullptr;  // of the caller
  size_t n_outputs = 0;
  enum class User : uint8_t { None, Call, Submission };
  std::atomic<User> user = User::None;
  reprise::CancelFlag cancelled = false;
  reprise::EndCall at_end = {};            // of the last submission
  std::unique_ptr<reprise::AsyncRun> run;  // destroyed first, because it waits for the device
};

struct reprise_states {
  std::shared_ptr<reprise::States> states;
};

namespace reprise::capi {

template <>
inline constexpr std::string_view kHandleName<reprise_states> = "states";
template <>
inline constexpr std::string_view kHandleName<reprise_run> = "run";
template <>
inline constexpr std::string_view kHandleName<reprise_buffer> = "buffer";
template <>
inline constexpr std::string_view kHandleName<reprise_arena> = "arena";
template <>
inline constexpr std::string_view kHandleName<reprise_session> = "session";
template <>
inline constexpr std::string_view kHandleName<reprise_results> = "results";
template <>
inline constexpr std::string_view kHandleName<reprise_value> = "value";

template <>
inline constexpr std::array kStructEnds<reprise_vulkan_device>{
    offsetof(reprise_vulkan_device, upload_queue)};
template <>
inline constexpr std::array kStructEnds<reprise_slot>{offsetof(reprise_slot, has_value)};
template <>
inline constexpr std::array kStructEnds<reprise_session_options>{
    offsetof(reprise_session_options, arena), offsetof(reprise_session_options, max_recorded)};
template <>
inline constexpr std::array kStructEnds<reprise_run_stats>{offsetof(reprise_run_stats, plan)};
template <>
inline constexpr std::array kStructEnds<reprise_session_info>{
    offsetof(reprise_session_info, plan_count)};

inline Status missing(const char* what) {
  return {Code::Usage, std::string(what) + " is null"};
}

/// Code::Usage unless the index is below `count`, the number of `what`.
Status check_index(size_t index, size_t count, const char* what);
/// Describes a slot as the C interface does. `shapes` are the texts of all slots.
template <typename Slot>
Status describe_slot(const std::vector<Slot>& slots, const std::vector<std::string>& shapes,
                     size_t index, reprise_slot* out, const char* what) {
  RP_TRY(check_index(index, slots.size(), what));
  return describe_slot(slots[index], shapes[index], out);
}
/// Converts tensors to bindings. Reuses the memory of `call`.
Status bind_all(const Tensors& given, CallBindings& call);
/// Reads the strings of inputs again, which the caller may have changed. Returns whether there are
/// any; if so, the inputs must be bound again.
Result<bool> read_strings_again(CallBindings& call);
/// The states of a handle; null for null.
Result<std::shared_ptr<States>> states_of(const reprise_states* states);
/// Writes the dtype and dims of each result to the caller's outputs.
Status describe_outputs(const Session& session, const CallBindings& call, reprise_tensor* outputs,
                        size_t n_outputs);
/// `stats` may be null, or else its struct_size must have been checked.
Status write_stats(const RunStats& measured, reprise_run_stats* stats);
/// Moves the results to a new handle if `results` is not null.
void take_results(const Session& session, CallBindings& call, reprise_results** results);

/// The tensor or value that the caller gives in host memory. Numbers are borrowed. `input`: null
/// for a tensor that is none.
Status read_value(const reprise_tensor& from, const std::string* input, HostTensor& to);
/// Copies the strings of a tensor that has as many.
Status read_strings(const reprise_string* from, HostTensor& to);
/// Fills the dtype and the dims of `to`.
Status write_shape(const HostTensor& from, reprise_tensor& to);
/// Fills the dtype, the dims and the data. Code::Usage if the value is no tensor.
Status write_tensor(const reprise_value& from, const std::string& subject, reprise_tensor& to);

}  // namespace reprise::capi
