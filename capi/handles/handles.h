// The objects behind the opaque handles of the C interface, and how errors and structs cross it.
// Shared by the runtime's and the compiler's half of the interface.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "runtime/base/host_memory.h"
#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise::capi {

/// The shapes of an interface as texts, in the order of its slots.
struct ShapeTexts {
  explicit ShapeTexts(const plan::Interface& io);
  std::vector<std::string> inputs, outputs, states;
};

}  // namespace reprise::capi

struct reprise_package {
  explicit reprise_package(std::shared_ptr<const reprise::package::Package> of)
      : package(std::move(of)), shapes(package->io) {}
  std::shared_ptr<const reprise::package::Package> package;
  reprise::capi::ShapeTexts shapes;
};

struct reprise_device {
  std::shared_ptr<reprise::Device> device;  // null: the host
  std::string cache_dir = {};
  reprise::Log log = {};
  reprise::HostMemoryPtr host_memory = {};
};

namespace reprise::capi {

/// A table of all handles. A handle is a key of the table, not an address, so a handle that was
/// freed, has another type or stems from before a fork() is detected. Thread-safe.
class Handles {
 public:
  /// Code::Usage if this is libreprise_compiler, and libreprise is of another build. Call it before
  /// anything else.
  static Status check();
  static void* add(std::shared_ptr<void> object, std::string_view kind);
  /// Code::Usage if the handle has another kind or is not in use.
  static Result<std::shared_ptr<void>> find(const void* handle, std::string_view kind);
  /// Null if the handle has another kind or is not in use.
  static std::shared_ptr<void> remove(const void* handle, std::string_view kind) noexcept;
};

/// The name of a handle type in messages. Each type has a specialisation.
template <typename T>
inline constexpr std::string_view kHandleName{};
template <>
inline constexpr std::string_view kHandleName<reprise_package> = "package";
template <>
inline constexpr std::string_view kHandleName<reprise_device> = "device";

template <typename T>
T* make_handle(std::shared_ptr<T> object) {
  return static_cast<T*>(Handles::add(std::move(object), kHandleName<T>));
}
template <typename T>
Result<std::shared_ptr<T>> find_handle(const T* handle) {
  RP_ASSIGN(std::shared_ptr<void> found, Handles::find(handle, kHandleName<T>));
  return std::static_pointer_cast<T>(std::move(found));
}
template <typename T>
void free_handle(T* handle) noexcept {
  if (handle) Handles::remove(handle, kHandleName<T>);
}

/// Copies as much of the text as fits, and terminates it with a zero byte.
void copy_text(char* out, size_t capacity, std::string_view text);
/// Fills `error`, which may be null, and returns the status for the code. The names of the nodes
/// follow the message in its array, each with a terminating zero, and end with an empty one.
reprise_status report(Code code, std::string_view message, reprise_error* error,
                      std::span<const std::string> nodes = {}) noexcept;

/// Runs body(context) and reports its result. Exceptions become errors.
reprise_status guarded_call(reprise_error* error, Status (*body)(void*), void* context) noexcept;
/// The same for a function object. The handlers are not here, because each function of the
/// interface would have its own copy of them.
template <typename F>
reprise_status guarded(reprise_error* error, F body) noexcept {
  return guarded_call(
      error, [](void* context) -> Status { return (*static_cast<F*>(context))(); }, &body);
}

/// The sizes that a struct of the interface had in earlier versions: the offsets of the members
/// that were added later.
template <typename T>
inline constexpr std::array<size_t, 0> kStructEnds{};

/// Code::Usage unless `size` is that of a version of the struct. A larger size is accepted if all
/// bytes of `given` beyond `own`, the size of this version, are zero.
Status check_struct(const void* given, size_t size, size_t own, std::span<const size_t> ends,
                    const char* name);

/// Converts the caller's version of a struct to this version. Members that the caller does not know
/// keep their defaults.
template <typename T>
Result<T> read_struct(const T* given, T defaults, const char* name) {
  if (!given) return defaults;
  RP_TRY(check_struct(given, given->struct_size, sizeof(T), kStructEnds<T>, name));
  T out = defaults;
  std::memcpy(static_cast<void*>(&out), given, std::min(given->struct_size, sizeof(T)));
  out.struct_size = sizeof(T);
  return out;
}

/// The reverse: writes only the members that the caller knows. The struct's size must have been
/// checked.
template <typename T>
void write_struct(const T& value, T* out) {
  const size_t size = std::min(out->struct_size, sizeof(T));
  if (size <= sizeof(size_t)) return;
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(size_t),
              reinterpret_cast<const char*>(&value) + sizeof(size_t), size - sizeof(size_t));
}
/// Checks the size of a struct that the library will fill.
template <typename T>
Status check_out(const T* out, const char* name) {
  return out ? check_struct(nullptr, out->struct_size, sizeof(T), kStructEnds<T>, name) : Status();
}

/// The executor of the application, which may be null.
Result<Executor> read_executor(const reprise_executor* given);

/// Returns an element of the caller's array, whatever the version of its structs.
template <typename T>
T* element(T* array, size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + i * array->struct_size);
}

/// Checks that all elements have the struct_size of the first: an array has structs of one version.
template <typename T>
Status check_array(T* array, size_t n, const char* name) {
  for (size_t i = 0; i < n; ++i) {
    if (element(array, i)->struct_size != array->struct_size)
      return {Code::Usage, std::string(name) + ": the elements of an array differ in struct_size"};
    if (i == 0) RP_TRY(check_out(array, name));
  }
  return {};
}

/// The dtype as a number. A C caller can write any number, but C++ may load an enum only if the
/// value is one that it can represent.
inline int32_t dtype_number(const reprise_tensor& t) {
  static_assert(sizeof(t.dtype) == sizeof(int32_t));
  int32_t number = 0;
  std::memcpy(&number, &t.dtype, sizeof(number));
  return number;
}

}  // namespace reprise::capi
