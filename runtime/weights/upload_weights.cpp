// Weights in the memory of a device. Sessions share those with equal contents.
#include <algorithm>
#include <array>
#include <optional>

#include "runtime/base/align.h"
#include "runtime/plan/bind.h"
#include "runtime/weights/packer.h"
#include "runtime/weights/weights.h"

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

/// The bytes of a weight in the memory of a device whose buffers have at most `most`.
Result<uint64_t> bytes_on_device(const package::Package& package, const plan::Weight& w,
                                 uint64_t most) {
  if (w.segment >= package.weights.size()) {
    return corrupt_package("weight '" + w.name + "': there is no segment " +
                           std::to_string(w.segment));
  }
  const HostTensor& raw = package.weights[w.segment];
  RP_TRY(check_recipe(w, raw));
  const uint64_t bytes = align_up(plan::readable_bytes(w.packing.packed_bytes(
                                      package::weight_bytes(raw), size_of(raw.dtype()))),
                                  plan::kBufferAlignment);
  if (bytes <= most) return bytes;
  return unsupported("weight '" + w.name + "' (" + describe(raw.dtype(), raw.dims()) + ") needs " +
                     std::to_string(bytes) + " bytes, the device allows buffers of " +
                     std::to_string(most) +
                     "; compile the model for this device, or with the option "
                     "split-weights.bytes, which reads it in parts, or use the host device");
}

/// The place of the same weight in the same form.
DeviceWeights::Place find(const plan::Weight& w, std::span<const KnownWeights> known) {
  for (const KnownWeights& k : known) {
    for (size_t i = 0; i < k.plan.weights.size(); ++i) {
      const plan::Weight& other = k.plan.weights[i];
      if (other.segment == w.segment && k.weights.places[i].buffer && other.packing == w.packing)
        return k.weights.places[i];
    }
  }
  return {};
}

