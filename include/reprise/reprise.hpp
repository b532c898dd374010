/// @file
/// Reprise in C++: a header-only layer over reprise.h, whose rules on ownership, threads and errors
/// apply. It throws no exceptions of its own. Destructors free the handles.
///
/// @code{.cpp}
/// #include <reprise/reprise.hpp>
///
/// #include <cstdio>
/// #include <vector>
///
/// int main(int, char** argv) {  // the file of a package with an input x of [3, 4, 5]
///   const auto fail = [](const reprise::Error& e) {
///     std::fprintf(stderr, "%s\n", e.message.c_str());
///     return 1;
///   };
///   const auto package = reprise::Package::open(argv[1]);
///   if (!package) return fail(package.error());
///   const auto device = reprise::Device::open_for(*package);
///   if (!device) return fail(device.error());
///   auto session = reprise::Session::create(*package, *device);
///   if (!session) return fail(session.error());
///   const std::vector<float> x(3 * 4 * 5, 0.5F);
///   const auto outputs = session->run({{"x", x.data(), {3, 4, 5}}});
///   if (!outputs) return fail(outputs.error());
///   for (const float y : outputs->front().as<float>()) std::printf("%g ", static_cast<double>(y));
///   return 0;
/// }
/// @endcode
#ifndef REPRISE_REPRISE_HPP_
#define REPRISE_REPRISE_HPP_

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device.hpp"
#include "reprise/reprise.h"
#include "reprise/value.hpp"

/// Reprise in C++.
namespace reprise {
/// What applications use, apart from the library's own classes of the same names. It is an inline
/// namespace: write reprise::Session.
inline namespace api {

/// Memory of the caller as an input or output of the model with that name. It is not owned and must
/// outlive the run.
class Tensor {
 public:
  /// A value that need not be a tensor, as an input.
  Tensor(const char* name, const Value& value) : Tensor(name, Dims()) { raw_.value = value.get(); }
  /// Row-major elements in host memory. A run writes only to outputs.
  template <typename T>
  Tensor(const char* name, const T* data, const Dims& dims) : Tensor(name, dims) {
    raw_.dtype = DTypeOf<T>::value;
    raw_.data = const_cast<T*>(data);  // a run does not write to inputs
    raw_.bytes = dims.bytes(sizeof(T));
  }
  /// Elements in device memory, from `offset` bytes on, which is a multiple of 16. Outputs need no
  /// dims.
  Tensor(const char* name, const Buffer& buffer, const Dims& dims = {}, uint64_t offset = 0)
      : Tensor(name, dims) {
    raw_.buffer = buffer.get();
    raw_.offset = offset;
  }
  /// An image of the application's Vulkan device, for a slot that is an image.
  Tensor(const char* name, const reprise_vulkan_image& image) : Tensor(name, Dims()) {
    raw_.image = &image;
  }
  /// Makes `bytes` the distance from one row, along the first axis, to the next.
  Tensor& row_pitch(uint64_t bytes) {
    if (raw_.data && raw_.rank > 0 && raw_.dims[0] > 0) {
      const auto rows = static_cast<size_t>(raw_.dims[0]);
      raw_.bytes = (rows - 1) * bytes + raw_.bytes / rows;
    }
    raw_.row_pitch = bytes;
    return *this;
  }
  /// The same for the C interface.
  const reprise_tensor& raw() const { return raw_; }

 private:
  Tensor(const char* name, const Dims& dims) {
    raw_.name = name;
    dims.write_to(raw_);
  }
  reprise_tensor raw_ = REPRISE_TENSOR_INIT;
};

/// An output of a run.
struct Output {
  reprise_dtype dtype = REPRISE_F32;  ///< of the elements
  std::vector<int64_t> dims;          ///< in elements, the outermost first
  std::vector<unsigned char> bytes;   ///< empty if the run wrote to the caller's memory
  std::vector<std::string> strings;   ///< of dtype REPRISE_STRING
  Value value;                        ///< a sequence, an optional or a map, which has no bytes

  /// Copies a tensor of the results.
  void assign(const reprise_tensor& from) {
    dtype = from.dtype;
    dims.assign(from.dims, from.dims + from.rank);
    if (!from.data) return;
    if (from.dtype == REPRISE_STRING) {
      const auto* s = static_cast<const reprise_string*>(from.data);
      for (size_t k = 0; k < from.bytes / sizeof(*s); ++k)
        strings.emplace_back(s[k].data, s[k].size);
      return;
    }
    const auto* data = static_cast<const unsigned char*>(from.data);
    bytes.assign(data, data + from.bytes);
  }
  /// Returns the elements; empty if they are not of this type.
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> v(dtype == DTypeOf<T>::value ? bytes.size() / sizeof(T) : 0);
    if (!v.empty()) std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
    return v;
  }
};

/// Copies the results of a run of a session.
inline Result<std::vector<Output>> read_results(
    const reprise_session* session, const Handle<reprise_results, reprise_results_free>& results) {
  reprise_error e{};
  std::vector<Output> all(reprise_session_output_count(session));
  for (size_t i = 0; i < all.size(); ++i) {
    reprise_slot slot = REPRISE_SLOT_INIT;
    if (reprise_session_output(session, i, &slot, &e) != REPRISE_OK) return e;
    if (slot.kind != REPRISE_KIND_TENSOR) {
      reprise_value* value = nullptr;
      if (reprise_results_get_value(results.get(), i, &value, &e) != REPRISE_OK) return e;
      all[i].dtype = slot.dtype;
      all[i].value = Value(value);
      continue;
    }
    reprise_tensor t = REPRISE_TENSOR_INIT;
    if (reprise_results_get(results.get(), i, &t, &e) != REPRISE_OK) return e;
    all[i].assign(t);
  }
  return all;
}

class Session;

/// The values of all states of a model, apart from sessions, such as one conversation.
class States {
 public:
  /// Makes states with the initial values of the session's package.
  static Result<States> create(const Session& session);
  /// States with the same values; of those that grow with the first `length` rows, or all.
  Result<States> fork(int64_t length = -1) const {
    reprise_error e{};
    reprise_states* s = nullptr;
    if (reprise_states_fork(get(), length, &s, &e) != REPRISE_OK) return e;
    return States(s);
  }
  /// Their memory and length.
  Result<reprise_states_info> info() const {
    reprise_error e{};
    reprise_states_info i = REPRISE_STATES_INFO_INIT;
    if (reprise_states_get_info(get(), &i, &e) != REPRISE_OK) return e;
    return i;
  }
  /// The handle, which the object keeps.
  reprise_states* get() const { return handle_.get(); }

