// What macOS and iOS have that POSIX has not.
#include <mach-o/dyld.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "runtime/platform/library.h"
#include "runtime/platform/process.h"

namespace reprise::platform {

std::string library_name(const std::string& name) {
  return "lib" + name + ".dylib";
}

std::string program_folder() {
  std::array<char, 4096> path{};
  auto size = static_cast<uint32_t>(path.size());
  if (::_NSGetExecutablePath(path.data(), &size) != 0) return {};
  const std::string_view name(path.data());
  return std::string(name.substr(0, name.rfind('/') + 1));
}

unsigned processors() {
  return std::max(std::thread::hardware_concurrency(), 1U);
}

void give_back_memory() {}

}  // namespace reprise::platform
