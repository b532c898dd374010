#include "codegen/nvrtc/library.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace reprise::nvrtc {
namespace {

constexpr int kLeastMajor = 12;

// Names that the dynamic linker searches for, then paths in the toolkit. On Windows, the toolkit's
// folder is in PATH.
constexpr struct {
  uint32_t major;  // 0: any
  const char* name;
} kNames[] =
#if defined(_WIN32)
    {{13, "nvrtc64_130_0.dll"}, {12, "nvrtc64_120_0.dll"}};
#else
    {{13, "libnvrtc.so.13"},
     {12, "libnvrtc.so.12"},
     {13, "/usr/local/cuda/lib64/libnvrtc.so.13"},
     {13, "/usr/local/cuda-13/lib64/libnvrtc.so.13"},
     {12, "/usr/local/cuda/lib64/libnvrtc.so.12"},
     {12, "/usr/local/cuda-12/lib64/libnvrtc.so.12"},
     {0, "libnvrtc.so"},
     {0, "/usr/local/cuda/lib64/libnvrtc.so"}};
#endif

/// The major version, from a number of cuDriverGetVersion.
uint32_t major_of(uint32_t driver) {
  return driver / 1000;
}

Status missing(const std::string& why, const Purpose& purpose) {
  const std::string text =
      "compiling for CUDA needs NVRTC, " + why +
      "; install NVRTC 12 or 13 (cuda-nvrtc-13-0 or cuda-nvrtc-12-8 of NVIDIA's package repository "
      "for Debian, nvidia-cuda-nvrtc or nvidia-cuda-nvrtc-cu12 of PyPI, whose library is named "
      "with --nvrtc PATH), ";
  if (purpose.driver == 0)
    return unsupported(text + "or compile for Vulkan alone: --targets vulkan");
  return unsupported(
      text +
      "use another device (--device vulkan), or run a package, which needs no NVRTC: "
      "reprise compile MODEL.onnx -o MODEL.rpk --targets cuda:sm_" +
      std::to_string(purpose.archs.empty() ? 80 : purpose.archs[0].number) +
      " on a machine that has it");
}

/// The error if no library that was found compiles for all architectures.
Status lacking(const std::vector<std::string>& lacks, bool several) {
  std::string text;
  for (const std::string& l : lacks) text += (text.empty() ? "" : "; ") + l;
  if (lacks.size() > 1) text += "; name another with --nvrtc PATH";
  if (several) text += "; or compile for fewer architectures at once";
  return unsupported(text);
}

}  // namespace

std::vector<std::string> Library::names(uint32_t driver) {
  std::vector<std::string> fitting, newer;
  for (const auto& n : kNames) {
    const bool fits = driver == 0 || n.major <= major_of(driver);
    (fits && n.major != 0 ? fitting : newer).emplace_back(n.name);
  }
  fitting.insert(fitting.end(), newer.begin(), newer.end());
  return fitting;
}

Result<std::shared_ptr<const Library>> Library::open(const std::string& path,
                                                     const Purpose& purpose) {
  std::string wrong = "which is not on this machine (libnvrtc.so.13 or .12)";
  std::vector<std::string> tried, lacks;
  if (path.empty()) {
    tried = names(purpose.driver);
  } else {
    tried.push_back(path);
  }
  for (const std::string& name : tried) {
    const auto opened = platform::Library::open(name);
    if (!opened && !path.empty()) wrong = "and '" + path + "' cannot be loaded: " + opened.error();
    if (!opened) continue;
    auto library = std::make_shared<Library>();
    const std::string unfit = library->load(opened, name);
    if (!unfit.empty()) {
      wrong = "and " + unfit;
      continue;
    }
    const std::string lack = library->lacks(purpose.archs);
    if (lack.empty()) return std::shared_ptr<const Library>(std::move(library));
    // A library may be found under several names.
    if (std::find(lacks.begin(), lacks.end(), lack) == lacks.end()) lacks.push_back(lack);
  }
  return lacks.empty() ? missing(wrong, purpose) : lacking(lacks, purpose.archs.size() > 1);
}

std::string Library::caveat(uint32_t driver) const {
  if (driver == 0 || major_ <= major_of(driver)) return {};
  const std::string major = std::to_string(major_of(driver));
  return "NVRTC " + version_ + " is newer than the driver, which is of CUDA " + major + "." +
         std::to_string(driver % 1000 / 10) +
         " and may refuse what this one compiles; if it does, update the driver, or name an "
         "NVRTC " +
         major + " with --nvrtc PATH (PyPI's nvidia-cuda-nvrtc-cu" + major + ")";
}

std::string Library::load(const platform::Library& from, const std::string& name) {
  std::string absent;
  const auto find = [&](auto& function, const char* symbol) {
    function = from.function<std::decay_t<decltype(function)>>(symbol);
    if (function == nullptr && absent.empty()) absent = symbol;
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
  if (!absent.empty()) return "'" + name + "' has no function " + absent;
  return read_facts(name);
}

std::string Library::read_facts(const std::string& name) {
  int major = 0, minor = 0, count = 0;
  if (f_.version(&major, &minor) != 0) return "'" + name + "' has no version";
  major_ = static_cast<uint32_t>(major);
  version_ = std::to_string(major) + "." + std::to_string(minor);
  if (major < kLeastMajor) return "'" + name + "' is of version " + version_;
  if (major == 12 && minor == 0) most_parameters_ = 4096;
  if (f_.arch_count(&count) != 0 || count < 1 || count > 1000)
    return "'" + name + "' lists no architectures";
  archs_.resize(static_cast<size_t>(count));
  if (f_.archs(archs_.data()) != 0) return "'" + name + "' lists no architectures";
  return {};
}

bool Library::knows(const CudaArch& arch) const {
  return std::find(archs_.begin(), archs_.end(), static_cast<int>(arch.number)) != archs_.end();
}

std::string Library::lacks(const std::vector<CudaArch>& archs) const {
  std::string unknown, known;
  for (const CudaArch& arch : archs) {
    if (!knows(arch)) unknown += (unknown.empty() ? "" : ", ") + arch.str();
  }
  if (unknown.empty()) return {};
  for (const int a : archs_) known += (known.empty() ? "sm_" : ", sm_") + std::to_string(a);
  return "NVRTC " + version_ + " does not compile for " + unknown + "; it knows " + known;
}

}  // namespace reprise::nvrtc
