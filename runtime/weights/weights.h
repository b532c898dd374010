// Prepares the weights of a package for a plan: checks their hashes, packs them by their recipes
// and uploads them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise {

struct DeviceWeights {
  struct Place {
    DeviceBuffer* buffer = nullptr;  // null: no kernel reads this weight
    uint64_t offset = 0;             // in bytes
  };
  std::vector<std::shared_ptr<DeviceBuffer>> pools;  // immutable; other sessions use them, too
  std::vector<Place> places;                         // parallel to Plan::weights
  uint64_t bytes = 0;
};

/// Weights that another plan of the session has on the device.
struct KnownWeights {
  const plan::Plan& plan;
  const DeviceWeights& weights;
};

/// Uploads the weights that launches read, except those that are `known`, whose places must outlive
/// the result, and those that another session on the device has.
/// Fails on a damaged segment, on a recipe that does not fit its tensor, and if there is no memory;
/// the error names the weight.
Result<DeviceWeights> upload_weights(const package::Package& package, const plan::Plan& plan,
                                     Device& device, std::span<const KnownWeights> known = {});

/// Whether a device with buffers of at most `most` bytes can hold the weights that launches read.
/// The error names the first weight that is too large.
Status check_weights_fit(const package::Package& package, const plan::Plan& plan, uint64_t most);

/// Checks that the weight of a buffer exists and has its dtype and dims.
Status check_weight(const package::Package& package, const plan::Plan& plan,
                    const plan::Buffer& buffer);
/// The raw tensor of a weight, with the dims of the buffer, after checking its hash.
Result<HostTensor> raw_weight(const package::Package& package, const plan::Plan& plan,
                              const plan::Buffer& buffer);

/// The weights that the host needs in runs on a device. They stay in memory once they were needed.
/// Thread-safe.
class HostWeights {
 public:
  /// Gets those that host calls read.
  Status load(const package::Package& package, const plan::Plan& plan);
  Result<HostTensor> get(const package::Package& package, const plan::Plan& plan,
                         plan::BufferId buffer) const;

 private:
  mutable std::mutex mutex_;
  mutable IdVector<plan::BufferId, std::optional<HostTensor>> known_;
};
/// A weight with its bytes, after checking their hash. The error names the weight.
Result<HostTensor> load_weight(const package::Package& package, const plan::Weight& weight);
/// Checks that the weight's recipe fits the raw tensor.
Status check_recipe(const plan::Weight& weight, const HostTensor& raw);
/// Packs `raw` by the weight's recipe. `out` must have Packing::packed_bytes() bytes.
Status pack_weight(const plan::Weight& weight, const HostTensor& raw, std::span<std::byte> out);

}  // namespace reprise
