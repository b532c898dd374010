// The driver's pipeline cache on disk: one checksummed file per device and driver version, written
// atomically, bounded in size. Anything odd about a file means "no cache", never an error.
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
/// Of all cache files in the folder together; the oldest go first.
inline constexpr uint64_t kMaxCacheFolderBytes = uint64_t{256} << 20;

struct CacheKey {
  std::array<uint8_t, 16> device_uuid{};
  std::array<uint8_t, 16> pipeline_cache_uuid{};  // as the driver's own header has it
  uint32_t vendor = 0, device = 0, driver_version = 0;

  std::string file_name() const;
};

/// The driver's bytes, or nothing: no file, another device's or driver's, damaged (logged).
std::vector<std::byte> load_cache(const std::string& dir, const CacheKey& key, const Log& log);
/// Failures are logged. Readers see the old file or the new one, never a part.
void save_cache(const std::string& dir, const CacheKey& key, std::span<const std::byte> bytes,
                const Log& log);

}  // namespace reprise::vulkan
