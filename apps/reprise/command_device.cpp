// The device of a command.
#include <atomic>
#include <cstdio>

#include "apps/reprise/command.h"
#include "codegen/nvrtc/library.h"

namespace reprise::app {
namespace {

std::atomic<int> g_validation_errors{0};

}  // namespace

// An unreadable model refuses no device; loading it reports the error.
std::string refusal(const DeviceInfo& device, const std::vector<std::string>& models,
                    const std::string& nvrtc) {
  for (const std::string& path : models) {
    if (path.ends_with(".rpk")) {
      const auto package = package::read(path);
      const std::string reason = package.ok() ? why_unfit(**package, device.facts) : std::string();
      if (!reason.empty()) return std::string(path).append(": ").append(reason);
    } else if (device.facts.api == Api::Cuda) {
      const auto library =
          nvrtc::Library::open(nvrtc, {{{false, device.facts.cuda_arch}}, device.driver_version});
      if (!library.ok()) return library.status().message();
    }
  }
  return {};
}

Result<OpenedDevice> open_selected(const CommonOptions& options,
                                   const std::vector<std::string>& models) {
  return open_selected_if(options,
                          [&](const DeviceInfo& d) { return refusal(d, models, options.nvrtc); });
}

Result<OpenedDevice> open_selected_if(const CommonOptions& options, const Refusal& refuses) {
  BackendOptions backend = default_backend_options();
  backend.validation = options.validation;
  RP_ASSIGN(backend.hidden, parse_hidden(options.without));
  const bool validation = options.validation;
  const bool verbose = options.verbose;
  backend.log = [validation, verbose](Severity, const std::string& message) {
    if (validation) ++g_validation_errors;
    if (validation || verbose) std::fprintf(stderr, "device: %s\n", message.c_str());
  };
  RP_ASSIGN(OpenedDevice device, open_named_device(options.device, backend, refuses));
  if (options.verbose) note("device " + device.info.id + ": " + device.info.name);
  return device;
}

int validation_errors() {
  return g_validation_errors;
}

}  // namespace reprise::app
