// What Linux and Android have that POSIX has not.
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "runtime/platform/library.h"
#include "runtime/platform/process.h"

namespace reprise::platform {

std::string library_name(const std::string& name) {
  return "lib" + name + ".so";
}

std::string program_folder() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view name(path.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return std::string(name.substr(0, name.rfind('/') + 1));
}

unsigned processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // The set is too small for machines of more than 1,024 processors.
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const unsigned all = std::thread::hardware_concurrency();
  return std::max(known ? static_cast<unsigned>(CPU_COUNT(&allowed)) : all, 1U);
}

void give_back_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace reprise::platform
