#include "backends/vulkan/pipeline_cache.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "runtime/package/package.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/path.h"

namespace reprise::vulkan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic{'R', 'P', 'V', 'K', 'C', '0', '0', '2'};
constexpr const char* kSuffix = ".vkcache";

struct Header {
  std::array<char, 8> magic = kMagic;
  std::array<uint8_t, 16> device_uuid{};
  uint32_t driver_version = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Header) == 48);

void log_message(const Log& log, const std::string& message) {
  if (log) log(Severity::Warning, message);
}

// Drivers have crashed on data of other drivers, so the driver's own header is checked first.
bool is_drivers_own(std::span<const std::byte> data, const CacheKey& key) {
  VkPipelineCacheHeaderVersionOne h{};
  if (data.size() < sizeof(h)) return false;
  std::memcpy(&h, data.data(), sizeof(h));
  return h.headerSize >= sizeof(h) && h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         h.vendorID == key.vendor && h.deviceID == key.device &&
         std::memcmp(h.pipelineCacheUUID, key.pipeline_cache_uuid.data(), VK_UUID_SIZE) == 0;
}

// Returns what is wrong with the file; empty if nothing is.
std::string read_file(std::FILE* f, const CacheKey& key, std::vector<std::byte>& out) {
  Header h;
  if (std::fread(&h, sizeof(h), 1, f) != 1 || h.magic != kMagic) return "no header";
  if (h.device_uuid != key.device_uuid || h.driver_version != key.driver_version)
    return "it belongs to another device";
  if (h.bytes > kMaxCacheFileBytes) return "its size is implausible";
  out.resize(h.bytes);
  if (std::fread(out.data(), 1, out.size(), f) != out.size()) return "it is truncated";
  if (package::hash_bytes(out) != h.hash) return "its checksum does not match";
  if (!is_drivers_own(out, key)) return "the driver's header in it is that of another device";
  return {};
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
  const fs::path path = utf8_path(dir) / key.file_name();
  std::string wrong;
  const File f = open_cache_file(path, wrong);
  if (!f && wrong.empty()) return {};
  std::vector<std::byte> data;
  if (f) wrong = read_file(f.get(), key, data);
  if (wrong.empty()) return data;
  log_message(log, "pipeline cache " + utf8_text(path) + " is ignored: " + wrong);
  return {};
}

void save_cache(const std::string& dir, const CacheKey& key, std::span<const std::byte> bytes,
                const Log& log) {
  const fs::path path = utf8_path(dir) / key.file_name();
  if (bytes.size() > kMaxCacheFileBytes) {
    log_message(log, "pipeline cache of " + std::to_string(bytes.size()) +
                         " bytes exceeds the limit of " + std::to_string(kMaxCacheFileBytes) +
                         " and is not kept");
    return;
  }
  Header h;
  h.device_uuid = key.device_uuid;
  h.driver_version = key.driver_version;
  h.bytes = bytes.size();
  h.hash = package::hash_bytes(bytes);
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(&h, 1)), bytes};
  if (!write_cache_file(path, parts)) {
    log_message(log, "pipeline cache " + utf8_text(path) + " could not be written");
    return;
  }
  bound_cache_folder(path.parent_path(), kSuffix, kMaxCacheFolderBytes, path);
}

}  // namespace reprise::vulkan
