// Weights in the memory of a device. Sessions share those with equal contents.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/align.h"
#include "runtime/plan/bind.h"
#include "runtime/weights.h"

namespace reprise {
namespace {

// Larger weights have allocations of their own, so that packages which have one of them in common
// share it. Drivers limit the number of allocations, so smaller ones are put together.
constexpr uint64_t kOwnAllocation = uint64_t{1} << 20;
constexpr uint64_t kMostTogether = uint64_t{16} << 20;

std::vector<bool> read_by_launches(const plan::Plan& plan) {
  std::vector<bool> used(plan.weights.size(), false);
  for (const plan::Step& step : plan.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    if (!launch) continue;
    for (const plan::BufferId id : launch->buffers) {
      const plan::Buffer& b = plan.buffers[id];
      if (b.kind == plan::BufferKind::Weight) used[static_cast<size_t>(b.index)] = true;
    }
  }
  return used;
}

/// Weights of one allocation.
struct Pool {
  struct Member {
    size_t weight = 0;  // index in Plan::weights
    uint64_t offset = 0;
  };
  std::vector<Member> members;
  uint64_t bytes = 0;
};

Result<std::vector<Pool>> make_pools(const package::Package& package, const plan::Plan& plan,
                                     uint64_t most) {
  std::vector<Pool> pools;
  size_t together = SIZE_MAX;  // index of the pool for small weights that has room
  const std::vector<bool> used = read_by_launches(plan);
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    if (!used[i]) continue;
    const plan::Weight& w = plan.weights[i];
    if (w.segment >= package.weights.size()) {
      return corrupt_package("weight '" + w.name + "': there is no segment " +
                             std::to_string(w.segment));
    }
    const HostTensor& raw = package.weights[w.segment];
    RP_TRY(check_recipe(w, raw));
    const uint64_t bytes = align_up(
        plan::readable_bytes(w.packed_bytes(package::weight_bytes(raw), size_of(raw.dtype()))),
        plan::kBufferAlignment);
    if (bytes > most) {
      return unsupported(
          "weight '" + w.name + "' (" + describe(raw.dtype(), raw.dims()) + ") needs " +
          std::to_string(bytes) + " bytes, the device allows buffers of " + std::to_string(most) +
          "; compile the model for this device, or with the option split-weights.bytes, which "
          "reads it in parts, or use the host device");
    }
    if (bytes >= kOwnAllocation) {
      pools.push_back({{{i, 0}}, bytes});
      continue;
    }
    if (together == SIZE_MAX || pools[together].bytes + bytes > kMostTogether) {
      together = pools.size();
      pools.emplace_back();
    }
    Pool& pool = pools[together];
    pool.members.push_back({i, pool.bytes});
    pool.bytes += bytes;
  }
  return pools;
}

/// Appends what the bytes of a packed weight follow from.
void append_key(const plan::Weight& w, const HostTensor& raw, std::string& key) {
  const std::array<uint64_t, 2> hash = package::keyed_hash(raw.bytes());
  const std::array<uint64_t, 9> parts{static_cast<uint64_t>(w.packing),
                                      static_cast<uint64_t>(w.batch),
                                      static_cast<uint64_t>(w.k),
                                      static_cast<uint64_t>(w.n),
                                      uint64_t{w.tile_n} << 1 | (w.transposed ? 1 : 0),
                                      static_cast<uint64_t>(raw.dtype()),
                                      raw.bytes().size(),
                                      hash[0],
                                      hash[1]};
  key.append(reinterpret_cast<const char*>(parts.data()), sizeof parts);
}

/// Writes weights to memory that the host may not be able to map. Each transfer waits for earlier
/// work of the device, so neighbouring small weights are transferred together.
class Uploader {
 public:
  explicit Uploader(Device& device) : device_(device) {}

  Status add(const plan::Weight& w, const HostTensor& raw, const DeviceWeights::Place& place) {
    const uint64_t bytes = w.packed_bytes(raw.bytes().size(), size_of(raw.dtype()));
    if (place.buffer->mapped()) {
      return pack_weight(w, raw,
                         {static_cast<std::byte*>(place.buffer->mapped()) + place.offset, bytes});
    }
    const bool follows = buffer_ == place.buffer && place.offset >= begin_ + block_.size();
    if (!follows || place.offset + bytes - begin_ > kBlockBytes) {
      RP_TRY(flush());
      buffer_ = place.buffer;
      begin_ = place.offset;
    }
    if (bytes > kBlockBytes && w.packing == plan::Weight::Packing::Raw)
      return device_.upload(*place.buffer, place.offset, raw.bytes());
    block_.resize(place.offset - begin_ + bytes);
    return pack_weight(w, raw, std::span(block_).last(bytes));
  }

  Status flush() {
    if (block_.empty()) return {};
    RP_TRY(device_.upload(*buffer_, begin_, block_));
    block_.clear();
    return {};
  }

 private:
  static constexpr uint64_t kBlockBytes = uint64_t{8} << 20;
  Device& device_;
  DeviceBuffer* buffer_ = nullptr;  // the destination of the block
  uint64_t begin_ = 0;
  std::vector<std::byte> block_;
};

/// The memory of a pool: that of another session with the same contents, or else new memory.
Result<std::shared_ptr<DeviceBuffer>> get_memory(const package::Package& package,
                                                 const plan::Plan& plan, const Pool& pool,
                                                 Device& device) {
  std::vector<HostTensor> raw;
  std::string key;
  for (const Pool::Member& m : pool.members) {
    const plan::Weight& w = plan.weights[m.weight];
    RP_ASSIGN(HostTensor loaded, load_weight(package, w));
    raw.push_back(std::move(loaded));
    append_key(w, raw.back(), key);
  }
  if (auto found = device.shared_memory().find(key)) return found;
  auto made = device.allocate_or_free_idle(pool.bytes, MemoryUse::Device);
  if (!made.ok()) return made.status().with_context("memory for the weights");
  Uploader uploader(device);
  for (size_t i = 0; i < raw.size(); ++i) {
    const plan::Weight& w = plan.weights[pool.members[i].weight];
    RP_TRY(uploader.add(w, raw[i], {made->get(), pool.members[i].offset})
               .with_context("weight '" + w.name + "'"));
  }
  RP_TRY(uploader.flush().with_context("weights"));
  return device.shared_memory().add(key, *std::move(made));
}

}  // namespace

Result<DeviceWeights> upload_weights(const package::Package& package, const plan::Plan& plan,
                                     Device& device) {
  DeviceWeights out;
  out.places.resize(plan.weights.size());
  RP_ASSIGN(const std::vector<Pool> pools,
            make_pools(package, plan, device.info().facts.max_buffer_bytes));
  for (const Pool& pool : pools) {
    RP_ASSIGN(auto memory, get_memory(package, plan, pool, device));
    for (const Pool::Member& m : pool.members) out.places[m.weight] = {memory.get(), m.offset};
    out.bytes += memory->size();
    out.pools.push_back(std::move(memory));
  }
  return out;
}

}  // namespace reprise
