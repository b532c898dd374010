#include "backends/vulkan/pipeline_cache.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

#include "runtime/package/package.h"

namespace reprise::vulkan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic{'R', 'P', 'V', 'K', 'C', '0', '0', '1'};
constexpr const char* kSuffix = ".vkcache";
constexpr const char* kPartSuffix = ".part";
constexpr std::chrono::hours kPartLifetime{1};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::array<uint8_t, 16> device_uuid{};
  uint32_t driver_version = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Header) == 48);

struct FileCloser {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

void say(const Log& log, const std::string& message) {
  if (log) log(message);
}

// Drivers have crashed on foreign data, so their own header is checked before they see it.
bool is_drivers_own(std::span<const std::byte> data, const CacheKey& key) {
  VkPipelineCacheHeaderVersionOne h{};
  if (data.size() < sizeof(h)) return false;
  std::memcpy(&h, data.data(), sizeof(h));
  return h.headerSize >= sizeof(h) && h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         h.vendorID == key.vendor && h.deviceID == key.device &&
         std::memcmp(h.pipelineCacheUUID, key.pipeline_cache_uuid.data(), VK_UUID_SIZE) == 0;
}

// Empty when the file is sound; else what is wrong with it.
std::string read_file(std::FILE* f, const CacheKey& key, std::vector<std::byte>& out) {
  Header h;
  if (std::fread(&h, sizeof(h), 1, f) != 1 || h.magic != kMagic) return "no header";
  if (h.device_uuid != key.device_uuid || h.driver_version != key.driver_version)
    return "it is another device's";
  if (h.bytes > kMaxCacheFileBytes) return "its size is implausible";
  out.resize(h.bytes);
  if (std::fread(out.data(), 1, out.size(), f) != out.size()) return "it is truncated";
  if (package::hash_bytes(out) != h.hash) return "its checksum does not match";
  if (!is_drivers_own(out, key)) return "the driver's header in it is another device's";
  return {};
}

void bound_folder(const fs::path& dir, const fs::path& keep) {
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
    if (!part && it->path().extension() != kSuffix) continue;
    std::error_code gone;  // another process may tidy up as well
    const auto time = it->last_write_time(gone);
    const uint64_t bytes = gone ? 0 : it->file_size(gone);
    if (gone) continue;
    if (part) {  // of a process that died while it wrote
      if (now - time > kPartLifetime) fs::remove(it->path(), gone);
      continue;
    }
    entries.push_back({time, bytes, it->path()});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& e : entries) {
    if (total <= kMaxCacheFolderBytes) return;
    if (e.path == keep) continue;
    fs::remove(e.path, ec);
    total -= e.bytes;
  }
}

bool write_file(const fs::path& path, const Header& h, std::span<const std::byte> bytes) {
  const File f(std::fopen(path.c_str(), "wb"));
  return f && std::fwrite(&h, sizeof(h), 1, f.get()) == 1 &&
         std::fwrite(bytes.data(), 1, bytes.size(), f.get()) == bytes.size() &&
         std::fflush(f.get()) == 0;
}

}  // namespace

std::string CacheKey::file_name() const {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string s = "vulkan-";
  for (const uint8_t b : device_uuid) {
    s += kHex[b >> 4];
    s += kHex[b & 15];
  }
  s += '-';
  for (int shift = 28; shift >= 0; shift -= 4) s += kHex[driver_version >> shift & 15];
  return s + kSuffix;
}

std::vector<std::byte> load_cache(const std::string& dir, const CacheKey& key, const Log& log) {
  const fs::path path = fs::path(dir) / key.file_name();
  const File f(std::fopen(path.c_str(), "rb"));
  if (!f) return {};
  std::vector<std::byte> data;
  const std::string wrong = read_file(f.get(), key, data);
  if (wrong.empty()) return data;
  say(log, "pipeline cache " + path.string() + " is ignored: " + wrong);
  return {};
}

void save_cache(const std::string& dir, const CacheKey& key, std::span<const std::byte> bytes,
                const Log& log) {
  const fs::path path = fs::path(dir) / key.file_name();
  if (bytes.size() > kMaxCacheFileBytes) {
    say(log, "pipeline cache of " + std::to_string(bytes.size()) + " bytes is over the limit of " +
                 std::to_string(kMaxCacheFileBytes) + " and is not kept");
    return;
  }
  std::error_code ec;
  fs::create_directories(dir, ec);
  // Several processes and threads may write at once: each has a file of its own until the rename.
  static std::atomic<uint32_t> serial = 0;
  const fs::path part = path.string() + "." + std::to_string(std::random_device{}()) + "." +
                        std::to_string(++serial) + kPartSuffix;
  Header h;
  h.device_uuid = key.device_uuid;
  h.driver_version = key.driver_version;
  h.bytes = bytes.size();
  h.hash = package::hash_bytes(bytes);
  bool ok = write_file(part, h, bytes);
  if (ok) {
    fs::rename(part, path, ec);
    ok = !ec;
  }
  if (!ok) {
    fs::remove(part, ec);
    say(log, "pipeline cache " + path.string() + " could not be written");
    return;
  }
  bound_folder(dir, path);
}

}  // namespace reprise::vulkan
