// What images were compiled from: a driver has no use for it, this one executes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace reprise::standin {

/// Texts by the hash of their images. Has a lock of its own.
class Texts {
 public:
  void keep(std::span<const std::byte> image, std::string text);
  /// What was kept, or the file HASH.cu of the folder.
  std::optional<std::string> find(std::span<const std::byte> image,
                                  const std::string& folder) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::string> kept_;
};

}  // namespace reprise::standin
