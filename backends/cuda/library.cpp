#include "backends/cuda/library.h"

#include "runtime/platform/process.h"

namespace reprise::cuda {
namespace {

constexpr const char* kUpdate = "update the NVIDIA driver (CUDA 12.0 or later, driver 525)";

Status absent(const std::string& why) {
  return {Code::Device, why};
}

// Advice about an error that the driver returns when it is initialised.
std::string advice(CUresult error) {
  switch (error) {
    case CUDA_ERROR_NO_DEVICE:
      return "no NVIDIA GPU was found; check whether nvidia-smi lists one, whether "
             "CUDA_VISIBLE_DEVICES hides it, and whether the container has access to it";
    case CUDA_ERROR_STUB_LIBRARY:
      return "the library is the toolkit's stub instead of the driver; remove the folder 'stubs' "
             "from LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "the driver's library and its kernel module have different versions; restart the "
             "machine, or install matching ones";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "the system is not ready; start NVIDIA's fabric manager, or wait for it";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "this GPU does not support the compatibility library that was found; remove it from "
             "LD_LIBRARY_PATH, or update the NVIDIA driver";
    default:
      return "check whether nvidia-smi works and whether the kernel module nvidia_uvm is loaded";
  }
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Library::describe(CUresult error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  const bool known = fn_.cuGetErrorName && fn_.cuGetErrorString;  // null in an incomplete library
  const bool named = known && fn_.cuGetErrorName(error, &name) == CUDA_SUCCESS && name != nullptr;
  std::string s = named ? name : "CUDA error " + std::to_string(static_cast<int>(error));
  if (known && fn_.cuGetErrorString(error, &text) == CUDA_SUCCESS && text != nullptr && s != text)
    s += std::string(" (") + text + ")";
  return s;
}

Status Library::check_version(const std::string& name) {
  const CUresult r = fn_.cuDriverGetVersion(&version_);
  if (r == CUDA_ERROR_STUB_LIBRARY) return absent(name + ": " + advice(r));
  if (r != CUDA_SUCCESS)
    return absent(name + " does not report its version: " + describe(r) + "; " + advice(r));
  if (version_ >= kLeastDriver) return {};
  return absent("the NVIDIA driver is too old: it supports CUDA " + version_text(version_) +
                ", at least " + version_text(kLeastDriver) + " is needed; " + kUpdate);
}

// Checks the version first, because it explains best why an old driver lacks symbols.
Status Library::resolve(const platform::Library& from, const std::string& name) {
  std::string missing;
#define REPRISE_CUDA_FIND(symbol, parameters) \
  fn_.symbol = from.function<decltype(fn_.symbol)>(#symbol);
#define REPRISE_CUDA_REQUIRE(symbol, parameters) \
  REPRISE_CUDA_FIND(symbol, parameters)          \
  if (!fn_.symbol && missing.empty()) missing = #symbol;
  REPRISE_CUDA_SYMBOLS(REPRISE_CUDA_REQUIRE)
  REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_CUDA_FIND)
#undef REPRISE_CUDA_REQUIRE
#undef REPRISE_CUDA_FIND
  if (!fn_.cuDriverGetVersion)
    return absent(name + " is not a CUDA driver: it lacks cuDriverGetVersion; " + kUpdate);
  RP_TRY(check_version(name));
  if (missing.empty()) return {};
  return absent("the NVIDIA driver is too old or incomplete: " + name + " lacks " + missing + "; " +
                kUpdate);
}

Status Library::initialise() const {
  const CUresult r = fn_.cuInit(0);
  if (r == CUDA_SUCCESS) return {};
  return absent("cuInit: " + describe(r) + ": " + advice(r));
}

Result<std::shared_ptr<const Library>> Library::open(const std::string& name,
                                                     const TableHook& hook) {
  const auto opened = platform::Library::open(name);
  if (!opened) {
    RP_TRY(platform::check_open_files());
    return absent("the driver library " + name + " cannot be loaded (" + opened.error() +
                  "); for an NVIDIA GPU install NVIDIA's driver, in a container also "
                  "nvidia-container-toolkit");
  }
  auto library = std::make_shared<Library>();
  RP_TRY(library->resolve(opened, name));
  if (hook) hook(library->fn_);
  RP_TRY(library->initialise());
  return Result<std::shared_ptr<const Library>>(std::move(library));
}

}  // namespace reprise::cuda
