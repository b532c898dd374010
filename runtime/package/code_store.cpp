#include "runtime/package/code_store.h"

#include <zstd.h>

#include <cstring>

#include "runtime/package/package.h"
#include "runtime/package/spirv_form.h"

namespace reprise::package {
namespace {

struct FreeDecompressor {
  void operator()(ZSTD_DCtx* c) const { ZSTD_freeDCtx(c); }
};

Status damaged(const std::string& what) {
  return corrupt_package(what + "; the package is damaged, compile the model again");
}

/// The largest allowed size of the frame's contents.
uint64_t most_bytes(const CompressedCode& c) {
  return c.form == CodeForm::Spirv ? max_compact_bytes(c.bytes / sizeof(uint32_t)) : c.bytes;
}

/// Decompresses a frame, which may claim at most `most` bytes.
Result<std::vector<std::byte>> decompress(std::span<const std::byte> frame,
                                          std::span<const std::byte> dictionary, uint64_t most) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
    return damaged("its compressed code is not a frame that states its size");
  if (size > most)
    return damaged("its compressed code claims " + std::to_string(size) +
                   " bytes; the limit for it is " + std::to_string(most));
  const std::unique_ptr<ZSTD_DCtx, FreeDecompressor> context(ZSTD_createDCtx());
  if (!context) return Status(Code::Internal, "there is no memory to decompress it");
  std::vector<std::byte> out(size);
  const size_t done = ZSTD_decompress_usingDict(context.get(), out.data(), out.size(), frame.data(),
                                                frame.size(), dictionary.data(), dictionary.size());
  if (ZSTD_isError(done))
    return damaged(std::string("its code cannot be decompressed: ") + ZSTD_getErrorName(done));
  if (done != size) return damaged("its compressed code ends early");
  return out;
}

Status check_claim(const CompressedCode& c, uint64_t most) {
  if (static_cast<size_t>(c.form) >= kCodeForms)
    return damaged("form " + std::to_string(static_cast<unsigned>(c.form)) + " does not exist");
  if (c.bytes == 0 || c.bytes > most || c.data.empty())
    return damaged("it claims " + std::to_string(c.bytes) + " bytes, of " + std::to_string(most) +
                   " at most");
  return {};
}

}  // namespace

Status CodeStore::check() const {
  for (size_t i = 0; i < code_.size(); ++i) {
    const std::string where = "code " + std::to_string(i);
    RP_TRY(check_claim(code_[i], kMaxCodeBytes).with_context(where));
    if (code_[i].form == CodeForm::Spirv && code_[i].bytes % sizeof(uint32_t) != 0)
      return damaged(where + ": SPIR-V of " + std::to_string(code_[i].bytes) + " bytes");
  }
  bool seen[kCodeForms] = {};
  for (const CompressedCode& d : dictionaries_) {
    RP_TRY(check_claim(d, kMaxDictionaryBytes).with_context("dictionary"));
    bool& again = seen[static_cast<size_t>(d.form)];
    if (again) return damaged("two dictionaries are for one form of code");
    again = true;
  }
  return {};
}

Result<std::span<const std::byte>> CodeStore::dictionary(CodeForm form) const {
  const std::lock_guard lock(mutex_);
  std::optional<std::vector<std::byte>>& known = known_[static_cast<size_t>(form)];
  if (known) return std::span<const std::byte>(*known);
  std::vector<std::byte> bytes;
  for (const CompressedCode& d : dictionaries_) {
    if (d.form != form) continue;
    auto made = decompress(d.data, {}, d.bytes);
    if (!made.ok()) return made.status().with_context("its dictionary");
    bytes = std::move(*made);
    if (bytes.size() != d.bytes || hash_bytes(bytes) != d.hash)
      return damaged("its dictionary does not match its checksum");
  }
  known = std::move(bytes);
  return std::span<const std::byte>(*known);
}

Result<std::vector<std::byte>> CodeStore::load(uint32_t index) const {
  if (index >= code_.size()) return damaged("code " + std::to_string(index) + " does not exist");
  const CompressedCode& c = code_[index];
  RP_ASSIGN(const auto shared, dictionary(c.form));
  RP_ASSIGN(std::vector<std::byte> bytes, decompress(c.data, shared, most_bytes(c)));
  ++loads_;
  if (c.form == CodeForm::Spirv) {
    auto words = expand_spirv(bytes, c.bytes / sizeof(uint32_t));
    if (!words.ok()) return damaged(words.status().message());
    bytes.resize(c.bytes);
    std::memcpy(bytes.data(), words->data(), bytes.size());
  }
  if (bytes.size() != c.bytes || hash_bytes(bytes) != c.hash)
    return damaged("its code does not match its checksum");
  return bytes;
}

}  // namespace reprise::package