 private:
  explicit States(reprise_states* owned) : handle_(owned) {}
  Handle<reprise_states, reprise_states_free> handle_;
};

/// A package on a device. Several threads may run it at the same time.
class Session {
 public:
  /// Creates a session: uploads the weights, and builds the kernels.
  static Result<Session> create(const Package& package, const Device& device,
                                const reprise_session_options* options = nullptr) {
    reprise_error e{};
    reprise_session* s = nullptr;
    if (reprise_session_create(package.get(), device.get(), options, &s, &e) != REPRISE_OK)
      return e;
    return Session(s);
  }
  /// Runs once, and returns all outputs in the model's order. Those that `outputs` names are
  /// written to the caller's memory instead, and have no bytes in the result.
  Result<std::vector<Output>> run(const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& outputs = {},
                                  reprise_run_stats* stats = nullptr) {
    std::vector<reprise_tensor> in, out;
    in.reserve(inputs.size());
    out.reserve(outputs.size());
    for (const Tensor& t : inputs) in.push_back(t.raw());
    for (const Tensor& t : outputs) out.push_back(t.raw());
    reprise_error e{};
    reprise_results* raw = nullptr;
    if (reprise_session_run(get(), in.data(), in.size(), out.data(), out.size(), &raw, stats, &e) !=
        REPRISE_OK)
      return e;
    return read_results(get(), Handle<reprise_results, reprise_results_free>(raw));
  }
  /// What it uses, and totals of its runs.
  reprise_session_info info() const {
    reprise_session_info i = REPRISE_SESSION_INFO_INIT;
    reprise_session_get_info(get(), &i, nullptr);
    return i;
  }
  /// Moves the session to another device; see reprise_session_reopen().
  Error reopen(const Device& device) {
    return outcome(
        [&](reprise_error* e) { return reprise_session_reopen(get(), device.get(), e); });
  }
  /// The names of the states, in the model's order.
  std::vector<std::string> states() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < reprise_session_state_count(get()); ++i) {
      reprise_slot slot = REPRISE_SLOT_INIT;
      if (reprise_session_state(get(), i, &slot, nullptr) == REPRISE_OK) names.push_back(slot.name);
    }
    return names;
  }
  /// The elements of a state, which must be of this type.
  template <typename T>
  Result<std::vector<T>> read_state(const std::string& name) {
    const Result<reprise_slot> slot = state_of(name, DTypeOf<T>::value);
    if (!slot) return slot.error();
    const Result<reprise_state_rows> rows = state_rows(name);
    if (!rows) return rows.error();
    std::vector<T> values(static_cast<size_t>(rows->bytes / sizeof(T)));
    reprise_error e{};
    if (reprise_session_read_state(get(), name.c_str(), values.data(), values.size() * sizeof(T),
                                   &e) != REPRISE_OK)
      return e;
    return values;
  }
  /// Gives a state these elements; their type and number must be those of the state.
  template <typename T>
  Error write_state(const std::string& name, const std::vector<T>& values) {
    const Result<reprise_slot> slot = state_of(name, DTypeOf<T>::value);
    if (!slot) return slot.error();
    reprise_error e{};
    if (reprise_session_write_state(get(), name.c_str(), values.data(), values.size() * sizeof(T),
                                    &e) == REPRISE_OK)
      return {};
    return {e.status, e.message};
  }
  /// Writes the values of all states to a file.
  Error save_states(const std::string& path) {
    return outcome(
        [&](reprise_error* e) { return reprise_session_save_states(get(), path.c_str(), e); });
  }
  /// Reads all states from such a file, or the initial values from a package.
  Error load_states(const std::string& path) {
    return outcome(
        [&](reprise_error* e) { return reprise_session_load_states(get(), path.c_str(), e); });
  }
  /// Gives all states their initial values.
  Error reset_states() {
    return outcome([&](reprise_error* e) { return reprise_session_reset_states(get(), e); });
  }
  /// The rows of a state that grows, and the dims of any state.
  Result<reprise_state_rows> state_rows(const std::string& name) const {
    reprise_state_rows rows = REPRISE_STATE_ROWS_INIT;
    reprise_error e{};
    if (reprise_session_state_rows(get(), name.c_str(), &rows, &e) != REPRISE_OK) return e;
    return rows;
  }
  /// Keeps only the first `length` rows of the states that grow: of one, or of all if `name` is
  /// empty, as in the next two functions.
  Error truncate_states(int64_t length, const std::string& name = {}) {
    return outcome([&](reprise_error* e) {
      return reprise_session_truncate_states(get(), given(name), length, e);
    });
  }
  /// Makes memory for at least so many rows.
  Error reserve_states(int64_t rows, const std::string& name = {}) {
    return outcome([&](reprise_error* e) {
      return reprise_session_reserve_states(get(), given(name), rows, e);
    });
  }
  /// Sets the most rows that runs may make.
  Error limit_states(int64_t rows, const std::string& name = {}) {
    return outcome([&](reprise_error* e) {
      return reprise_session_limit_states(get(), given(name), rows, e);
    });
  }
  /// From now on, runs and the functions of states use these; null: the session's own.
  Error bind_states(const States* states) {
    return outcome([&](reprise_error* e) {
      return reprise_session_bind_states(get(), states ? states->get() : nullptr, e);
    });
  }
  /// Gives a state the elements and dims of `value`; of one that grows, any number of rows.
  Error write_state(const Tensor& value) {
    const reprise_tensor raw = value.raw();
    return outcome(
        [&](reprise_error* e) { return reprise_session_write_state_tensor(get(), &raw, e); });
  }
  /// The handle, which the session keeps.
  reprise_session* get() const { return handle_.get(); }

 private:
  explicit Session(reprise_session* owned) : handle_(owned) {}
  static const char* given(const std::string& name) {
    return name.empty() ? nullptr : name.c_str();
  }
  Result<reprise_slot> state_of(const std::string& name, reprise_dtype dtype) const {
    reprise_slot slot = REPRISE_SLOT_INIT;
    for (size_t i = 0; i < reprise_session_state_count(get()); ++i) {
      reprise_error e{};
      if (reprise_session_state(get(), i, &slot, &e) != REPRISE_OK) return e;
      if (slot.name != name) continue;
      if (slot.dtype == dtype) return slot;
      return Error{REPRISE_INVALID_INPUT, "state '" + name + "' has the dtype " +
                                              std::to_string(slot.dtype) +
                                              " of reprise_dtype, not " + std::to_string(dtype)};
    }
    return Error{REPRISE_INVALID_INPUT, "the model has no state '" + name + "'"};
  }
  Handle<reprise_session, reprise_session_free> handle_;
};

