// Opens NVIDIA's libraries at run time, so that neither the build nor a run needs them.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "runtime/base/status.h"

namespace reprise::bench::gpu {

/// Opens the first of the libraries that exists, on the dynamic linker's path or in the toolkit's
/// folder. It is never closed, because these libraries do not survive that.
inline Result<void*> open_vendor_library(std::initializer_list<const char*> names) {
  std::string tried;
  for (const char* name : names) {
    for (const std::string& path :
         {std::string(name), "/usr/local/cuda/lib64/" + std::string(name)}) {
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
      const char* why = dlerror();
      tried += (tried.empty() ? "" : "; ") + std::string(why ? why : path);
    }
  }
  return Status(Code::Unsupported, tried);
}

template <typename F>
Status resolve(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (function) return {};
  return {Code::Unsupported, "the library has no " + std::string(name)};
}

/// The result of a call whose status is 0 on success.
inline Status vendor_check(int status, const char* call) {
  if (status == 0) return {};
  return {Code::Device, std::string(call) + " failed with status " + std::to_string(status)};
}

}  // namespace reprise::bench::gpu
