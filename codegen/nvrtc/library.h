// NVRTC, NVIDIA's compiler of CUDA text as a library: found at run time, never needed to build. The
// few functions in use are declared here by the names and signatures of its documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cuda_arch.h"

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

/// What a library is needed for.
struct Purpose {
  std::vector<CudaArch> archs;  // to compile for, all of them
  /// DeviceInfo::driver_version of the device that will load what is compiled: 12040 is 12.4; 0:
  /// nothing is known of one.
  uint32_t driver = 0;
};

/// Thread-safe. The library stays loaded: it keeps threads and tables of its own.
class Library {
 public:
  /// `path` empty: libnvrtc where the dynamic linker finds it, or in the toolkit's usual folders;
  /// of several the first that compiles for all the architectures, those before that are no newer
  /// than the driver. An error says which packages bring it and how to do without, or of each that
  /// is there for which architectures it does not compile.
  static Result<std::shared_ptr<const Library>> open(const std::string& path,
                                                     const Purpose& purpose = {});
  /// The names that open() tries, in order.
  static std::vector<std::string> names(uint32_t driver);

  const Functions& functions() const { return f_; }
  /// "13.0"
  const std::string& version() const { return version_; }
  /// What is to be known where the driver is of an older major version; else empty.
  std::string caveat(uint32_t driver) const;
  /// Bytes of parameters that a kernel may have: 4,096 before version 12.1.
  uint32_t most_parameters() const { return most_parameters_; }
  bool knows(const CudaArch& arch) const;

 private:
  // Empty, or what is wrong.
  std::string load(void* handle, const std::string& name);
  std::string read_facts(const std::string& name);
  // "NVRTC 13.0 does not compile for ..."; empty if it does for all.
  std::string lacks(const std::vector<CudaArch>& archs) const;

  Functions f_;
  std::string version_;
  uint32_t major_ = 0;
  uint32_t most_parameters_ = 32764;
  std::vector<int> archs_;
};

}  // namespace reprise::nvrtc
