#include "codegen/nvrtc/library.h"

#include <dlfcn.h>

#include <algorithm>

namespace reprise::nvrtc {
namespace {

constexpr int kLeastMajor = 12;

constexpr const char* kNames[] = {"libnvrtc.so.13",
                                  "libnvrtc.so.12",
                                  "libnvrtc.so",
                                  "/usr/local/cuda/lib64/libnvrtc.so.13",
                                  "/usr/local/cuda/lib64/libnvrtc.so.12",
                                  "/usr/local/cuda/lib64/libnvrtc.so"};

constexpr const char* kWhatToDo =
    "; install NVRTC 12 or 13 (cuda-nvrtc-13-0 or cuda-nvrtc-12-8 of NVIDIA's package repository "
    "for Debian, nvidia-cuda-nvrtc or nvidia-cuda-nvrtc-cu12 of PyPI, whose library is named with "
    "--nvrtc PATH), or compile for Vulkan alone: --targets vulkan";

Status missing(const std::string& why) {
  return unsupported("compiling for CUDA needs NVRTC, " + why + kWhatToDo);
}

void* open_library(const char* name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

std::string last_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& path) {
  void* handle = nullptr;
  std::string name = path;
  if (!path.empty()) {
    handle = open_library(path.c_str());
    if (handle == nullptr) return missing("and '" + path + "' cannot be loaded: " + last_error());
  }
  for (const char* candidate : kNames) {
    if (handle != nullptr) break;
    name = candidate;
    handle = open_library(candidate);
  }
  if (handle == nullptr) return missing("which is not on this machine (libnvrtc.so.13 or .12)");
  auto library = std::make_shared<Library>();
  RP_TRY(library->load(handle, name));
  return std::shared_ptr<const Library>(std::move(library));
}

Status Library::load(void* handle, const std::string& name) {
  std::string absent;
  const auto find = [&](auto& function, const char* symbol) {
    void* address = dlsym(handle, symbol);
    if (address == nullptr && absent.empty()) absent = symbol;
    function = reinterpret_cast<std::decay_t<decltype(function)>>(address);
  };
  find(f_.error_string, "nvrtcGetErrorString");
  find(f_.version, "nvrtcVersion");
  find(f_.arch_count, "nvrtcGetNumSupportedArchs");
  find(f_.archs, "nvrtcGetSupportedArchs");
  find(f_.create, "nvrtcCreateProgram");
  find(f_.destroy, "nvrtcDestroyProgram");
  find(f_.compile, "nvrtcCompileProgram");
  find(f_.ptx_size, "nvrtcGetPTXSize");
  find(f_.ptx, "nvrtcGetPTX");
  find(f_.cubin_size, "nvrtcGetCUBINSize");
  find(f_.cubin, "nvrtcGetCUBIN");
  find(f_.log_size, "nvrtcGetProgramLogSize");
  find(f_.log, "nvrtcGetProgramLog");
  if (!absent.empty()) return missing("and '" + name + "' has no function " + absent);
  return read_facts(name);
}

Status Library::read_facts(const std::string& name) {
  int major = 0, minor = 0, count = 0;
  if (f_.version(&major, &minor) != 0) return missing("and '" + name + "' has no version");
  version_ = std::to_string(major) + "." + std::to_string(minor);
  if (major < kLeastMajor) return missing("and '" + name + "' is of version " + version_);
  if (major == 12 && minor == 0) most_parameters_ = 4096;
  if (f_.arch_count(&count) != 0 || count < 1 || count > 1000)
    return missing("and '" + name + "' lists no architectures");
  archs_.resize(static_cast<size_t>(count));
  if (f_.archs(archs_.data()) != 0) return missing("and '" + name + "' lists no architectures");
  return {};
}

Status Library::check(const CudaArch& arch) const {
  if (std::find(archs_.begin(), archs_.end(), static_cast<int>(arch.number)) != archs_.end())
    return {};
  std::string known;
  for (const int a : archs_) known += (known.empty() ? "sm_" : ", sm_") + std::to_string(a);
  return unsupported("NVRTC " + version_ + " does not compile for " + arch.str() + "; it knows " +
                     known);
}

}  // namespace reprise::nvrtc
