// Reprise in C++: a header-only layer over reprise.h, whose rules on ownership, threads and errors
// apply. It throws no exceptions of its own. Destructors free the handles.
#ifndef REPRISE_REPRISE_HPP_
#define REPRISE_REPRISE_HPP_

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "reprise/result.hpp"

namespace reprise {
inline namespace api {

/// A compiled model.
class Package {
 public:
  /// Takes ownership of the handle.
  explicit Package(reprise_package* owned) : handle_(owned) {}
  static Result<Package> open(const std::string& path) {
    reprise_error e{};
    reprise_package* p = nullptr;
    if (reprise_package_open(path.c_str(), &p, &e) != REPRISE_OK) return e;
    return Package(p);
  }
  /// reprise_package_open_part says what `file` is; `length` 0: up to its end.
  static Result<Package> open_part(intptr_t file, uint64_t offset, uint64_t length) {
    reprise_error e{};
    reprise_package* p = nullptr;
    if (reprise_package_open_part(file, offset, length, &p, &e) != REPRISE_OK) return e;
    return Package(p);
  }
  /// Returns an Error with status REPRISE_OK on success.
  Error save(const std::string& path) const {
    return outcome([&](reprise_error* e) { return reprise_package_save(get(), path.c_str(), e); });
  }
  reprise_package* get() const { return handle_.get(); }

 private:
  Handle<reprise_package, reprise_package_free> handle_;
};

/// A device, or the host.
class Device {
 public:
  /// reprise_device_open describes the ids.
  static Result<Device> open(const std::string& id = "auto",
                             const reprise_device_options* options = nullptr) {
    reprise_error e{};
    reprise_device* d = nullptr;
    if (reprise_device_open(id.c_str(), options, &d, &e) != REPRISE_OK) return e;
    return Device(d);
  }
  /// Opens the best device for which the package has a variant, or else the host.
  static Result<Device> open_for(const Package& package) {
    reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
    options.package = package.get();
    return open("auto", &options);
  }
  reprise_device_info info() const {
    reprise_device_info i = REPRISE_DEVICE_INFO_INIT;
    reprise_device_get_info(get(), &i, nullptr);
    return i;
  }
  /// These return an Error with status REPRISE_OK on success. `bytes`: 0 is no limit.
  Error set_memory_budget(uint64_t bytes) {
    return outcome(
        [&](reprise_error* e) { return reprise_device_set_memory_budget(get(), bytes, e); });
  }
  Error trim() {
    return outcome([&](reprise_error* e) { return reprise_device_trim(get(), e); });
  }
  reprise_device* get() const { return handle_.get(); }

 private:
  explicit Device(reprise_device* owned) : handle_(owned) {}
  Handle<reprise_device, reprise_device_free> handle_;
};

/// Device memory that runs use in place.
class Buffer {
 public:
  static Result<Buffer> create(const Device& device, uint64_t bytes) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_create(device.get(), bytes, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// A VkBuffer or CUdeviceptr of the application; see reprise_buffer_borrow().
  static Result<Buffer> borrow(const Device& device, uint64_t handle, uint64_t bytes) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_borrow(device.get(), handle, bytes, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// Memory that another API or process exported; see reprise_buffer_import().
  static Result<Buffer> import(const Device& device, const reprise_external_memory& memory) {
    reprise_error e{};
    reprise_buffer* b = nullptr;
    if (reprise_buffer_import(device.get(), &memory, &b, &e) != REPRISE_OK) return e;
    return Buffer(b);
  }
  /// write() and read() return an Error with status REPRISE_OK on success. `offset` is in bytes.
  Error write(const void* data, uint64_t bytes, uint64_t offset = 0) {
    return outcome(
        [&](reprise_error* e) { return reprise_buffer_write(get(), offset, data, bytes, e); });
  }
  Error read(void* data, uint64_t bytes, uint64_t offset = 0) const {
    return outcome(
        [&](reprise_error* e) { return reprise_buffer_read(get(), offset, data, bytes, e); });
  }
  reprise_buffer* get() const { return handle_.get(); }

 private:
  explicit Buffer(reprise_buffer* owned) : handle_(owned) {}
  Handle<reprise_buffer, reprise_buffer_free> handle_;
};

template <typename T>
struct DTypeOf;
#define REPRISE_DTYPE_OF(type, number)             \
  template <>                                      \
  struct DTypeOf<type> {                           \
    static constexpr reprise_dtype value = number; \
  }
REPRISE_DTYPE_OF(float, REPRISE_F32);
REPRISE_DTYPE_OF(double, REPRISE_F64);
REPRISE_DTYPE_OF(int8_t, REPRISE_I8);
REPRISE_DTYPE_OF(uint8_t, REPRISE_U8);
REPRISE_DTYPE_OF(int16_t, REPRISE_I16);
REPRISE_DTYPE_OF(uint16_t, REPRISE_U16);
REPRISE_DTYPE_OF(int32_t, REPRISE_I32);
REPRISE_DTYPE_OF(uint32_t, REPRISE_U32);
REPRISE_DTYPE_OF(int64_t, REPRISE_I64);
REPRISE_DTYPE_OF(uint64_t, REPRISE_U64);
REPRISE_DTYPE_OF(bool, REPRISE_BOOL);
#undef REPRISE_DTYPE_OF

/// The library refuses a rank over 16, and then does not read the dims.
inline void set_dims(reprise_tensor& t, std::initializer_list<int64_t> dims) {
  t.rank = static_cast<uint32_t>(dims.size());
  if (t.rank <= REPRISE_MAX_RANK) std::copy(dims.begin(), dims.end(), t.dims);
}

/// A sequence, an optional, a map or a tensor, in host memory. Copies share it.
class Value {
 public:
  Value() = default;
  /// Takes ownership of the handle.
  explicit Value(reprise_value* owned) : handle_(owned, reprise_value_free) {}
  template <typename T>
  static Result<Value> tensor(const T* data, std::initializer_list<int64_t> dims) {
    reprise_tensor t = REPRISE_TENSOR_INIT;
    t.dtype = DTypeOf<T>::value;
    t.data = const_cast<T*>(data);  // it is copied
    t.bytes = sizeof(T);
    for (const int64_t d : dims) t.bytes *= static_cast<size_t>(d);
    set_dims(t, dims);
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_from_tensor(&t, out, e);
    });
  }
  /// A tensor of rank 1.
  static Result<Value> strings(const std::vector<std::string>& list) {
    std::vector<reprise_string> data;
    data.reserve(list.size());
    for (const std::string& s : list) data.push_back({s.data(), s.size()});
    reprise_tensor t = REPRISE_TENSOR_INIT;
    t.dtype = REPRISE_STRING;
    t.rank = 1;
    t.dims[0] = static_cast<int64_t>(data.size());
    t.data = data.data();
    t.bytes = data.size() * sizeof(reprise_string);
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_from_tensor(&t, out, e);
    });
  }
  /// reprise_value_create describes the items. `dtype` is that of the tensors.
  static Result<Value> of(reprise_kind kind, reprise_dtype dtype, const std::vector<Value>& items) {
    std::vector<const reprise_value*> list;
    list.reserve(items.size());
    for (const Value& v : items) list.push_back(v.get());
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_create(kind, dtype, list.data(), list.size(), out, e);
    });
  }

  reprise_value_info info() const {
    reprise_value_info i = REPRISE_VALUE_INFO_INIT;
    reprise_value_get_info(get(), &i, nullptr);
    return i;
  }
  Result<Value> item(size_t index) const {
    return made([&](reprise_value** out, reprise_error* e) {
      return reprise_value_get_item(get(), index, out, e);
    });
  }
  /// The tensor that this value is. Its data live as long as the value.
  Result<reprise_tensor> as_tensor() const {
    reprise_error e{};
    reprise_tensor t = REPRISE_TENSOR_INIT;
    if (reprise_value_get_tensor(get(), &t, &e) != REPRISE_OK) return e;
    return t;
  }
  reprise_value* get() const { return handle_.get(); }

 private:
  template <typename Make>
  static Result<Value> made(Make make) {
    reprise_error e{};
    reprise_value* v = nullptr;
    if (make(&v, &e) != REPRISE_OK) return e;
    return Value(v);
  }
  std::shared_ptr<reprise_value> handle_;
};

