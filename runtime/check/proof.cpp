#include "runtime/check/proof.h"

#include <array>
#include <cstdio>
#include <span>

#include "runtime/package/package.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/path.h"

namespace reprise {
namespace {

constexpr std::string_view kHead = "reprise proof 1\n", kProvenRight = "right\n",
                           kProvenWrong = "wrong\n";
constexpr const char* kProofSuffix = ".proof";
constexpr uint64_t kMaxProofBytes = uint64_t{1} << 16;

/// Another driver is another device: its compiler may be better or worse.
std::filesystem::path path_of(const std::string& cache_dir, const DeviceInfo& d) {
  std::string key(reinterpret_cast<const char*>(d.uuid), sizeof(d.uuid));
  key += d.name + "\n" + d.driver + "\n" + d.api + "\n" + std::to_string(d.driver_version);
  std::array<char, 17> hex{};
  const uint64_t hash = package::hash_bytes(std::as_bytes(std::span(key)));
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  return utf8_path(cache_dir) / (std::string(hex.data()) + kProofSuffix);
}

}  // namespace

Proof read_proof(const std::string& cache_dir, const DeviceInfo& device) {
  if (cache_dir.empty()) return Proof::None;
  std::string untrusted;
  const File f = open_cache_file(path_of(cache_dir, device), untrusted);
  if (!f) return Proof::None;
  std::array<char, 64> text{};
  const size_t n = std::fread(text.data(), 1, text.size(), f.get());
  std::string_view said(text.data(), n);
  if (!said.starts_with(kHead)) return Proof::None;
  said.remove_prefix(kHead.size());
  return said == kProvenRight ? Proof::Right : said == kProvenWrong ? Proof::Wrong : Proof::None;
}

bool keep_proof(const std::string& cache_dir, const DeviceInfo& device, bool right) {
  const Proof now = right ? Proof::Right : Proof::Wrong;
  if (cache_dir.empty() || read_proof(cache_dir, device) == now) return true;
  const auto path = path_of(cache_dir, device);
  const std::string text = std::string(kHead) + std::string(right ? kProvenRight : kProvenWrong);
  const std::array parts{std::as_bytes(std::span(text))};
  if (!write_cache_file(path, parts)) return false;
  bound_cache_folder(path.parent_path(), kProofSuffix, kMaxProofBytes, path);
  return true;
}

}  // namespace reprise
