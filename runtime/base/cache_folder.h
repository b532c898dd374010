// Files that a cache on disk keeps: whole or not at all, and not more than a bound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace reprise {

/// Writes the parts one after another to a file beside `path` and renames it: readers see the old
/// file or the new one, whoever else writes. The folder is made. False: nothing was changed.
bool write_cache_file(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

/// Removes the files with that suffix that were written or touched longest ago until the others
/// take no more than `limit` bytes, and what processes that died left half written. `keep` stays.
void bound_cache_folder(const std::filesystem::path& dir, std::string_view suffix, uint64_t limit,
                        const std::filesystem::path& keep = {});

}  // namespace reprise
