#include <algorithm>

#include "backends/cuda/device.h"
#include "backends/cuda/facts.h"

namespace reprise::cuda {
namespace {

std::vector<DeviceInfo> no_cuda(std::string reason) {
  DeviceInfo info;
  info.id = "cuda";
  info.name = "no CUDA device";
  info.kind = "other";
  info.reason = std::move(reason);
  info.facts.api = Api::Cuda;
  return {info};
}

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::vector<DeviceInfo> devices(const HiddenFeatures& /*hidden*/) override {
    return cuda::devices();
  }
  Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options) override {
    return cuda::open(index, options);
  }
};

}  // namespace

std::vector<DeviceInfo> devices(const std::string& library, const TableHook& hook) {
  auto opened = Library::open(library, hook);
  if (!opened.ok()) return no_cuda(opened.status().message());
  int count = 0;
  const CUresult r = (*opened)->fn().cuDeviceGetCount(&count);
  if (r != CUDA_SUCCESS) return no_cuda("cuDeviceGetCount failed: " + (*opened)->describe(r));
  std::vector<DeviceInfo> all;
  all.reserve(static_cast<size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i) all.push_back(query(**opened, i));
  if (all.empty()) {
    return no_cuda(
        "the driver lists no device; check whether nvidia-smi lists one, and whether "
        "CUDA_VISIBLE_DEVICES hides it");
  }
  return all;
}

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const std::string& library, const TableHook& hook) {
  RP_ASSIGN(auto opened, Library::open(library, hook));
  RP_ASSIGN(std::unique_ptr<Device> device, CudaDevice::create(std::move(opened), index, options));
  return device;
}

Backend& backend() {
  static CudaBackend b;
  return b;
}

}  // namespace reprise::cuda
