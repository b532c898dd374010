// NVRTC, NVIDIA's library that compiles CUDA text. It is loaded at run time and not needed to
// build. The functions that we call are declared here after its documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/facts/cuda_arch.h"
#include "runtime/platform/library.h"

namespace reprise::nvrtc {

using Program = struct NvrtcProgram*;
using Error = int;  // 0: success

struct Functions {
  const char* (*error_string)(Error) = nullptr;
  Error (*version)(int* major, int* minor) = nullptr;
  Error (*arch_count)(int* count) = nullptr;
  Error (*archs)(int* archs) = nullptr;
  Error (*create)(Program* program, const char* text, const char* name, int n_headers,
                  const char* const* headers, const char* const* header_names) = nullptr;
  Error (*destroy)(Program* program) = nullptr;
  Error (*compile)(Program program, int n_options, const char* const* options) = nullptr;
  Error (*ptx_size)(Program program, size_t* bytes) = nullptr;
  Error (*ptx)(Program program, char* out) = nullptr;
  Error (*cubin_size)(Program program, size_t* bytes) = nullptr;
  Error (*cubin)(Program program, char* out) = nullptr;
  Error (*log_size)(Program program, size_t* bytes) = nullptr;
  Error (*log)(Program program, char* out) = nullptr;
};

/// What a library must be able to do.
struct Purpose {
  std::vector<CudaArch> archs;  // it must compile for all of them
  /// DeviceInfo::driver_version of the device that will load the images: 12040 is CUDA 12.4, 0
  /// means unknown.
  uint32_t driver = 0;
};

/// Thread-safe. The library is never unloaded, as it has threads and tables of its own.
class Library {
 public:
  /// Opens the library at `path`. If it is empty, searches for libnvrtc with the dynamic linker and
  /// in the usual folders of the toolkit, and takes the first that compiles for all architectures;
  /// those that are no newer than the driver are tried first. If there is none, the error says
  /// which packages contain it and what to do without it; if none compiles for all architectures,
  /// it lists those that each library lacks.
  static Result<std::shared_ptr<const Library>> open(const std::string& path,
                                                     const Purpose& purpose = {});
  /// The names that open() tries, in order.
  static std::vector<std::string> names(uint32_t driver);

  const Functions& functions() const { return f_; }
  /// "13.0"
  const std::string& version() const { return version_; }
  /// A warning if the driver's major version is older than the library's; else empty.
  std::string caveat(uint32_t driver) const;
  /// The most bytes of parameters of a kernel: 4,096 before version 12.1.
  uint32_t most_parameters() const { return most_parameters_; }
  bool knows(const CudaArch& arch) const;

 private:
  // These return what is wrong, or nothing.
  std::string load(const platform::Library& from, const std::string& name);
  std::string read_facts(const std::string& name);
  // "NVRTC 13.0 does not compile for ..."; empty if it compiles for all of them.
  std::string lacks(const std::vector<CudaArch>& archs) const;

  Functions f_;
  std::string version_;
  uint32_t major_ = 0;
  uint32_t most_parameters_ = 32764;
  std::vector<int> archs_;
};

}  // namespace reprise::nvrtc
