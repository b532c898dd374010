// What the opaque handles of the C interface stand for, and how errors and structs cross it. Shared
// by the runtime's and the compiler's half of the interface.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "reprise/reprise.h"
#include "runtime/backend.h"
#include "runtime/package/package.h"

struct reprise_package {
  std::shared_ptr<const reprise::package::Package> package;
};

struct reprise_device {
  std::shared_ptr<reprise::Device> device;  // null: the host
  std::string cache_dir = {};
  std::function<void(const std::string&)> log = {};
};

namespace reprise::capi {

/// Handles are keys of a table and no addresses: one that was freed, that is of another kind or
/// that comes from before a fork() is found out, whoever frees it meanwhile.
class Handles {
 public:
  static void* add(std::shared_ptr<void> object, std::string_view kind);
  /// Code::Usage unless the handle is of that kind and in use.
  static Result<std::shared_ptr<void>> find(const void* handle, std::string_view kind);
  /// Null unless the handle is of that kind and in use.
  static std::shared_ptr<void> remove(const void* handle, std::string_view kind) noexcept;
};

/// The names of handles in messages; each struct of a handle has one.
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

void copy_text(char* out, size_t capacity, std::string_view text);
reprise_status report(Code code, std::string_view message, reprise_error* error) noexcept;

/// Runs `body`, which returns a Status; running out of memory becomes one too.
template <typename F>
reprise_status guarded(reprise_error* error, F&& body) noexcept {
  try {
    const Status s = body();
    return report(s.code(), s.message(), error);
  } catch (const std::bad_alloc&) {
    return report(Code::Device, "out of host memory", error);
  } catch (const std::exception& e) {
    return report(Code::Internal, e.what(), error);
  } catch (...) {
    return report(Code::Internal, "an unknown exception", error);
  }
}

/// Where a struct of the interface may end for callers of one version or another: before any
/// member that came later.
template <typename T>
inline constexpr std::array<size_t, 0> kStructEnds{};

/// Code::Usage unless `size` is that of a version of the struct, or of a later one whose further
/// members are zero.
Status check_struct(const void* given, size_t size, size_t own, std::span<const size_t> ends,
                    const char* name);

/// The caller's version of a struct that begins with its size, as ours: members that the caller
/// does not know keep their defaults.
template <typename T>
Result<T> read_struct(const T* given, T defaults, const char* name) {
  if (!given) return defaults;
  RP_TRY(check_struct(given, given->struct_size, sizeof(T), kStructEnds<T>, name));
  T out = defaults;
  std::memcpy(static_cast<void*>(&out), given, std::min(given->struct_size, sizeof(T)));
  out.struct_size = sizeof(T);
  return out;
}

/// The reverse: only the members that the caller knows are written. What the struct's size is must
/// have been checked.
template <typename T>
void write_struct(const T& value, T* out) {
  const size_t size = std::min(out->struct_size, sizeof(T));
  if (size <= sizeof(size_t)) return;
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(size_t),
              reinterpret_cast<const char*>(&value) + sizeof(size_t), size - sizeof(size_t));
}
/// Of a struct that the library fills, before it does anything.
template <typename T>
Status check_out(const T* out, const char* name) {
  return out ? check_struct(nullptr, out->struct_size, sizeof(T), kStructEnds<T>, name) : Status();
}

/// What a C caller wrote: any number, while C++ may only load those that the enum names.
inline int32_t dtype_number(const reprise_tensor& t) {
  static_assert(sizeof(t.dtype) == sizeof(int32_t));
  int32_t number = 0;
  std::memcpy(&number, &t.dtype, sizeof(number));
  return number;
}

}  // namespace reprise::capi
