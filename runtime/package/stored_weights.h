// The weights of a package that was read. Their bytes are read when they are needed. Internal to
// runtime/package.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/package/scaled.h"
#include "runtime/platform/file.h"

namespace reprise::package {

/// The bytes of a weight that are in memory at a time where that is possible.
inline constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

/// Bytes that are valid as long as `owner` exists; without an owner, as long as the caller says.
struct Bytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Memory that is aligned as kernels of the host and FlatBuffers expect it.
class AlignedBytes {
 public:
  explicit AlignedBytes(uint64_t size);
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// A file, or memory of the application, that holds a package.
class Source {
 public:
  explicit Source(platform::InputFile file)
      : file_(std::make_shared<const platform::InputFile>(std::move(file))) {}
  explicit Source(std::shared_ptr<const platform::InputFile> file) : file_(std::move(file)) {}
  Source(std::span<const std::byte> memory, std::shared_ptr<const void> owner)
      : memory_(memory), owner_(std::move(owner)) {}
  uint64_t size() const { return file_ ? file_->size() : memory_.size(); }
  bool is(const std::shared_ptr<const platform::InputFile>& file) const { return file_ == file; }
  /// A copy, which no other process can change.
  Result<Bytes> copy(uint64_t offset, uint64_t size) const;
  /// Aligned memory of the application in place, and a copy of everything else.
  Result<Bytes> get(uint64_t offset, uint64_t size) const;
  /// Whether get() copies.
  bool is_copied(uint64_t offset, uint64_t size) const;
  /// Copies bytes to memory of the caller.
  Status copy_to(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::shared_ptr<const platform::InputFile> file_;
  std::span<const std::byte> memory_;
  std::shared_ptr<const void> owner_;
};

/// Immutable after it was decoded, and thread-safe. Weights of the package that have bytes are not
/// looked for here.
class StoredWeights {
 public:
  struct Entry {
    uint64_t offset = 0, size = 0;  // in the source
    std::optional<Scaled> scaled;   // the file has no bytes of it
    bool packed = false;            // elements share bytes (pack_elements)
    uint32_t source = 0;            // of sources
  };
  explicit StoredWeights(Source source) { sources_.push_back(std::move(source)); }
  explicit StoredWeights(std::vector<Source> sources) : sources_(std::move(sources)) {}

  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  void set_scaled(size_t index, Scaled scaled) { entries_[index].scaled = std::move(scaled); }
  /// Calls `use` with the bytes of a weight in order, in pieces that begin at multiples of `unit`
  /// bytes. If its hash is wrong, that is known only after the last piece.
  Status read_pieces(const Package& package, size_t index, uint64_t unit,
                     std::vector<std::byte>& scratch, const UseWeightPiece& use) const;
  /// Whether read_at() has the bytes of a weight: it is not in memory, and begins and ends at whole
  /// bytes of the source.
  bool can_read_at(const Package& package, size_t index) const;
  /// Copies a part of the bytes of such a weight, without checking their hash.
  Status read_at(const Package& package, size_t index, uint64_t offset,
                 std::span<std::byte> out) const;
  /// Compares the hash of the bytes of a weight.
  Status check(const Package& package, size_t index, uint64_t hash) const;
  /// A weight of the package with its bytes, after checking their hash. They are in memory as long
  /// as someone has the result, and all who have it at the same time share them.
  Result<HostTensor> load(const Package& package, size_t index) const;

 private:
  Result<HostTensor> read(const Package& package, size_t index) const;
  /// The weight if it is in memory.
  std::shared_ptr<const HostTensor> known(size_t index) const;

  std::vector<Source> sources_;
  std::vector<Entry> entries_;
  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<const HostTensor>> known_;  // those that are in memory
};

/// The package with the bytes of all weights.
Result<std::shared_ptr<const Package>> with_weights(std::shared_ptr<const Package> p);

}  // namespace reprise::package
