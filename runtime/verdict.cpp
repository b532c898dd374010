#include "runtime/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "runtime/base/cache_folder.h"
#include "runtime/check.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "reprise verdict 1";
constexpr const char* kSuffix = ".verdict";
constexpr uint64_t kMaxFileBytes = 4096, kMaxFolderBytes = uint64_t{1} << 20;
/// In a session, which a user waits for. `reprise check` runs more.
constexpr unsigned kRuns = 2;

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

/// Everything that a verdict depends on: the device, its driver, the code, and how it is checked.
class Key {
 public:
  Key(const DeviceInfo& device, const package::Variant& variant) {
    add(std::as_bytes(std::span(device.uuid)));
    add(device.name + "\n" + device.driver + "\n" + device.api + "\n");
    add(std::to_string(device.driver_version));
    for (const plan::KernelCode& k : variant.plan.kernels) {
      add(k.name);
      add(bytes_of(k.spirv));
      add(k.cuda);
      add(bytes_of(k.image));
    }
    for (const plan::Probe& p : variant.probes) add(p);
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
    add(std::to_string(p.inputs));
    for (const plan::Probe::Samples& s : p.samples) {
      add(bytes_of(s.at));
      add(bytes_of(s.values));
      add(bytes_of(s.tolerance));
      add(bytes_of(s.exact));
    }
  }

  uint64_t hash_ = 0;
};

/// The folder's verdicts. A file has the format, the key, and what is wrong; nothing, if all is
/// right.
class Verdicts {
 public:
  explicit Verdicts(const VerdictOptions& options) : options_(options) {}

  /// False: there is none.
  bool find(const std::string& key, std::string& wrong) const {
    if (options_.cache_dir.empty()) return false;
    std::string refused;
    const File f = open_cache_file(path_of(key), refused);
    if (!f) {
      if (!refused.empty()) say("verdict " + path_of(key).string() + " is ignored: " + refused);
      return false;
    }
    std::string text(kMaxFileBytes, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), f.get()));
    const std::string head = head_of(key);
    if (!text.starts_with(head) || !text.ends_with('\n')) {
      say("verdict " + path_of(key).string() + " is ignored: it is damaged");
      return false;
    }
    wrong = text.substr(head.size(), text.size() - head.size() - 1);
    return true;
  }

  void keep(const std::string& key, const std::string& wrong) const {
    if (options_.cache_dir.empty()) return;
    const std::string text = head_of(key) + wrong.substr(0, kMaxFileBytes / 2) + "\n";
    const std::array parts{std::as_bytes(std::span(text))};
    const fs::path path = path_of(key);
    if (write_cache_file(path, parts)) {
      bound_cache_folder(options_.cache_dir, kSuffix, kMaxFolderBytes, path);
    } else {
      say("verdict " + path.string() + " could not be written");
    }
  }

 private:
  static std::string head_of(const std::string& key) {
    return std::string(kFormat) + "\n" + key + "\n";
  }
  fs::path path_of(const std::string& key) const {
    return fs::path(options_.cache_dir) / (key + kSuffix);
  }
  void say(const std::string& message) const {
    if (options_.log) options_.log(message);
  }

  const VerdictOptions& options_;
};

}  // namespace

Result<std::string> find_wrong_kernel(Device& device, const package::Variant& variant,
                                      std::span<const std::unique_ptr<DeviceKernel>> kernels,
                                      const VerdictOptions& options) {
  if (variant.probes.empty()) return std::string();
  const std::string key = Key(device.info(), variant).hex();
  const Verdicts verdicts(options);
  std::string wrong;
  if (verdicts.find(key, wrong)) return wrong;
  CheckOptions check;
  check.runs = kRuns;
  check.stop_at_failure = true;
  check.timeout_ns = options.timeout_ns;
  const auto checks = check_kernels(device, variant, kernels, check);
  const auto failed = std::find_if(checks.begin(), checks.end(), [](const KernelCheck& c) {
    return c.verdict == KernelVerdict::Error || is_wrong(c.verdict);
  });
  if (failed != checks.end()) {
    wrong = "kernel '" + failed->kernel + "': " + failed->reason;
    // Memory may have been short, or the device lost: that says nothing of the kernel.
    if (failed->verdict == KernelVerdict::Error) return Status(Code::Device, "checking " + wrong);
  }
  verdicts.keep(key, wrong);
  return wrong;
}

}  // namespace reprise
