#include "tests/cuda_standin/driver/texts.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/package/package.h"

namespace reprise::standin {

void Texts::keep(std::span<const std::byte> image, std::string text) {
  const std::lock_guard lock(mutex_);
  kept_[package::hash_bytes(image)] = std::move(text);
}

std::optional<std::string> Texts::find(std::span<const std::byte> image,
                                       const std::string& folder) const {
  const uint64_t hash = package::hash_bytes(image);
  {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.find(hash);
    if (kept != kept_.end()) return kept->second;
  }
  if (folder.empty()) return {};
  std::array<char, 24> name{};
  std::snprintf(name.data(), name.size(), "%016llx.cu", static_cast<unsigned long long>(hash));
  std::ifstream in(std::filesystem::path(folder) / name.data(), std::ios::binary);
  if (!in) return {};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace reprise::standin
