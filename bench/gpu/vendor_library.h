// NVIDIA's libraries, opened where they are: none is needed to build or to run.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "runtime/base/status.h"

namespace reprise::bench::gpu {

/// The first of the names that the dynamic linker finds, alone or in the toolkit's folder. Stays
/// open: these libraries do not survive being closed.
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

/// Of a call whose status is 0 if it succeeded.
inline Status vendor_check(int status, const char* call) {
  if (status == 0) return {};
  return {Code::Device, std::string(call) + " failed with status " + std::to_string(status)};
}

}  // namespace reprise::bench::gpu
