#include "runtime/base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace reprise {

Status check_descriptors() {
  const int fd = ::open("/", O_RDONLY | O_CLOEXEC);
  const bool none = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) ::close(fd);
  if (!none) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return {Code::Device, "no file descriptor is left; close files, or raise the limit of " +
                            std::to_string(limit.rlim_cur) + " open files (ulimit -n)"};
}

}  // namespace reprise