inline Result<States> States::create(const Session& session) {
  reprise_error e{};
  reprise_states* s = nullptr;
  if (reprise_states_create(session.get(), &s, &e) != REPRISE_OK) return e;
  return States(s);
}

/// A run that does not block its caller: bind once, then submit and wait again and again. Only one
/// thread at a time may use it, but for cancel().
class Run {
 public:
  /// Makes a run without bindings. The session must outlive the run.
  static Result<Run> create(const Session& session) {
    reprise_error e{};
    reprise_run* r = nullptr;
    if (reprise_run_create(session.get(), &r, &e) != REPRISE_OK) return e;
    return Run(r, session.get());
  }
  /// Binds memory for all submissions until the next call; it must be valid until then. A call that
  /// fails while the run is in flight changes nothing; any other that fails leaves no bindings.
  Error bind(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs = {}) {
    std::vector<reprise_tensor> in, out;
    in.reserve(inputs.size());
    out.reserve(outputs.size());
    for (const Tensor& t : inputs) in.push_back(t.raw());
    for (const Tensor& t : outputs) out.push_back(t.raw());
    reprise_error e{};
    if (reprise_run_bind(get(), in.data(), in.size(), out.data(), out.size(), &e) != REPRISE_OK)
      return {e.status, e.message};
    outputs_ = std::move(out);  // the library keeps the address of the elements
    return {};
  }
  /// Uses these states instead of the session's; null: those of the session again.
  Error bind_states(const States* states) {
    return outcome([&](reprise_error* e) {
      return reprise_run_bind_states(get(), states ? states->get() : nullptr, e);
    });
  }
  /// Submits the run, and returns without waiting for the device; see reprise_run_submit().
  Error submit(const reprise_submit_options* options = nullptr) {
    return outcome([&](reprise_error* e) { return reprise_run_submit(get(), options, e); });
  }
  /// Writes the run to a VkCommandBuffer instead; see reprise_run_record().
  Error record(void* command_buffer) {
    reprise_record_options options = REPRISE_RECORD_OPTIONS_INIT;
    options.command_buffer = command_buffer;
    return outcome([&](reprise_error* e) { return reprise_run_record(get(), &options, e); });
  }
  /// Asks the run to end early; any thread may call this.
  Error cancel() {
    return outcome([&](reprise_error* e) { return reprise_run_cancel(get(), e); });
  }
  /// Whether wait() would not wait for what was submitted.
  Result<bool> ended() {
    reprise_error e{};
    int32_t is = 0;
    if (reprise_run_poll(get(), &is, &e) != REPRISE_OK) return e;
    return is != 0;
  }
  /// Waits for the run, and returns the outputs as Session::run() does.
  Result<std::vector<Output>> wait(reprise_run_stats* stats = nullptr) {
    reprise_error e{};
    reprise_results* raw = nullptr;
    if (reprise_run_wait(get(), &raw, stats, &e) != REPRISE_OK) return e;
    return read_results(session_, Handle<reprise_results, reprise_results_free>(raw));
  }
  /// Waits for outputs that are all in the caller's memory.
  Error wait_only(reprise_run_stats* stats = nullptr) {
    return outcome([&](reprise_error* e) { return reprise_run_wait(get(), nullptr, stats, e); });
  }
  /// The handle, which the run keeps.
  reprise_run* get() const { return handle_.get(); }

 private:
  Run(reprise_run* owned, reprise_session* session) : session_(session), handle_(owned) {}
  reprise_session* session_;
  std::vector<reprise_tensor> outputs_;  // the library writes their dims
  Handle<reprise_run, reprise_run_free> handle_;
};

}  // namespace api
}  // namespace reprise

#endif
