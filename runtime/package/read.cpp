#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/file_kind.h"
#include "runtime/package/decode.h"
#include "runtime/package/header.h"
#include "runtime/package/package.h"

namespace reprise::package {
namespace {

using Bytes = std::span<const std::byte>;

struct Mapping {
  void* address = MAP_FAILED;
  size_t size = 0;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address != MAP_FAILED) ::munmap(address, size);
  }
};

Status io_error(const std::string& what) {
  return {Code::Io, what + ": " + std::strerror(errno)};
}

Result<std::shared_ptr<Mapping>> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error("cannot be opened");
  auto mapping = std::make_shared<Mapping>();
  struct stat info {};
  Status status;
  if (::fstat(fd, &info) != 0) {
    status = io_error("cannot be read");
  } else if (!S_ISREG(info.st_mode)) {
    status = {Code::Io, "is not a regular file"};
  } else if (info.st_size == 0) {
    status = corrupt_package("is empty");
  } else {
    mapping->size = static_cast<size_t>(info.st_size);
    mapping->address = ::mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping->address == MAP_FAILED) status = io_error("cannot be mapped");
  }
  ::close(fd);
  if (!status.ok()) return status;
  return mapping;
}

std::string number(uint64_t v) {
  return std::to_string(v);
}

Result<Header> read_header(Bytes file) {
  Header h;
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    if (looks_like_onnx(file))
      return invalid_model("is an ONNX model, not a compiled one; name it .onnx, or compile it");
    const std::string other = file_kind(file);
    return corrupt_package("is not a compiled model (.rpk)" +
                           (other.empty() ? "" : ", but " + other));
  }
  if (file.size() < sizeof h) {
    return corrupt_package("is truncated: " + number(file.size()) + " bytes, less than its header");
  }
  std::memcpy(&h, file.data(), sizeof h);
  if (h.header_hash != hash_bytes(file.first(offsetof(Header, header_hash)))) {
    return corrupt_package("is damaged: its header does not match its checksum");
  }
  if (h.version != kVersion) {
    return incompatible_package("has format version " + number(h.version) +
                                ", this build reads version " + number(kVersion) +
                                "; compile the model again");
  }
  if (file.size() < h.file_bytes) {
    return corrupt_package("is truncated: " + number(file.size()) + " of " + number(h.file_bytes) +
                           " bytes");
  }
  if (file.size() > h.file_bytes) {
    return corrupt_package("is damaged: " + number(file.size() - h.file_bytes) +
                           " bytes follow its end");
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

Result<std::shared_ptr<const Package>> read_file_bytes(Bytes file,
                                                       std::shared_ptr<const void> owner,
                                                       const std::string& where) {
  RP_ASSIGN(const Header h, read_header(file));
  const Bytes metadata = file.subspan(sizeof h, h.metadata_bytes);
  if (hash_bytes(metadata) != h.metadata_hash) {
    return corrupt_package("is damaged: its metadata does not match its checksum");
  }
  auto package = decode(metadata, file.subspan(h.weights_offset), std::move(owner), where);
  if (!package.ok()) return as_corrupt(package.status());
  return package;
}

/// Weights and metadata are read in place, so they must be aligned as in a mapped file.
bool aligned(Bytes bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % kWeightAlignment == 0;
}

struct AlignedCopy {
  static constexpr std::align_val_t kAlignment{kWeightAlignment};
  std::byte* data;
  explicit AlignedCopy(Bytes bytes)
      : data(static_cast<std::byte*>(::operator new(bytes.size(), kAlignment))) {
    std::memcpy(data, bytes.data(), bytes.size());
  }
  AlignedCopy(const AlignedCopy&) = delete;
  AlignedCopy& operator=(const AlignedCopy&) = delete;
  ~AlignedCopy() { ::operator delete(data, kAlignment); }
};

}  // namespace

Result<std::shared_ptr<const Package>> read(const std::string& path) {
  const std::string where = "package '" + path + "'";
  auto mapping = map_file(path);
  if (!mapping.ok()) return mapping.status().with_context(where);
  const Bytes bytes(static_cast<const std::byte*>((*mapping)->address), (*mapping)->size);
  auto package = read_file_bytes(bytes, *mapping, where);
  if (!package.ok()) return package.status().with_context(where);
  return package;
}

Result<std::shared_ptr<const Package>> read_memory(Bytes bytes, std::shared_ptr<const void> owner) {
  const std::string where = "package in memory";
  if (bytes.empty()) return corrupt_package("is empty").with_context(where);
  if (!aligned(bytes)) {
    auto copy = std::make_shared<AlignedCopy>(bytes);
    bytes = {copy->data, bytes.size()};
    owner = std::move(copy);
  }
  auto package = read_file_bytes(bytes, std::move(owner), where);
  if (!package.ok()) return package.status().with_context(where);
  return package;
}

Status verify_weights(const Package& p) {
  for (size_t i = 0; i < p.weights.size(); ++i) {
    if (i < p.weight_hashes.size() && hash_bytes(p.weights[i].bytes()) != p.weight_hashes[i]) {
      return corrupt_package("weight " + number(i) + " (" +
                             describe(p.weights[i].dtype(), p.weights[i].dims()) +
                             ") does not match its checksum: the package is damaged");
    }
  }
  return {};
}

}  // namespace reprise::package
