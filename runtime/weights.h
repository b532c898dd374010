// A package's weights made ready for a plan: hashed, packed by their recipes, uploaded.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend.h"
#include "runtime/package/package.h"

namespace reprise {

struct DeviceWeights {
  struct Place {
    DeviceBuffer* buffer = nullptr;  // null: no kernel reads this weight
    uint64_t offset = 0;
  };
  std::vector<std::unique_ptr<DeviceBuffer>> pools;
  std::vector<Place> places;  // parallel to plan.weights
  uint64_t bytes = 0;
};

/// Uploads the weights that launches read. Errors name the weight: a damaged segment, a recipe that
/// does not fit its tensor, no memory.
Result<DeviceWeights> upload_weights(const package::Package& package, const plan::Plan& plan,
                                     Device& device);

/// Segment in range and, where the package has hashes, unaltered.
Status check_segment(const package::Package& package, const plan::Weight& weight);
/// The raw tensor of a weight with the buffer's dims.
Result<HostTensor> raw_weight(const package::Package& package, const plan::Plan& plan,
                              const plan::Buffer& buffer);
/// Runs a weight's recipe; `out` has packed_bytes() bytes.
Status pack_weight(const plan::Weight& weight, const HostTensor& raw, std::span<std::byte> out);

}  // namespace reprise
