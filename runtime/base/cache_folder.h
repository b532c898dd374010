// Files that a cache on disk keeps: whole or not at all, and not more than a bound.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

struct FileCloser {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

/// Opens a cache file for reading. Null if there is none, and if it is none to be trusted: `wrong`
/// says then that it is not a regular file, is another user's, or may be written by everyone.
File open_cache_file(const std::filesystem::path& path, std::string& wrong);

/// Writes the parts one after another to a file beside `path` and renames it: readers see the old
/// file or the new one, whoever else writes. The folder is made. False: nothing was changed.
bool write_cache_file(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

/// Removes the files with that suffix that were written or touched longest ago until the others
/// take no more than `limit` bytes, and what processes that died left half written. `keep` stays.
void bound_cache_folder(const std::filesystem::path& dir, std::string_view suffix, uint64_t limit,
                        const std::filesystem::path& keep = {});

}  // namespace reprise
