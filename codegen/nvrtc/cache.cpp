#include "codegen/nvrtc/cache.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "runtime/package/package.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/path.h"

namespace reprise::nvrtc {
namespace {

namespace fs = std::filesystem;

/// The version of what happens to a text before and after NVRTC. Part of the key.
constexpr const char* kForm = "1 ";
constexpr const char* kSuffix = ".cudaimage";
constexpr const char* kSourceSuffix = ".cu";
constexpr uint64_t kMaxImageBytes = uint64_t{64} << 20;

struct Header {
  std::array<char, 8> magic{'R', 'P', 'C', 'U', 'D', '0', '0', '2'};
  std::array<char, 32> key{};
  plan::KernelCode::Usage usage;
  uint64_t bytes = 0;
  uint64_t image_hash = 0;
  uint64_t header_hash = 0;  // of all bytes before it

  uint64_t hash() const {
    return package::hash_bytes(
        std::as_bytes(std::span(this, 1)).first(offsetof(Header, header_hash)));
  }
};
static_assert(sizeof(Header) == 80 && sizeof(plan::KernelCode::Usage) == 16);

/// The fault of the file; empty if it is sound.
std::string read_image(std::FILE* f, const std::string& key, Image& out) {
  Header h;
  const Header expected;
  if (std::fread(&h, sizeof h, 1, f) != 1) return "it is truncated";
  if (h.magic != expected.magic || h.header_hash != h.hash()) return "its header is damaged";
  if (std::string_view(h.key.data(), h.key.size()) != key) return "it belongs to another kernel";
  if (h.bytes > kMaxImageBytes) return "its size is implausible";
  out.usage = h.usage;
  out.bytes.resize(h.bytes);
  if (std::fread(out.bytes.data(), 1, out.bytes.size(), f) != out.bytes.size())
    return "it is truncated";
  if (package::hash_bytes(out.bytes) != h.image_hash) return "its checksum does not match";
  return {};
}

void append_hex(std::string& out, uint64_t v) {
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[v >> shift & 15];
}

}  // namespace

ImageCache::ImageCache(std::string folder, uint64_t limit, Log log)
    : folder_(std::move(folder)), limit_(limit), log_(std::move(log)) {}

std::string ImageCache::key(const std::string& text, const std::vector<std::string>& options,
                            const std::string& version) {
  // Lengths delimit the parts. A second hash, of other bytes, makes 128 bits.
  std::string all = std::string(kForm) + version;
  const auto add = [&all](const std::string& part) {
    all += '\n' + std::to_string(part.size()) + ' ' + part;
  };
  for (const std::string& o : options) add(o);
  add(text);
  std::string out;
  append_hex(out, package::hash_bytes(std::as_bytes(std::span(all))));
  all += out;
  append_hex(out, package::hash_bytes(std::as_bytes(std::span(all))));
  return out;
}

std::string ImageCache::path(const std::string& key) const {
  return utf8_text(utf8_path(folder_) / (key + kSuffix));
}

std::optional<Image> ImageCache::find(const std::string& key) const {
  if (folder_.empty()) return {};
  const std::string file = path(key);
  Image image;
  std::string wrong;
  {
    const File f = open_cache_file(utf8_path(file), wrong);
    if (!f && wrong.empty()) return {};
    if (f) wrong = read_image(f.get(), key, image);
  }
  if (wrong.empty()) {
    std::error_code ignored;
    fs::last_write_time(utf8_path(file), fs::file_time_type::clock::now(), ignored);
    return image;
  }
  if (log_) log_("cached CUDA image " + file + " is ignored and compiled again: " + wrong);
  return {};
}

void ImageCache::put(const std::string& key, const Image& image) const {
  if (folder_.empty() || image.bytes.size() > kMaxImageBytes) return;
  Header h;
  std::memcpy(h.key.data(), key.data(), std::min(h.key.size(), key.size()));
  h.usage = image.usage;
  h.bytes = image.bytes.size();
  h.image_hash = package::hash_bytes(image.bytes);
  h.header_hash = h.hash();
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(&h, 1)),
                                                        std::span(image.bytes)};
  if (!write_cache_file(utf8_path(path(key)), parts) && log_)
    log_("CUDA image " + path(key) + " could not be written");
}

void ImageCache::put_source(const Image& image, const std::string& text) const {
  if (folder_.empty()) return;
  std::string name;
  append_hex(name, package::hash_bytes(image.bytes));
  const fs::path file = utf8_path(folder_) / (name + kSourceSuffix);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  if (!write_cache_file(file, {&bytes, 1}) && log_)
    log_("CUDA text " + utf8_text(file) + " could not be written");
}

void ImageCache::bound() const {
  if (folder_.empty()) return;
  bound_cache_folder(utf8_path(folder_), kSuffix, limit_);
  bound_cache_folder(utf8_path(folder_), kSourceSuffix, limit_);
}

}  // namespace reprise::nvrtc
