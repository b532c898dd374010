#include "runtime/base/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <system_error>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartSuffix = ".part";
constexpr std::chrono::hours kPartLifetime{1};

bool write_parts(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  const File f(std::fopen(path.c_str(), "wbx"));
  if (!f) return false;
  for (const auto& part : parts)
    if (std::fwrite(part.data(), 1, part.size(), f.get()) != part.size()) return false;
  return std::fflush(f.get()) == 0;
}

// Why a file cannot be trusted. In a folder that everyone may write to, other users could leave
// files for us, and drivers execute their contents.
std::string why_distrusted(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  const uid_t me = ::geteuid();
  if (info.st_uid != me && info.st_uid != 0) {
    return "it belongs to user " + std::to_string(info.st_uid) + ", not to user " +
           std::to_string(me) + ", who would use it";
  }
  if ((info.st_mode & S_IWOTH) != 0) return "everyone may write to it";
  return {};
}

}  // namespace

// O_NONBLOCK avoids waiting for the writer of a pipe. The checks apply to the opened file, because
// the path may refer to another file by now.
File open_cache_file(const fs::path& path, std::string& wrong) {
  wrong.clear();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ELOOP) wrong = "it is a symbolic link";
    return nullptr;
  }
  struct stat info {};
  wrong = ::fstat(fd, &info) == 0 ? why_distrusted(info) : "it cannot be read";
  File file(wrong.empty() ? ::fdopen(fd, "rb") : nullptr);
  if (!file) ::close(fd);
  return file;
}

bool write_cache_file(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  std::error_code ec;
  fs::create_directories(path.parent_path(), ec);
  // Several processes and threads may write at once, so each writes its own file and renames it.
  static std::atomic<uint32_t> serial = 0;
  fs::path part = path;
  part += "." + std::to_string(std::random_device{}()) + "." + std::to_string(++serial);
  part += kPartSuffix;
  bool ok = write_parts(part, parts);
  if (ok) {
    fs::rename(part, path, ec);
    ok = !ec;
  }
  if (!ok) fs::remove(part, ec);
  return ok;
}

void bound_cache_folder(const fs::path& dir, std::string_view suffix, uint64_t limit,
                        const fs::path& keep) {
  struct Entry {
    fs::file_time_type time;
    uint64_t bytes;
    fs::path path;
  };
  const auto now = fs::file_time_type::clock::now();
  std::vector<Entry> entries;
  std::error_code ec;
  uint64_t total = 0;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
    const bool part = it->path().extension() == kPartSuffix;
    if (!part && it->path().extension() != suffix) continue;
    std::error_code gone;  // ignored: another process may remove files as well
    const auto time = it->last_write_time(gone);
    const uint64_t bytes = gone ? 0 : it->file_size(gone);
    if (gone) continue;
    if (part) {
      if (now - time > kPartLifetime) fs::remove(it->path(), gone);
      continue;
    }
    entries.push_back({time, bytes, it->path()});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& e : entries) {
    if (total <= limit) return;
    if (e.path == keep) continue;
    fs::remove(e.path, ec);
    total -= e.bytes;
  }
}

}  // namespace reprise