/// `places`: those that are known already.
Result<std::vector<Pool>> make_pools(const package::Package& package, const plan::Plan& plan,
                                     uint64_t most, std::span<const DeviceWeights::Place> places) {
  std::vector<Pool> pools;
  size_t together = SIZE_MAX;  // index of the pool for small weights that has room
  const std::vector<bool> used = read_by_launches(plan);
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    if (!used[i] || (i < places.size() && places[i].buffer)) continue;
    RP_ASSIGN(const uint64_t bytes, bytes_on_device(package, plan.weights[i], most));
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

/// Appends what the bytes of a packed weight follow from. `hash` is that of the raw bytes.
void append_key(const plan::Weight& w, const HostTensor& raw, const package::PieceHash& hash,
                std::string& key) {
  const std::array<uint64_t, 2> keyed = hash.keyed();
  const std::array<uint64_t, 4> parts{static_cast<uint64_t>(raw.dtype()),
                                      package::weight_bytes(raw), keyed[0], keyed[1]};
  key += w.packing.str() + ";";
  key.append(reinterpret_cast<const char*>(parts.data()), sizeof parts);
}

/// Writes weights to memory that the host may not be able to map. Each transfer waits for earlier
/// work of the device, so neighbouring small weights are transferred together.
class Uploader {
 public:
  explicit Uploader(Device& device) : device_(device) {}

  /// The next weight, of which add() gets all pieces in order. They begin at multiples of unit().
  Status begin(const plan::Weight& w, const HostTensor& raw, const DeviceWeights::Place& place) {
    const uint64_t bytes = w.packing.packed_bytes(package::weight_bytes(raw), size_of(raw.dtype()));
    packer_.emplace(w.packing, size_of(raw.dtype()));
    place_ = place;
    if (place.buffer->mapped()) {
      out_ = {static_cast<std::byte*>(place.buffer->mapped()) + place.offset, bytes};
      return {};
    }
    const bool follows = buffer_ == place.buffer && place.offset >= begin_ + block_.size();
    if (!follows || place.offset + bytes - begin_ > kBlockBytes) {
      RP_TRY(flush());
      buffer_ = place.buffer;
      begin_ = place.offset;
    }
    // Pieces of large weights are transferred as they come, if nothing changes them.
    direct_ = bytes > kBlockBytes && w.packing.is_raw();
    if (direct_) return {};
    block_.resize(place.offset - begin_ + bytes);
    out_ = std::span(block_).last(bytes);
    return {};
  }
  uint64_t unit() const { return packer_->unit(); }
  Status add(uint64_t offset, std::span<const std::byte> piece) {
    if (!place_.buffer->mapped() && direct_)
      return device_.upload(*place_.buffer, place_.offset + offset, piece);
    packer_->add(offset, piece, out_);
    return {};
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
  // The weight that comes now.
  std::optional<WeightPacker> packer_;
  DeviceWeights::Place place_;
  std::span<std::byte> out_;
  bool direct_ = false;
};

Status read_weight(const package::Package& package, const plan::Weight& w, uint64_t unit,
                   std::vector<std::byte>& scratch, const package::UseWeightPiece& use) {
  return package::read_weight(package, w.segment, unit, scratch, use)
      .with_context("weight '" + w.name + "'");
}

Result<std::string> key_of(const package::Package& package, const plan::Plan& plan,
                           const Pool& pool, std::vector<std::byte>& scratch) {
  std::string key;
  for (const Pool::Member& m : pool.members) {
    const plan::Weight& w = plan.weights[m.weight];
    package::PieceHash hash;
    RP_TRY(read_weight(package, w, 1, scratch, [&](uint64_t, std::span<const std::byte> piece) {
      hash.add(piece);
      return Status();
    }));
    append_key(w, package.weights[w.segment], hash, key);
  }
  return key;
}

/// The memory of a pool: that of another session with the same contents, or else new memory. The
/// contents are read by pieces, and again if there is memory whose contents may be the same.
Result<std::shared_ptr<DeviceBuffer>> get_memory(const package::Package& package,
                                                 const plan::Plan& plan, const Pool& pool,
                                                 Device& device, std::vector<std::byte>& scratch) {
  if (device.shared_memory().has_any()) {
    RP_ASSIGN(const std::string key, key_of(package, plan, pool, scratch));
    if (auto found = device.shared_memory().find(key)) return found;
  }
  auto made = device.allocate_or_free_idle(pool.bytes, MemoryUse::Device);
  if (!made.ok()) return made.status().with_context("memory for the weights");
  Uploader uploader(device);
  std::string key;
  for (const Pool::Member& m : pool.members) {
    const plan::Weight& w = plan.weights[m.weight];
    const HostTensor& raw = package.weights[w.segment];
    package::PieceHash hash;
    RP_TRY(uploader.begin(w, raw, {made->get(), m.offset}).with_context("weight '" + w.name + "'"));
    RP_TRY(read_weight(package, w, uploader.unit(), scratch,
                       [&](uint64_t offset, std::span<const std::byte> piece) {
                         hash.add(piece);
                         return uploader.add(offset, piece);
                       }));
    append_key(w, raw, hash, key);
  }
  RP_TRY(uploader.flush().with_context("weights"));
  return device.shared_memory().add(key, *std::move(made));
}

}  // namespace

Status check_weights_fit(const package::Package& package, const plan::Plan& plan, uint64_t most) {
  return make_pools(package, plan, most, {}).status();
}

Result<DeviceWeights> upload_weights(const package::Package& package, const plan::Plan& plan,
                                     Device& device, std::span<const KnownWeights> known) {
  DeviceWeights out;
  out.places.reserve(plan.weights.size());
  for (const plan::Weight& w : plan.weights) out.places.push_back(find(w, known));
  RP_ASSIGN(const std::vector<Pool> pools,
            make_pools(package, plan, device.info().facts.max_buffer_bytes, out.places));
  std::vector<std::byte> scratch;  // one block for all, which leaves no holes in the heap
  for (const Pool& pool : pools) {
    RP_ASSIGN(auto memory, get_memory(package, plan, pool, device, scratch));
    for (const Pool::Member& m : pool.members) out.places[m.weight] = {memory.get(), m.offset};
    out.bytes += memory->size();
    out.pools.push_back(std::move(memory));
  }
  return out;
}

}  // namespace reprise
