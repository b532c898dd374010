// The kernels of a package: each stored once, compressed on its own with a dictionary that those of
// one form share. Inside of the package, not for others.
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
/// Where a kernel has no code of a form.
inline constexpr uint32_t kNoCode = UINT32_MAX;
/// Larger claims are refused before memory is allocated: of one kernel, of those of one variant
/// together, and of a dictionary.
inline constexpr uint64_t kMaxCodeBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxVariantCodeBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxDictionaryBytes = uint64_t{256} << 10;

/// What zstd made of code or of a dictionary.
struct CompressedCode {
  CodeForm form = CodeForm::Spirv;
  uint64_t bytes = 0;  // as a driver or a compiler gets it
  uint64_t hash = 0;   // of those bytes
  std::span<const std::byte> data;
};

/// Collects code for a package that is written.
class CodeWriter {
 public:
  /// The index of this code, which may be there already; kNoCode for none. The bytes must stay.
  uint32_t add(CodeForm form, std::span<const std::byte> bytes);
  /// To be called once, when all is added.
  Status compress();
  std::vector<CompressedCode> code() const { return results(pieces_); }
  /// One at most for each form.
  std::vector<CompressedCode> dictionaries() const { return results(dictionaries_); }

 private:
  struct Piece {
    CompressedCode as;
    std::span<const std::byte> original;
    std::vector<std::byte> form, data;  // what is compressed, and the result
  };
  static std::vector<CompressedCode> results(const std::vector<Piece>& pieces);
  std::vector<std::byte> sample(CodeForm form) const;
  Status compress_form(CodeForm form);

  std::vector<Piece> pieces_, dictionaries_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

/// Code of a package that was read. Nothing is decompressed before it is asked for. Threads may
/// share it.
class CodeStore {
 public:
  /// `owner` keeps the compressed bytes alive.
  CodeStore(std::string package, std::vector<CompressedCode> code,
            std::vector<CompressedCode> dictionaries, std::shared_ptr<const void> owner)
      : package_(std::move(package)),
        code_(std::move(code)),
        dictionaries_(std::move(dictionaries)),
        owner_(std::move(owner)) {}

  /// Forms and sizes are possible.
  Status check() const;
  size_t size() const { return code_.size(); }
  /// For messages: "package 'model.rpk'".
  const std::string& package() const { return package_; }
  /// The code of that index has that form.
  bool has(uint32_t index, CodeForm form) const {
    return index < code_.size() && code_[index].form == form;
  }
  uint64_t bytes(uint32_t index) const { return index < code_.size() ? code_[index].bytes : 0; }
  /// Checked against its hash.
  Result<std::vector<std::byte>> load(uint32_t index) const;
  /// How often load() decompressed.
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
