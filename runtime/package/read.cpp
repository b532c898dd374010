// Reads a package from a file or from memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/file_kind.h"
#include "runtime/package/decode.h"
#include "runtime/package/header.h"
#include "runtime/package/package.h"
#include "runtime/package/stored_weights.h"

namespace reprise::package {
namespace {

std::string number(uint64_t v) {
  return std::to_string(v);
}

/// `start` has the first bytes of a file of this size.
Result<Header> read_header(std::span<const std::byte> start, uint64_t size) {
  Header h;
  if (start.size() < kMagic.size() ||
      std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    if (looks_like_onnx(start))
      return corrupt_package("is an ONNX model, not a compiled one; name it .onnx, or compile it");
    const std::string other = file_kind(start);
    return corrupt_package("is not a compiled model (.rpk)" +
                           (other.empty() ? "" : ", but " + other));
  }
  if (start.size() < sizeof h)
    return corrupt_package("is truncated: " + number(size) + " bytes, less than its header");
  std::memcpy(&h, start.data(), sizeof h);
  if (h.header_hash != hash_bytes(start.first(offsetof(Header, header_hash)))) {
    return corrupt_package("is damaged: its header does not match its checksum");
  }
  if (h.version < kOldestVersion || h.version > kVersion) {
    return incompatible_package("has format version " + number(h.version) +
                                ", this build reads versions " + number(kOldestVersion) + " to " +
                                number(kVersion) + "; compile the model again");
  }
  if (size < h.file_bytes) {
    return corrupt_package("is truncated: " + number(size) + " of " + number(h.file_bytes) +
                           " bytes");
  }
  if (size > h.file_bytes) {
    return corrupt_package("is damaged: " + number(size - h.file_bytes) + " bytes follow its end");
  }
  const bool inside =
      h.metadata_offset == sizeof h && h.metadata_bytes <= kMaxMetadata &&
      h.weights_offset <= h.file_bytes && h.weights_offset % kSegmentAlignment == 0 &&
      h.metadata_bytes <= h.weights_offset - std::min<uint64_t>(h.weights_offset, sizeof h);
  if (h.header_bytes != sizeof h || !inside) {
    return corrupt_package("is damaged: its header gives impossible sizes");
  }
  return h;
}

/// Everything that is checked here is a copy, so that nobody can change it between its check and
/// its use.
Result<std::shared_ptr<const Package>> read_source(Source source, const std::string& where) {
  constexpr uint64_t kStart = std::max<uint64_t>(sizeof(Header), kFileKindBytes);
  if (source.size() == 0) return corrupt_package("is empty");
  RP_ASSIGN(const Bytes start, source.copy(0, std::min(source.size(), kStart)));
  RP_ASSIGN(const Header h, read_header(start.bytes, source.size()));
  RP_ASSIGN(const Bytes metadata, source.copy(sizeof h, h.metadata_bytes));
  if (hash_bytes(metadata.bytes) != h.metadata_hash) {
    return corrupt_package("is damaged: its metadata does not match its checksum");
  }
  auto package = decode(metadata, std::move(source), h, where);
  if (!package.ok()) return as_corrupt(package.status());
  return package;
}

Result<std::shared_ptr<const Package>> read_file(Result<platform::InputFile> file,
                                                 const std::string& where) {
  if (!file.ok()) return file.status().with_context(where);
  auto package = read_source(Source(*std::move(file)), where);
  if (!package.ok()) return package.status().with_context(where);
  return package;
}

}  // namespace

Result<std::shared_ptr<const Package>> read(const std::string& path) {
  return read_file(platform::InputFile::open(path), "package '" + path + "'");
}

Result<std::shared_ptr<const Package>> read_part(platform::NativeFile file, uint64_t offset,
                                                 uint64_t length) {
  return read_file(platform::InputFile::part_of(file, offset, length), "package in an open file");
}

Result<std::shared_ptr<const Package>> read_memory(std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> owner) {
  const std::string where = "package in memory";
  auto package = read_source(Source(bytes, std::move(owner)), where);
  if (!package.ok()) return package.status().with_context(where);
  return package;
}

bool is_package(const std::string& path) {
  const auto file = platform::InputFile::open(path);
  std::array<std::byte, kMagic.size()> start{};
  return file.ok() && file->read(0, start).ok() &&
         std::memcmp(start.data(), kMagic.data(), start.size()) == 0;
}

}  // namespace reprise::package
