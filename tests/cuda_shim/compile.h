// Builds emitted CUDA text with the host compiler and loads what it makes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "tests/cuda_shim/kernel_text.h"
#include "tests/cuda_shim/shim.h"

namespace reprise::test {

struct BuildOptions {
  /// Folder for what was built, by the hash of all that matters; "", or not writable: none.
  std::string cache;
  bool optimise = false;   // for speed of the kernels rather than of the compiler
  bool one_thread = true;  // shared memory is one per library, not one per thread
  bool checked = false;    // every access calls the functions of an address checker
};

/// A compiled text.
class ShimLibrary {
 public:
  /// Shim, prelude and text as one translation unit.
  static Result<std::unique_ptr<ShimLibrary>> build(const std::string& text,
                                                    const BuildOptions& options);
  ~ShimLibrary();
  ShimLibrary(const ShimLibrary&) = delete;
  ShimLibrary& operator=(const ShimLibrary&) = delete;

  const std::vector<KernelText>& kernels() const { return kernels_; }
  /// Null when there is no such kernel.
  KernelFn function(const std::string& kernel) const;

 private:
  ShimLibrary(void* handle, std::vector<KernelText> kernels)
      : handle_(handle), kernels_(std::move(kernels)) {}
  void* handle_;
  std::vector<KernelText> kernels_;
};

}  // namespace reprise::test
