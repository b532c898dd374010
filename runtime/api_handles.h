// What the opaque handles of the C interface hold, and how errors cross it. Shared by the runtime's
// and the compiler's half of the interface.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "reprise/reprise.h"
#include "runtime/package/package.h"

struct reprise_package {
  std::shared_ptr<const reprise::package::Package> package;
};

namespace reprise::capi {

inline void copy_text(char* out, size_t capacity, const std::string& text) {
  size_t n = std::min(text.size(), capacity - 1);
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80)
    --n;  // whole characters
  std::memcpy(out, text.data(), n);
  out[n] = 0;
}

inline reprise_status report(const Status& s, reprise_error* error) {
  const auto status = static_cast<reprise_status>(s.code());
  if (error) {
    error->status = status;
    copy_text(error->message, sizeof(error->message), s.message());
  }
  return status;
}

/// Runs `body`, which returns a Status; running out of memory becomes one too.
template <typename F>
reprise_status guarded(reprise_error* error, F&& body) {
  try {
    return report(body(), error);
  } catch (const std::bad_alloc&) {
    return report({Code::Device, "out of host memory"}, error);
  } catch (const std::exception& e) {
    return report(internal_error(std::string("unexpected exception: ") + e.what()), error);
  }
}

/// The caller's version of a struct that begins with its size, as ours: members that the caller
/// does not know keep their defaults.
template <typename T>
T read_struct(const T* given, T defaults) {
  if (!given) return defaults;
  T out = defaults;
  std::memcpy(static_cast<void*>(&out), given, std::min(given->struct_size, sizeof(T)));
  out.struct_size = sizeof(T);
  return out;
}

/// The reverse: only the members that the caller knows are written.
template <typename T>
void write_struct(const T& value, T* out) {
  const size_t size = std::min(out->struct_size, sizeof(T));
  if (size <= sizeof(size_t)) return;
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(size_t),
              reinterpret_cast<const char*>(&value) + sizeof(size_t), size - sizeof(size_t));
}

}  // namespace reprise::capi
