#include "runtime/package/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <filesystem>

namespace reprise::package {
namespace {

// Follows symbolic links to the file that they refer to, which need not exist.
std::string follow_links(std::string path) {
  constexpr int kMostLinks = 40;
  namespace fs = std::filesystem;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = (fs::path(path).parent_path() / target).string();  // just `target` if it is absolute
  }
  return path;
}

}  // namespace

WithoutSigpipe::WithoutSigpipe() {
  ::sigemptyset(&pipe_);
  ::sigaddset(&pipe_, SIGPIPE);
  sigset_t pending{};
  ::sigpending(&pending);
  was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

WithoutSigpipe::~WithoutSigpipe() {
  const int error = errno;
  const timespec now{};
  while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

OutputFile::OutputFile(const std::string& path) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return;
  }
  if (!exists && errno != ENOENT) return;
  target_ = follow_links(path);
  create_beside_target();
  if (fd_ < 0 || !exists) return;
  const bool same_owner = ::fchown(fd_, old.st_uid, old.st_gid) == 0;
  ::fchmod(fd_, old.st_mode & (same_owner ? 07777U : 0777U));
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!kept_ && !target_.empty()) ::unlink(temporary_.c_str());
}

// The new file is beside the target, so that rename() stays within one file system.
void OutputFile::create_beside_target() {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = target_ + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
}

bool OutputFile::write(const void* data, uint64_t size) {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    size -= static_cast<uint64_t>(n);
    written_ += static_cast<uint64_t>(n);
  }
  return true;
}

bool OutputFile::pad_to(uint64_t offset) {
  static constexpr std::array<char, 4096> kZeros{};
  while (written_ < offset) {
    if (!write(kZeros.data(), std::min<uint64_t>(kZeros.size(), offset - written_))) return false;
  }
  return true;
}

bool OutputFile::finish() {
  if (target_.empty()) return true;
  kept_ = ::fsync(fd_) == 0 && ::rename(temporary_.c_str(), target_.c_str()) == 0;
  return kept_;
}

}  // namespace reprise::package
