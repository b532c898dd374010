// Images for the stand-in driver (tests/cuda_standin), which executes the text that they stand for.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <functional>
#include <string>

#include "runtime/package/package.h"
#include "tests/cuda_standin/control.h"

namespace reprise::test {

/// PTX that differs for each text, with the zero byte at its end.
inline std::string ptx_naming(const std::string& head, const std::string& text) {
  return head + "// " + std::to_string(std::hash<std::string>()(text)) + "\n" + '\0';
}

/// The CUDA driver of this process; null if there is none.
inline void* cuda_driver() {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver;
}

/// The function that tells the stand-in driver about a text; null if the driver is another one.
inline standin::KeepText standin_keeper() {
  static void* const f =
      cuda_driver() != nullptr ? dlsym(cuda_driver(), standin::kKeepText) : nullptr;
  return reinterpret_cast<standin::KeepText>(f);
}

/// Tells the stand-in driver, if it is the CUDA driver of this process.
inline void keep_text(const plan::KernelCode& k) {
  if (const auto keep = standin_keeper()) keep(k.image.data(), k.image.size(), k.cuda.c_str());
}

/// The same after a test changed the texts of a package that was compiled with keep_source. Images
/// become others.
inline void keep_changed_texts(package::Package& p) {
  constexpr size_t kPadding = 9, kPaddingEnd = 16;  // of ELF's identification
  for (package::Variant& v : p.variants) {
    for (plan::KernelCode& k : v.plan.kernels) {
      const size_t hash = std::hash<std::string>()(k.cuda);
      for (size_t i = kPadding; i < kPaddingEnd; ++i)
        k.image[i] = static_cast<std::byte>(hash >> (8 * (i - kPadding)));
      keep_text(k);
    }
  }
}

}  // namespace reprise::test
