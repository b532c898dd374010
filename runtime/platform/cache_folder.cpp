#include "runtime/platform/cache_folder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <system_error>
#include <vector>

#include "runtime/platform/path.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartSuffix = ".part";
constexpr std::chrono::hours kPartLifetime{1};

bool write_parts(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const File f = platform::create_own_file(path);
  if (!f) return false;
  for (const auto& part : parts)
    if (std::fwrite(part.data(), 1, part.size(), f.get()) != part.size()) return false;
  return std::fflush(f.get()) == 0;
}

}  // namespace

File open_cache_file(const fs::path& path, std::string& wrong) {
  return platform::open_own_file(utf8_text(path), wrong);
}

bool write_cache_file(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  std::error_code ec;
  if (!platform::create_own_folder(utf8_text(path.parent_path()))) return false;
  // Several processes and threads may write at once, so each writes its own file and renames it.
  static std::atomic<uint32_t> serial = 0;
  fs::path part = path;
  part += "." + std::to_string(std::random_device{}()) + "." + std::to_string(++serial);
  part += kPartSuffix;
  bool ok = write_parts(utf8_text(part), parts);
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
