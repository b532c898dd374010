#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/package/code_store.h"
#include "runtime/package/package.h"
#include "runtime/package/spirv_form.h"

namespace reprise::package {
namespace {

/// A higher level makes the code of a model a tenth smaller, but takes three times as long.
constexpr int kLevel = 3;
/// A dictionary has at most this fraction (1 / n) of the size of the code that it helps to
/// compress, because a session decompresses all of it.
constexpr size_t kDictionaryPart = 8;
constexpr size_t kLeastDictionary = 1024;

struct FreeCompressor {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
  void operator()(ZSTD_CDict* d) const { ZSTD_freeCDict(d); }
};

Status compressed(size_t result, std::vector<std::byte>& out) {
  if (ZSTD_isError(result))
    return {Code::Internal,
            std::string("kernels could not be compressed: ") + ZSTD_getErrorName(result)};
  out.resize(result);
  out.shrink_to_fit();
  return {};
}

std::vector<std::byte> form_of(CodeForm form, std::span<const std::byte> bytes) {
  if (form != CodeForm::Spirv) return {bytes.begin(), bytes.end()};
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
  return compact_spirv(words);
}

}  // namespace

uint32_t CodeWriter::add(CodeForm form, std::span<const std::byte> bytes) {
  if (bytes.empty()) return kNoCode;
  const uint64_t hash = hash_bytes(bytes);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Piece& p = pieces_[at->second];
    if (p.as.form == form && std::ranges::equal(p.original, bytes)) return at->second;
  }
  const auto index = static_cast<uint32_t>(pieces_.size());
  pieces_.push_back({{form, bytes.size(), hash, {}}, bytes, form_of(form, bytes), {}});
  by_hash_.emplace(hash, index);
  return index;
}

// Selects whole pieces that are spread over the package, because variants have similar kernels at
// the same place.
std::vector<std::byte> CodeWriter::sample(CodeForm form) const {
  std::vector<const Piece*> all;
  size_t total = 0;
  for (const Piece& p : pieces_) {
    if (p.as.form != form) continue;
    all.push_back(&p);
    total += p.form.size();
  }
  std::vector<std::byte> out;
  const size_t size = std::min<size_t>(kMaxDictionaryBytes, total / kDictionaryPart);
  if (form == CodeForm::Image || size < kLeastDictionary) return out;
  for (size_t i = 0; i < all.size() && out.size() < size; i += total / size) {
    const std::vector<std::byte>& piece = all[i]->form;
    out.insert(
        out.end(), piece.begin(),
        piece.begin() + static_cast<std::ptrdiff_t>(std::min(piece.size(), size - out.size())));
  }
  return out;
}

Status CodeWriter::compress_form(CodeForm form) {
  const std::unique_ptr<ZSTD_CCtx, FreeCompressor> context(ZSTD_createCCtx());
  const std::vector<std::byte> shared = sample(form);
  const std::unique_ptr<ZSTD_CDict, FreeCompressor> dictionary(
      shared.empty() ? nullptr : ZSTD_createCDict(shared.data(), shared.size(), kLevel));
  if (!context || (!shared.empty() && !dictionary))
    return {Code::Internal, "there is no memory to compress kernels"};
  for (Piece& p : pieces_) {
    if (p.as.form != form) continue;
    p.data.resize(ZSTD_compressBound(p.form.size()));
    const size_t done =
        dictionary ? ZSTD_compress_usingCDict(context.get(), p.data.data(), p.data.size(),
                                              p.form.data(), p.form.size(), dictionary.get())
                   : ZSTD_compressCCtx(context.get(), p.data.data(), p.data.size(), p.form.data(),
                                       p.form.size(), kLevel);
    RP_TRY(compressed(done, p.data));
  }
  if (shared.empty()) return {};
  Piece d{{form, shared.size(), hash_bytes(shared), {}}, {}, {}, {}};
  d.data.resize(ZSTD_compressBound(shared.size()));
  RP_TRY(compressed(ZSTD_compressCCtx(context.get(), d.data.data(), d.data.size(), shared.data(),
                                      shared.size(), kLevel),
                    d.data));
  dictionaries_.push_back(std::move(d));
  return {};
}

Status CodeWriter::compress() {
  for (size_t form = 0; form < kCodeForms; ++form)
    RP_TRY(compress_form(static_cast<CodeForm>(form)));
  for (auto* list : {&pieces_, &dictionaries_})
    for (Piece& p : *list) p.as.data = p.data;
  return {};
}

std::vector<CompressedCode> CodeWriter::results(const std::vector<Piece>& pieces) {
  std::vector<CompressedCode> out;
  out.reserve(pieces.size());
  for (const Piece& p : pieces) out.push_back(p.as);
  return out;
}

}  // namespace reprise::package
