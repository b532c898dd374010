// Files of a cache on disk. Readers see a file completely or not at all, only this user can read
// and write them, and the size of a folder is bounded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runtime/platform/file.h"

namespace reprise {

using platform::File;

/// Opens a cache file for reading. Returns null if there is none or if it cannot be trusted. In the
/// second case `wrong` says why: it is not a regular file, belongs to another user, or others may
/// write to it or exchange it.
File open_cache_file(const std::filesystem::path& path, std::string& wrong);

/// Writes the parts one after another to a file beside `path` and renames it. Readers see the old
/// file or the new one, even if several processes write. Creates the folder. Returns false if it
/// fails; `path` is unchanged then.
bool write_cache_file(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

/// Removes the least recently written or touched files with that suffix until the remaining ones
/// take at most `limit` bytes. Also removes partial files that dead processes left behind. Never
/// removes `keep`.
void bound_cache_folder(const std::filesystem::path& dir, std::string_view suffix, uint64_t limit,
                        const std::filesystem::path& keep = {});

}  // namespace reprise
