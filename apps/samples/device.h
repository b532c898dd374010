// How sample applications open devices.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "apps/samples/path.h"
#include "reprise/reprise.hpp"

namespace samples {

/// Asks for the Vulkan validation layers if it is `on`; writes and counts their messages.
struct Validation {
  bool on = false;
  int complaints = 0;

  static void log(void* user, reprise_severity, const char* message) {
    ++static_cast<Validation*>(user)->complaints;
    std::fprintf(stderr, "device: %s\n", message);
  }
};

/// The folder that keeps the driver's compiled kernels; empty if there is no place for it.
inline std::string cache_folder() {
  // A relative path would depend on the folder in which the program is started.
  const auto below = [](const char* variable, const char* folder) {
    const char* const path = std::getenv(variable);
    return path && utf8_path(path).is_absolute() ? path + std::string(folder) : std::string();
  };
  std::string found = below("XDG_CACHE_HOME", "/reprise");
  if (found.empty()) found = below("LOCALAPPDATA", "/reprise");
  return found.empty() ? below("HOME", "/.cache/reprise") : found;
}

/// Opens a device for a package, and names it if it is one that the library chose. `validation`
/// must outlive the device.
inline reprise::Result<reprise::Device> open_device(const std::string& id,
                                                    const reprise::Package& package,
                                                    Validation& validation) {
  const std::string cache = cache_folder();
  reprise_device_options options = REPRISE_DEVICE_OPTIONS_INIT;
  options.cache_dir = cache.empty() ? nullptr : cache.c_str();
  options.package = package.get();
  options.validation = validation.on ? 1 : 0;
  if (validation.on) options.log = Validation::log;
  options.log_user = &validation;
  reprise::Result<reprise::Device> device = reprise::Device::open(id, &options);
  if (device && id == "auto") {
    const reprise_device_info info = device->info();
    std::fprintf(stderr, "note: auto: %s, %s\n", info.id, info.name);
  }
  return device;
}

}  // namespace samples
