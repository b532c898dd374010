// The driver's pipeline cache on disk: one file with a checksum per device and driver version,
// written atomically and bounded in size. An unusable file counts as no cache and is not an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/instance.h"

namespace reprise::vulkan {

inline constexpr uint64_t kMaxCacheFileBytes = uint64_t{64} << 20;
/// The limit for all cache files in the folder together. The least recently used ones are removed.
inline constexpr uint64_t kMaxCacheFolderBytes = uint64_t{256} << 20;

struct CacheKey {
  std::array<uint8_t, 16> device_uuid{};
  std::array<uint8_t, 16> pipeline_cache_uuid{};  // as in the driver's own header
  uint32_t vendor = 0, device = 0, driver_version = 0;

  std::string file_name() const;
};

/// Returns the driver's bytes. Returns nothing if there is no file, if it belongs to another device
/// or driver, or if it is damaged, which is logged.
std::vector<std::byte> load_cache(const std::string& dir, const CacheKey& key, const Log& log);
/// Logs failures. Readers see either the old file or the new one, never a part.
void save_cache(const std::string& dir, const CacheKey& key, std::span<const std::byte> bytes,
                const Log& log);

}  // namespace reprise::vulkan
