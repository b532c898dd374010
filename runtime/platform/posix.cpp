// Linux, Android, macOS and other systems with POSIX.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "runtime/platform/file.h"
#include "runtime/platform/library.h"
#include "runtime/platform/output_file.h"
#include "runtime/platform/partial_file.h"
#include "runtime/platform/path.h"
#include "runtime/platform/process.h"

namespace reprise::platform {
namespace {

namespace fs = std::filesystem;

Status failure(const std::string& what) {
  return {Code::Io, what + ": " + error_text(errno)};
}

// Why a file cannot be trusted. In a folder that others may write to, other users could leave files
// for us, and drivers execute their contents.
std::string why_distrusted(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  const uid_t me = ::geteuid();
  if (info.st_uid != me && info.st_uid != 0) {
    return "it belongs to user " + std::to_string(info.st_uid) + ", not to user " +
           std::to_string(me) + ", who would use it";
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others than its owner may write to it";
  return {};
}

// In such a folder, other users could exchange our files for each other.
bool is_open_to_all(const struct stat& folder) {
  return (folder.st_mode & S_IWOTH) != 0 && (folder.st_mode & S_ISVTX) == 0;
}

// Follows symbolic links to the file that they refer to, which need not exist.
std::string follow_links(std::string path) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = (fs::path(path).parent_path() / target).string();  // just `target` if it is absolute
  }
  return path;
}

}  // namespace

// O_NONBLOCK: opening a pipe must not wait for a writer.
Result<InputFile> InputFile::open(const std::string& path) {
  InputFile out;
  out.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out.file_ < 0) return failure("cannot be opened");
  RP_TRY(out.inspect());
  return out;
}

Result<InputFile> InputFile::part_of(NativeFile file, uint64_t offset, uint64_t length) {
  InputFile out;
  const bool sane = file >= 0 && file <= std::numeric_limits<int>::max();
  if (!sane) return Status(Code::Usage, std::to_string(file) + " is not a file descriptor");
  out.file_ = ::fcntl(static_cast<int>(file), F_DUPFD_CLOEXEC, 0);
  if (out.file_ < 0) return failure("cannot be used");
  RP_TRY(out.inspect());
  RP_TRY(out.take(offset, length));
  return out;
}

void InputFile::close() {
  if (file_ >= 0) ::close(static_cast<int>(file_));
  file_ = -1;
}

Status InputFile::inspect() {
  struct stat info {};
  if (::fstat(static_cast<int>(file_), &info) != 0) return failure("cannot be read");
  if (!S_ISREG(info.st_mode)) return {Code::Io, "is not a regular file"};
  size_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Result<size_t> InputFile::read_some(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(static_cast<int>(file_), out.data() + done, out.size() - done,
                              static_cast<off_t>(begin_ + offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("cannot be read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<std::shared_ptr<const std::span<const std::byte>>> InputFile::map() const {
  using Bytes = std::span<const std::byte>;
  if (size_ == 0) return std::make_shared<const Bytes>();
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, static_cast<int>(file_), 0);
  if (data == MAP_FAILED) return failure("cannot be mapped");
  return std::shared_ptr<const Bytes>(
      new Bytes(static_cast<const std::byte*>(data), size_), [](const Bytes* bytes) {
        ::munmap(const_cast<std::byte*>(bytes->data()), bytes->size());
        delete bytes;
      });
}

File open_stream(const std::string& path, const char* mode) {
  return File(std::fopen(path.c_str(), mode));
}

// The checks apply to the opened folder and file, because the path may refer to others by now.
File open_own_file(const std::string& path, std::string& wrong) {
  wrong.clear();
  const fs::path parent = fs::path(path).parent_path();
  const int folder =
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (folder < 0) return nullptr;
  const int fd = ::openat(folder, fs::path(path).filename().c_str(),
                          O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const bool is_link = fd < 0 && errno == ELOOP;
  struct stat info {};
  const bool open_to_all = ::fstat(folder, &info) != 0 || is_open_to_all(info);
  ::close(folder);
  if (is_link) wrong = "it is a symbolic link";
  if (fd < 0) return nullptr;
  wrong = open_to_all               ? "every user may write to its folder"
          : ::fstat(fd, &info) == 0 ? why_distrusted(info)
                                    : "it cannot be read";
  File file(wrong.empty() ? ::fdopen(fd, "rb") : nullptr);
  if (!file) ::close(fd);
  return file;
}

File create_own_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  File file(fd >= 0 ? ::fdopen(fd, "wb") : nullptr);
  if (!file && fd >= 0) ::close(fd);
  return file;
}

bool create_own_folder(const std::string& path) {
  std::error_code error;
  const fs::path folder(path);
  if (folder.empty()) return true;
  const fs::path parent = folder.parent_path();
  if (!parent.empty() && parent != folder && !fs::is_directory(parent, error) &&
      !create_own_folder(parent.string()))
    return false;
  if (::mkdir(path.c_str(), 0700) == 0) return true;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && !is_open_to_all(info);
}

Result<std::string> create_temporary_folder() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "reprise-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) return failure("cannot create '" + name + "'");
  return name;
}

namespace {

/// What a handler of signals reads, so it has no pointers to memory that may be freed meanwhile.
struct NotedPath {
  std::atomic<int> state;
  std::array<char, 4096> path;
};
enum PathState : int { kUnused, kChanging, kNoted };
std::array<NotedPath, 16> g_noted_paths;

/// SA_RESETHAND: raising the signal again ends the process, as soon as this returns.
extern "C" void remove_noted_paths(int signal) {
  const int error = errno;
  for (NotedPath& noted : g_noted_paths) {
    int state = kNoted;
    if (noted.state.compare_exchange_strong(state, kChanging)) ::unlink(noted.path.data());
  }
  errno = error;
  ::raise(signal);
}

}  // namespace

void PartialFile::note(const std::string& path) {
  forget();
  if (path.size() >= g_noted_paths[0].path.size()) return;
  for (size_t i = 0; i < g_noted_paths.size() && slot_ < 0; ++i) {
    int state = kUnused;
    if (!g_noted_paths[i].state.compare_exchange_strong(state, kChanging)) continue;
    path.copy(g_noted_paths[i].path.data(), path.size());
    g_noted_paths[i].path[path.size()] = '\0';
    g_noted_paths[i].state = kNoted;
    slot_ = static_cast<int>(i);
  }
}

void PartialFile::forget() {
  int state = kNoted;
  if (slot_ >= 0)
    g_noted_paths[static_cast<size_t>(slot_)].state.compare_exchange_strong(state, kUnused);
  slot_ = -1;
}

void remove_partial_files_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXFSZ}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    now.sa_handler = signal == SIGXFSZ ? SIG_IGN : remove_noted_paths;
    now.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&now.sa_mask);
    ::sigaction(signal, &now, nullptr);
  }
}