/// Memory of the caller as an input or output of the model with that name. It is not owned and must
/// outlive the run.
class Tensor {
 public:
  Tensor(const char* name, const Value& value) : Tensor(name, {}) { raw_.value = value.get(); }
  template <typename T>
  Tensor(const char* name, const T* data, std::initializer_list<int64_t> dims)
      : Tensor(name, dims) {
    raw_.dtype = DTypeOf<T>::value;
    raw_.data = const_cast<T*>(data);  // a run does not write to inputs
    raw_.bytes = sizeof(T);
    for (const int64_t d : dims) raw_.bytes *= static_cast<size_t>(d);
  }
  Tensor(const char* name, const Buffer& buffer, std::initializer_list<int64_t> dims = {},
         uint64_t offset = 0)
      : Tensor(name, dims) {
    raw_.buffer = buffer.get();
    raw_.offset = offset;
  }
  /// An image of the application's Vulkan device, for a slot that is an image.
  Tensor(const char* name, const reprise_vulkan_image& image) : Tensor(name, {}) {
    raw_.image = &image;
  }
  /// Makes `bytes` the distance from one row to the next.
  Tensor& row_pitch(uint64_t bytes) {
    if (raw_.data && raw_.rank > 0 && raw_.dims[0] > 0) {
      const auto rows = static_cast<size_t>(raw_.dims[0]);
      raw_.bytes = (rows - 1) * bytes + raw_.bytes / rows;
    }
    raw_.row_pitch = bytes;
    return *this;
  }
  const reprise_tensor& raw() const { return raw_; }

