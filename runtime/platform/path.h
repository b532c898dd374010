// Paths of the standard library. Text of ours is UTF-8, but on Windows the standard library takes
// the chars of a path to be in the code page of the process, and may throw for those that are not.
#pragma once

#include <filesystem>
#include <string>

namespace reprise {

std::filesystem::path utf8_path(const std::string& text);
std::string utf8_text(const std::filesystem::path& path);

}  // namespace reprise
