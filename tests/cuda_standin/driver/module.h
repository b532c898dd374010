// Modules: images, the CUDA text that each was compiled from, and its kernels.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/api.h"
#include "tests/cuda_shim/kernel_text.h"
#include "tests/cuda_standin/driver/compiler.h"
#include "tests/cuda_standin/driver/handles.h"
#include "tests/cuda_standin/driver/settings.h"

namespace reprise::standin {

/// What an image says.
struct Image {
  cuda::CUresult error = cuda::CUDA_SUCCESS;
  std::string problem;
  std::span<const std::byte> bytes;
};

/// Finds out where a cubin or PTX ends, and whether the device takes it.
Image read_image(const void* image, const Settings& device);

struct Module : Object {
  using Handle = cuda::CUmodule;
  static constexpr Kind kKind = Kind::Module;
  Module() : Object(kKind) {}

  std::shared_ptr<Compiled> compiled;
  bool checked = false;  // compiled so that every access is seen
  std::map<std::string, test::KernelText> kernels;
  std::map<std::string, uint64_t> functions;  // handles given out
};

struct Function : Object {
  using Handle = cuda::CUfunction;
  static constexpr Kind kKind = Kind::Function;
  Function() : Object(kKind) {}

  std::weak_ptr<Module> module;  // gone once it was unloaded
  test::KernelText kernel;
  uint32_t most_dynamic_shared = 48 << 10;  // bytes that launches may give it
};

}  // namespace reprise::standin
