#include "backends/registry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/check/proof.h"

#if REPRISE_WITH_CUDA
#include "backends/cuda/cuda.h"
#endif
#if REPRISE_WITH_VULKAN
#include "backends/vulkan/vulkan.h"
#endif

namespace reprise {
namespace {

struct Choice {
  Backend* backend = nullptr;
  size_t index = 0;
  DeviceInfo info;
  Proof proof = Proof::None;
  int preference = 0;
};

// CUDA comes first because the same GPU is usually a Vulkan device as well.
int rank(const DeviceFacts& facts) {
  if (facts.api == Api::Cuda) return 6;
  switch (facts.kind) {
    case DeviceKind::DiscreteGpu:
      return 5;
    case DeviceKind::IntegratedGpu:
      return 4;
    case DeviceKind::VirtualGpu:
      return 3;
    case DeviceKind::Other:
      return 2;
    case DeviceKind::Cpu:
      return 1;
    case DeviceKind::Host:
      return 0;
  }
  return 0;
}

bool is_same_gpu(const DeviceInfo& a, const DeviceInfo& b) {
  constexpr std::array<uint8_t, sizeof(DeviceInfo::uuid)> kUnknown{};
  return std::memcmp(a.uuid, b.uuid, sizeof(a.uuid)) == 0 &&
         std::memcmp(a.uuid, kUnknown.data(), kUnknown.size()) != 0;
}

/// Best first. A GPU is known to several backends: the one that proved itself comes first. One that
/// was wrong comes last.
void sort_by_preference(std::vector<Choice>& all) {
  constexpr int kRanks = 16, kWrong = 4 * kRanks * kRanks;
  for (Choice& c : all) {
    const int own = rank(c.info.facts);
    int best = own;
    for (const Choice& other : all)
      if (is_same_gpu(c.info, other.info)) best = std::max(best, rank(other.info.facts));
    const bool right = c.proof == Proof::Right;
    c.preference = (right ? 2 * best + 1 : 2 * own) * kRanks + own;
    if (c.proof == Proof::Wrong) c.preference -= kWrong;
  }
  std::ranges::stable_sort(all, std::greater(), &Choice::preference);
}

struct PassedOver {
  std::string id, reason;
};

// The usable devices, best first.
std::vector<Choice> usable(std::span<Backend* const> from, const BackendOptions& options,
                           std::vector<PassedOver>& passed_over, const Refusal& refusal) {
  std::vector<Choice> found;
  for (Backend* backend : from) {
    const auto devices = backend->devices(options.hidden);
    for (size_t i = 0; i < devices.size(); ++i) {
      std::string reason = devices[i].reason;
      if (devices[i].usable) reason = refusal ? refusal(devices[i]) : std::string();
      if (reason.empty()) {
        found.push_back({backend, i, devices[i], read_proof(options.cache_dir, devices[i])});
      } else {
        passed_over.push_back({devices[i].id, reason});
      }
    }
  }
  sort_by_preference(found);
  return found;
}

// `devices`: without backends that have none, whose ids have no number.
std::string reasons(const std::vector<PassedOver>& all, bool devices) {
  std::string text;
  for (const PassedOver& p : all) {
    if (devices && p.id.find(':') == std::string::npos) continue;
    text += (text.empty() ? "" : "; ") + p.id + ": " + p.reason;
  }
  return text;
}

Result<OpenedDevice> open(Backend& backend, size_t index, const BackendOptions& options) {
  RP_ASSIGN(auto device, backend.open(index, options));
  OpenedDevice out;
  out.device = std::move(device);
  out.device->memory_budget().set_most(options.memory_budget);
  out.info = out.device->info();
  return out;
}

// The best of these devices, with a note that begins with `why`.
Result<OpenedDevice> open_noted(std::span<Backend* const> from, const BackendOptions& options,
                                const Refusal& refusal, const std::string& why) {
  RP_ASSIGN(OpenedDevice opened, open_best(from, options, refusal));
  opened.note = why + opened.info.id + ", " + opened.info.name + " (" + opened.info.kind +
                "), the best usable device";
  if (!opened.passed_over.empty()) opened.note += "; passed over: " + opened.passed_over;
  return opened;
}

/// Whether this build lacks the backend that an id names.
bool is_left_out(std::string_view name) {
  return (name == "vulkan" && REPRISE_WITH_VULKAN == 0) ||
         (name == "cuda" && REPRISE_WITH_CUDA == 0);
}

Status unknown_device(std::string_view id) {
  if (is_left_out(id.substr(0, id.find(':')))) {
    return unsupported("this build has no backend for '" + std::string(id) +
                       "'; build the library with REPRISE_VULKAN or REPRISE_CUDA");
  }
  std::string known = "auto, host";
  for (const Backend* b : backends()) known += ", " + std::string(b->name()) + "[:N]";
  return {Code::Usage, "unknown device '" + std::string(id) + "'; known devices are " + known};
}

/// Why devices that a choice without proofs would prefer were passed over.
void note_proofs(const std::vector<Choice>& all, const Choice& chosen,
                 std::vector<PassedOver>& passed_over) {
  for (auto c = std::ranges::find(all, chosen.info.id,
                                  [](const Choice& x) -> const std::string& { return x.info.id; });
       c != all.end(); ++c) {
    if (rank(c->info.facts) <= rank(chosen.info.facts)) continue;
    const bool wrong = c->proof == Proof::Wrong;
    passed_over.push_back({c->info.id, wrong ? "a kernel was wrong when it was last checked"
                                             : chosen.info.id + " is the same GPU, and its kernels "
                                                                "were right when last checked"});
  }
}

}  // namespace

Result<OpenedDevice> open_best(std::span<Backend* const> from, const BackendOptions& options,
                               const Refusal& refusal) {
  std::vector<PassedOver> passed_over;
  Status failed;
  const std::vector<Choice> choices = usable(from, options, passed_over, refusal);
  for (const Choice& c : choices) {
    auto opened = open(*c.backend, c.index, options);
    if (opened.ok()) {
      note_proofs(choices, c, passed_over);
      opened->passed_over = reasons(passed_over, true);
      return opened;
    }
    if (failed.ok()) failed = opened.status();
    passed_over.push_back({c.info.id, opened.status().message()});
  }
  return Status(failed.ok() ? Code::Device : failed.code(),
                "no usable device: " + reasons(passed_over, false));
}

std::span<Backend* const> backends() {
  static const std::array<Backend*, REPRISE_WITH_CUDA + REPRISE_WITH_VULKAN> table {
#if REPRISE_WITH_CUDA
    &cuda::backend(),
#endif
#if REPRISE_WITH_VULKAN
        &vulkan::backend(),
#endif
  };
  return table;
}

DeviceInfo host_info() {
  DeviceInfo info;
  info.id = "host";
  info.name = "host reference";
  info.kind = "host";
  info.driver = "built in";
  info.api = "host";
  info.usable = true;
  info.facts.api = Api::Host;
  info.facts.kind = DeviceKind::Host;
  return info;
}

std::vector<DeviceInfo> list_devices(const HiddenFeatures& hidden) {
  std::vector<DeviceInfo> all;
  for (Backend* backend : backends())
    for (DeviceInfo& info : backend->devices(hidden)) all.push_back(std::move(info));
  all.push_back(host_info());
  return all;
}

Result<OpenedDevice> open_device(std::string_view id, const BackendOptions& options,
                                 const Refusal& refusal) {
  if (id == "host") {
    OpenedDevice out;
    out.info = host_info();
    return out;
  }
  const bool borrowed = options.vulkan.device || options.cuda.context;
  if (id == "auto" && !borrowed) {
    auto opened = open_noted(backends(), options, refusal, "auto: ");
    const Code code = opened.ok() ? Code::Ok : opened.status().code();
    // Running on the host would hide a mistake in the caller's options.
    if (opened.ok() || code == Code::Usage || code == Code::Unsupported) return opened;
    OpenedDevice host;
    host.info = host_info();
    host.note = "auto: the host; " + opened.status().message();
    return host;
  }
  const size_t colon = id.find(':');
  std::string_view name = id.substr(0, colon);
  if (id == "auto") name = options.vulkan.device ? "vulkan" : "cuda";
  for (Backend* backend : backends()) {
    if (backend->name() != name) continue;
    if (name == "vulkan" ? options.vulkan.device : options.cuda.context)
      return open(*backend, 0, options);
    if (colon == std::string_view::npos) {
      RP_ASSIGN(OpenedDevice opened, open_noted({&backend, 1}, options, {}, ""));
      if (opened.passed_over.empty()) opened.note.clear();
      return opened;
    }
    const std::string_view digits = id.substr(colon + 1);
    size_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size()) return unknown_device(id);
    return open(*backend, index, options);
  }
  return unknown_device(id);
}

}  // namespace reprise
