#include "runtime/check/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "runtime/check/check.h"
#include "runtime/check/proof.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/path.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// Must change if the table of inputs, the comparison or the hash changes.
constexpr std::string_view kFormat = "reprise verdict 3";
constexpr const char* kVerdictSuffix = ".verdict";
constexpr uint64_t kMaxFileBytes = 4096, kMaxFolderBytes = uint64_t{1} << 20;
/// Creating a session should be fast, so only fast kernels run more than twice.
constexpr unsigned kRuns = 2;
constexpr uint64_t kMoreRunsNs = 2'000'000;

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

/// Everything that a verdict depends on: the device, its driver, the code, and how it is checked.
class Key {
 public:
  Key(const DeviceInfo& device, std::span<const plan::KernelCode> code,
      std::span<const plan::Probe> probes) {
    add(std::as_bytes(std::span(device.uuid)));
    add(device.name + "\n" + device.driver + "\n" + device.api + "\n");
    add(std::to_string(device.driver_version));
    for (const plan::KernelCode& k : code) {
      add(k.name);
      add(std::as_bytes(std::span(k.workgroup)));
      add(std::to_string(k.subgroup_size));
      add(bytes_of(k.spirv));
      add(k.cuda);
      add(bytes_of(k.image));
    }
    for (const plan::Probe& p : probes) add(p);
  }

  std::string hex() const {
    std::array<char, 17> out{};
    std::snprintf(out.data(), out.size(), "%016llx", static_cast<unsigned long long>(hash_));
    return out.data();
  }

 private:
  void add(std::span<const std::byte> bytes) {
    const std::array<uint64_t, 3> parts{hash_, package::hash_bytes(bytes), bytes.size()};
    hash_ = package::hash_bytes(std::as_bytes(std::span(parts)));
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  void add(const plan::Probe& p) {
    add(p.skipped);
    add(std::as_bytes(std::span(p.grid)));
    add(bytes_of(p.scalars));
    add(bytes_of(p.bytes));
    add(std::to_string(p.inputs) + (p.complete ? " complete" : ""));
    for (const plan::Probe::Samples& s : p.samples) {
      add(std::to_string(s.buffer));
      add(bytes_of(s.at));
      add(bytes_of(s.values));
      add(bytes_of(s.tolerance));
      add(bytes_of(s.exact));
    }
  }

  uint64_t hash_ = 0;
};

constexpr std::string_view kRight = "right", kWrong = "wrong: ";

/// The folder's verdicts. A file has three lines: the format, the key, and "right" or "wrong: why".
class Verdicts {
 public:
  Verdicts(const VerdictOptions& options, const std::string& key)
      : options_(options),
        path_(utf8_path(options.cache_dir) / (key + kVerdictSuffix)),
        head_(std::string(kFormat) + "\n" + key + "\n") {}

  std::optional<Verdict> find() const {
    if (options_.cache_dir.empty()) return std::nullopt;
    std::string refused;
    const File f = open_cache_file(path_, refused);
    if (!f) {
      if (!refused.empty()) log_message("verdict " + utf8_text(path_) + " is ignored: " + refused);
      return std::nullopt;
    }
    std::string text(kMaxFileBytes, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), f.get()));
    if (text.starts_with(head_) && text.ends_with('\n')) {
      text = text.substr(head_.size());
      if (text == std::string(kRight) + "\n") return Verdict{};
      if (text.starts_with(kWrong)) {
        text = text.substr(kWrong.size(), text.size() - kWrong.size() - 1);
        return Verdict{false, text + " (known from " + utf8_text(path_) + ")"};
      }
    }
    log_message("verdict " + utf8_text(path_) + " is ignored: it is damaged");
    return std::nullopt;
  }

  void keep(const Verdict& v) const {
    if (options_.cache_dir.empty()) return;
    const std::string answer =
        v.right ? std::string(kRight) : std::string(kWrong) + v.reason.substr(0, kMaxFileBytes / 2);
    const std::string text = head_ + answer + "\n";
    const std::array parts{std::as_bytes(std::span(text))};
    if (write_cache_file(path_, parts)) {
      bound_cache_folder(path_.parent_path(), kVerdictSuffix, kMaxFolderBytes, path_);
    } else {
      log_message("verdict " + utf8_text(path_) + " could not be written");
    }
  }

 private:
  void log_message(const std::string& message) const {
    if (options_.log) options_.log(Severity::Warning, message);
  }

  const VerdictOptions& options_;
  fs::path path_;
  std::string head_;
};

}  // namespace

Result<Verdict> judge(Device& device, const package::CompiledPlan& variant,
                      std::span<const plan::KernelCode> code,
                      std::span<const std::unique_ptr<DeviceKernel>> kernels,
                      const VerdictOptions& options) {
  if (variant.probes.empty()) return Verdict{};
  const Verdicts verdicts(options, Key(device.info(), code, variant.probes).hex());
  if (auto known = verdicts.find()) return std::move(*known);
  CheckOptions check;
  check.runs = kRuns;
  check.more_runs_ns = kMoreRunsNs;
  check.stop_at_failure = true;
  RP_ASSIGN(const auto checks, check_kernels(device, variant, kernels, check));
  const auto failed = std::find_if(checks.begin(), checks.end(), [](const KernelCheck& c) {
    return c.verdict == KernelVerdict::Error || is_wrong(c.verdict);
  });
  Verdict v;
  if (failed != checks.end()) {
    v = {false, "kernel '" + failed->kernel + "': " + failed->reason};
    if (failed->verdict == KernelVerdict::Error) return v;  // not stored: it may be temporary
  }
  verdicts.keep(v);
  if (!keep_proof(options.cache_dir, device.info(), v.right) && options.log)
    options.log(Severity::Warning, "the proof of the device could not be written");
  return v;
}

}  // namespace reprise