namespace {

/// While an object of this class lives, writing to a pipe without a reader is an error instead of a
/// signal, for this thread.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigemptyset(&pipe_);  // a macro on some systems, like the other functions on sets
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = pending();
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    const int error = errno;
    int signal = 0;
    if (!was_pending_ && pending()) ::sigwait(&pipe_, &signal);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  static bool pending() {
    sigset_t signals{};
    ::sigpending(&signals);
    return sigismember(&signals, SIGPIPE) == 1;
  }
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

struct OutputFile::Impl {
  WithoutPipeSignal without_pipe_signal;
  std::string target;     // empty: the path is written in place
  std::string temporary;  // the new file
  PartialFile partial;
  int fd = -1;
  bool kept = false;
  int error = 0;

  // The new file is beside the target, so that rename() stays within one file system.
  void create_beside_target() {
    static std::atomic<unsigned> counter{0};
    for (int attempt = 0; attempt < 100 && fd < 0; ++attempt) {
      temporary = target + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
      fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd < 0 && errno != EEXIST) break;
    }
    if (fd >= 0) partial.note(temporary);
  }

  void open(const std::string& path) {
    if (path.empty()) {
      errno = ENOENT;
      return;
    }
    struct stat old {};
    const bool exists = ::stat(path.c_str(), &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
      fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      return;
    }
    if (!exists && errno != ENOENT) return;
    target = follow_links(path);
    create_beside_target();
    if (fd < 0 || !exists) return;
    const bool same_owner = ::fchown(fd, old.st_uid, old.st_gid) == 0;
    ::fchmod(fd, old.st_mode & (same_owner ? 07777U : 0777U));
  }
};

OutputFile::OutputFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->open(path);
  impl_->error = errno;
}

OutputFile::~OutputFile() {
  if (impl_->fd < 0) return;
  ::close(impl_->fd);
  if (!impl_->kept && !impl_->temporary.empty()) ::unlink(impl_->temporary.c_str());
}

bool OutputFile::open() const {
  return impl_->fd >= 0;
}

bool OutputFile::write(const void* data, uint64_t size) {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(impl_->fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      impl_->error = errno;
      return false;
    }
    p += n;
    size -= static_cast<uint64_t>(n);
    written_ += static_cast<uint64_t>(n);
  }
  return true;
}

bool OutputFile::finish() {
  if (impl_->target.empty()) return true;
  impl_->kept =
      ::fsync(impl_->fd) == 0 && ::rename(impl_->temporary.c_str(), impl_->target.c_str()) == 0;
  if (!impl_->kept) impl_->error = errno;
  return impl_->kept;
}

std::string OutputFile::error() const {
  return error_text(impl_->error);
}

Result<Descriptor> Descriptor::duplicate(uint64_t handle) {
  const int given = handle <= INT32_MAX ? static_cast<int>(handle) : -1;
  Descriptor out;
  out.descriptor_ = ::fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (out.descriptor_ >= 0) return out;
  return Status(Code::Usage, "the handle " + std::to_string(handle) +
                                 " is no file descriptor that can be used: " + error_text(errno));
}

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Library Library::open(const std::string& name) {
  Library out;
  out.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (out.handle_) return out;
  const char* why = ::dlerror();
  out.error_ = why ? why : "the system does not say why";
  return out;
}

void* Library::find(const char* symbol) const {
  return handle_ ? ::dlsym(handle_, symbol) : nullptr;
}

uint64_t process_id() {
  return static_cast<uint64_t>(::getpid());
}

void call_in_forked_child(void (*f)()) {
  ::pthread_atfork(nullptr, nullptr, f);
}

void stay_loaded() {}  // the linker's option -z nodelete

Status check_open_files() {
  const int fd = ::open("/", O_RDONLY | O_CLOEXEC);
  const bool none = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) ::close(fd);
  if (!none) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return {Code::Device, "no file descriptor is left; close files, or raise the limit of " +
                            std::to_string(limit.rlim_cur) + " open files (ulimit -n)"};
}

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) != 0;
}

}  // namespace reprise::platform

namespace reprise {

std::filesystem::path utf8_path(const std::string& text) {
  return text;
}

std::string utf8_text(const std::filesystem::path& path) {
  return path.string();
}

}  // namespace reprise
