// The code of a package's kernels. Each piece is stored once and compressed on its own, with a
// dictionary that all pieces of one form share. Internal to runtime/package.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::package {

enum class CodeForm : uint8_t { Spirv, Cuda, Image };
inline constexpr size_t kCodeForms = 3;
/// The index of a kernel's code if it has none of that form.
inline constexpr uint32_t kNoCode = UINT32_MAX;
// Limits for one kernel, for all kernels of a variant together, and for a dictionary. The reader
// refuses files that claim more before it allocates memory.
inline constexpr uint64_t kMaxCodeBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxVariantCodeBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 10;

/// A piece of code or a dictionary, compressed with zstd.
struct CompressedCode {
  CodeForm form = CodeForm::Spirv;
  uint64_t bytes = 0;               // size of the original
  uint64_t hash = 0;                // of the original
  std::span<const std::byte> data;  // the compressed form
};

/// Collects and compresses the code of a package that is being written.
class CodeWriter {
 public:
  /// Returns the index of this code. Equal code has one index; no bytes give kNoCode. The bytes
  /// must outlive the writer.
  uint32_t add(CodeForm form, std::span<const std::byte> bytes);
  /// Must be called once, after all calls of add().
  Status compress();
  std::vector<CompressedCode> code() const { return results(pieces_); }
  /// At most one for each form.
  std::vector<CompressedCode> dictionaries() const { return results(dictionaries_); }

 private:
  struct Piece {
    CompressedCode as;
    std::span<const std::byte> original;
    std::vector<std::byte> form, data;  // the input of the compression, and its result
  };
  static std::vector<CompressedCode> results(const std::vector<Piece>& pieces);
  std::vector<std::byte> sample(CodeForm form) const;
  Status compress_form(CodeForm form);

  std::vector<Piece> pieces_, dictionaries_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

/// The code of a package that was read. It is decompressed on request only. Thread-safe.
class CodeStore {
 public:
  /// `owner` keeps the compressed bytes alive.
  CodeStore(std::string package, std::vector<CompressedCode> code,
            std::vector<CompressedCode> dictionaries, std::shared_ptr<const void> owner)
      : package_(std::move(package)),
        code_(std::move(code)),
        dictionaries_(std::move(dictionaries)),
        owner_(std::move(owner)) {}

  /// Checks that forms and sizes are plausible.
  Status check() const;
  size_t size() const { return code_.size(); }
  /// The package in messages: "package 'model.rpk'".
  const std::string& package() const { return package_; }
  /// Whether there is code of that index and form.
  bool has(uint32_t index, CodeForm form) const {
    return index < code_.size() && code_[index].form == form;
  }
  uint64_t bytes(uint32_t index) const { return index < code_.size() ? code_[index].bytes : 0; }
  /// Decompresses a piece of code and checks its hash.
  Result<std::vector<std::byte>> load(uint32_t index) const;
  /// The number of pieces that load() has decompressed.
  uint64_t loads() const { return loads_; }

 private:
  Result<std::span<const std::byte>> dictionary(CodeForm form) const;

  std::string package_;
  std::vector<CompressedCode> code_, dictionaries_;
  std::shared_ptr<const void> owner_;
  mutable std::mutex mutex_;
  mutable std::optional<std::vector<std::byte>> known_[kCodeForms];
  mutable std::atomic<uint64_t> loads_{0};
};

}  // namespace reprise::package