 private:
  Tensor(const char* name, std::initializer_list<int64_t> dims) {
    raw_.name = name;
    set_dims(raw_, dims);
  }
  reprise_tensor raw_ = REPRISE_TENSOR_INIT;
};

/// An output of a run.
struct Output {
  reprise_dtype dtype = REPRISE_F32;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;  // empty if the run wrote to the caller's memory
  std::vector<std::string> strings;  // of dtype REPRISE_STRING
  Value value;                       // a sequence, an optional or a map, which has no bytes

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

/// A package on a device.
class Session {
 public:
  static Result<Session> create(const Package& package, const Device& device,
                                const reprise_session_options* options = nullptr) {
    reprise_error e{};
    reprise_session* s = nullptr;
    if (reprise_session_create(package.get(), device.get(), options, &s, &e) != REPRISE_OK)
      return e;
    return Session(s);
  }
  /// Returns all outputs in the model's order. Those that `outputs` names are written to the
  /// caller's memory instead, and have no bytes in the result.
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
  /// Moves the session to another device. Returns an Error with status REPRISE_OK on success.
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
    size_t count = 1;
    for (uint32_t a = 0; a < slot->rank; ++a) count *= static_cast<size_t>(slot->dims[a]);
    std::vector<T> values(count);
    reprise_error e{};
    if (reprise_session_read_state(get(), name.c_str(), values.data(), count * sizeof(T), &e) !=
        REPRISE_OK)
      return e;
    return values;
  }
  /// These return an Error with status REPRISE_OK on success.
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
  Error save_states(const std::string& path) {
    return outcome(
        [&](reprise_error* e) { return reprise_session_save_states(get(), path.c_str(), e); });
  }
  Error load_states(const std::string& path) {
    return outcome(
        [&](reprise_error* e) { return reprise_session_load_states(get(), path.c_str(), e); });
  }
  Error reset_states() {
    return outcome([&](reprise_error* e) { return reprise_session_reset_states(get(), e); });
  }
  reprise_session* get() const { return handle_.get(); }

 private:
  explicit Session(reprise_session* owned) : handle_(owned) {}
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

/// Memory for intermediate tensors that sessions share (reprise_session_options::arena).
class Arena {
 public:
  static Result<Arena> create(const Device& device) {
    reprise_error e{};
    reprise_arena* a = nullptr;
    if (reprise_arena_create(device.get(), &a, &e) != REPRISE_OK) return e;
    return Arena(a);
  }
  Result<uint64_t> bytes() const {
    reprise_error e{};
    uint64_t bytes = 0;
    if (reprise_arena_get_bytes(get(), &bytes, &e) != REPRISE_OK) return e;
    return bytes;
  }
  reprise_arena* get() const { return handle_.get(); }

 private:
  explicit Arena(reprise_arena* owned) : handle_(owned) {}
  Handle<reprise_arena, reprise_arena_free> handle_;
};

/// A run that does not block its caller: bind once, then submit and wait again and again.
class Run {
 public:
  /// The session must outlive the run.
  static Result<Run> create(const Session& session) {
    reprise_error e{};
    reprise_run* r = nullptr;
    if (reprise_run_create(session.get(), &r, &e) != REPRISE_OK) return e;
    return Run(r, session.get());
  }
  /// bind(), submit() and wait_only() return an Error with status REPRISE_OK on success. A bind()
  /// that fails while the run is in flight changes nothing; any other that fails leaves no
  /// bindings.
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
  Error submit(const reprise_submit_options* options = nullptr) {
    return outcome([&](reprise_error* e) { return reprise_run_submit(get(), options, e); });
  }
  /// Asks the run to end early; any thread may call this.
  Error cancel() {
    return outcome([&](reprise_error* e) { return reprise_run_cancel(get(), e); });
  }
  Result<bool> ended() {
    reprise_error e{};
    int32_t is = 0;
    if (reprise_run_poll(get(), &is, &e) != REPRISE_OK) return e;
    return is != 0;
  }
  /// Returns the outputs as Session::run does.
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
