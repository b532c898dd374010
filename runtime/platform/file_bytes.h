// Memory with the contents of files, which can be read again instead of being kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "runtime/platform/file.h"

namespace reprise::platform {

class FileBytes {
 public:
  struct Place {
    std::shared_ptr<const InputFile> file;
    uint64_t offset = 0;
  };
  /// The memory has the bytes of the file from `offset` on.
  void add(Place place, std::span<const std::byte> memory, std::shared_ptr<const void> owner) {
    if (memory.empty()) return;
    known_.insert_or_assign(memory.data(),
                            Range{std::move(place), memory.size(), std::move(owner)});
  }
  /// Where a file has these bytes, if they are in memory that was added.
  std::optional<Place> find(std::span<const std::byte> bytes) const {
    auto at = known_.upper_bound(bytes.data());
    if (at == known_.begin() || bytes.empty()) return std::nullopt;
    --at;
    const auto begin = static_cast<uint64_t>(bytes.data() - at->first);
    const Range& range = at->second;
    if (begin > range.size || bytes.size() > range.size - begin) return std::nullopt;
    return Place{range.place.file, range.place.offset + begin};
  }

 private:
  struct Range {
    Place place;
    uint64_t size = 0;
    std::shared_ptr<const void> owner;  // so that nothing else is at this address
  };
  std::map<const std::byte*, Range> known_;
};

}  // namespace reprise::platform
