// What tests of compiling for CUDA share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/compile/compiler.h"
#include "codegen/nvrtc/library.h"
#include "tests/support/paths.h"

namespace reprise::test {

/// The library that tests use: the environment names one where the system has none.
inline std::string nvrtc_path() {
  const char* path = std::getenv("REPRISE_NVRTC");
  return path ? path : "";
}

/// One that compiles nothing (tests/nvrtc/fake), as version 12.7 or 13.7.
inline std::string fake_nvrtc(int major) {
  return binary_dir() / "lib" / "fake-nvrtc" / ("libnvrtc.so." + std::to_string(major));
}

/// Skips the test where there is no NVRTC.
#define REPRISE_NEEDS_NVRTC()                                                 \
  do {                                                                        \
    if (!::reprise::nvrtc::Library::open(::reprise::test::nvrtc_path()).ok()) \
      GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";              \
  } while (0)

/// Whether this NVRTC compiles for the architecture; one of CUDA 12.8 or later knows sm_120.
inline bool knows(uint32_t arch) {
  const auto library = nvrtc::Library::open(nvrtc_path());
  return library.ok() && (*library)->knows({false, arch});
}

inline CompileOptions cuda_options(std::vector<std::string> targets) {
  CompileOptions options;
  options.targets = std::move(targets);
  options.nvrtc = nvrtc_path();
  options.log = [](const std::string& warning) { ADD_FAILURE() << warning; };
  return options;
}

inline Result<package::Package> compile_graph(const std::string& text,
                                              const CompileOptions& options,
                                              CompileReport* report = nullptr) {
  auto g = graph::parse(text);
  if (!g.ok()) return g.status();
  return compile(std::move(*g), options, report);
}

}  // namespace reprise::test
