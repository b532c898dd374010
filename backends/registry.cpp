#include "backends/registry.h"

#include <array>
#include <charconv>
#include <optional>

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

// The best usable device; `why_not` collects the reasons of the others.
std::optional<Choice> best(std::span<Backend* const> from, std::string& why_not,
                           const Refusal& refusal = {}) {
  std::optional<Choice> found;
  for (Backend* backend : from) {
    const auto devices = backend->devices();
    for (size_t i = 0; i < devices.size(); ++i) {
      std::string reason = devices[i].reason;
      if (devices[i].usable) reason = refusal ? refusal(devices[i]) : std::string();
      if (!reason.empty()) {
        why_not += (why_not.empty() ? "" : "; ") + devices[i].id + ": " + reason;
        continue;
      }
      if (!found || rank(devices[i].facts) > rank(found->info.facts))
        found = Choice{backend, i, devices[i]};
    }
  }
  return found;
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

Result<OpenedDevice> open(Backend& backend, size_t index, const BackendOptions& options,
                          std::string note) {
  RP_ASSIGN(auto device, backend.open(index, options));
  OpenedDevice out;
  out.device = std::move(device);
  out.info = out.device->info();
  out.note = std::move(note);
  return out;
}

Result<OpenedDevice> open_auto(const BackendOptions& options, const Refusal& refusal) {
  std::string why_not;
  const auto choice = best(backends(), why_not, refusal);
  if (choice) {
    return open(*choice->backend, choice->index, options,
                "auto: " + choice->info.id + ", " + choice->info.name + " (" + choice->info.kind +
                    "), the best usable device");
  }
  OpenedDevice out;
  out.info = host_info();
  out.note = "auto: the host, because no device can be used (" + why_not + ")";
  return out;
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

}  // namespace

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

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all;
  for (Backend* backend : backends())
    for (DeviceInfo& info : backend->devices()) all.push_back(std::move(info));
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
  if (id == "auto" && !borrowed) return open_auto(options, refusal);
  const size_t colon = id.find(':');
  std::string_view name = id.substr(0, colon);
  if (id == "auto") name = options.vulkan.device ? "vulkan" : "cuda";
  for (Backend* backend : backends()) {
    if (backend->name() != name) continue;
    if (name == "vulkan" ? options.vulkan.device : options.cuda.context)
      return open(*backend, 0, options, "");
    if (colon == std::string_view::npos) {
      std::string why_not;
      const auto choice = best({&backend, 1}, why_not);
      if (!choice) return Status(Code::Device, "no usable device: " + why_not);
      return open(*backend, choice->index, options, "");
    }
    const std::string_view digits = id.substr(colon + 1);
    size_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size()) return unknown_device(id);
    return open(*backend, index, options, "");
  }
  return unknown_device(id);
}

}  // namespace reprise
