#include "apps/common/devices.h"

#include <cstdlib>

#include "apps/common/status.h"

namespace reprise::app {

Result<OpenedDevice> open_named_device(const std::string& id, const BackendOptions& options) {
  RP_ASSIGN(OpenedDevice device, open_device(id, options));
  if (!device.note.empty()) note(device.note);
  return device;
}

BackendOptions default_backend_options() {
  BackendOptions options;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (xdg && *xdg) {
    options.cache_dir = std::string(xdg) + "/reprise";
  } else if (home && *home) {
    options.cache_dir = std::string(home) + "/.cache/reprise";
  }
  return options;
}

std::string cuda_cache_dir() {
  const std::string folder = default_backend_options().cache_dir;
  return folder.empty() ? folder : folder + "/cuda";
}

}  // namespace reprise::app
