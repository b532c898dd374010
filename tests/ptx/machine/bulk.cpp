// cp.async.bulk: copies of the async proxy, of lines of memory and of boxes of tensors.
#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/cuda_shim/tensor_map.h"
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/swizzle.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

// Instruction::detail: whether a copy lands in several workgroups.
bool is_multicast(const Instruction& i) {
  return i.detail[0] != 0;
}

// Bytes that are contiguous in both memories.
struct Piece {
  uint64_t shared, device;
  uint32_t bytes;
};

/// What a copy moves: pieces between the two memories, and bytes of shared memory that become
/// zeros.
struct Transfer {
  std::vector<Piece> pieces;
  std::vector<std::pair<uint64_t, uint32_t>> shared;  // everything, in blocks of 16 bytes
  uint32_t bytes = 0;
  Group* source = nullptr;  // the pieces of `device` are offsets in its shared memory
};

SharedPlace shared_place(Warp& w, const Instruction& i, Space space, uint32_t from, uint32_t which,
                         uint32_t lane) {
  return w.place(i, space, w.from(i.from[from])[lane] + static_cast<uint64_t>(i.offset[which]),
                 lane);
}

std::optional<TensorMap> map_at(Warp& w, const Instruction& i, uint64_t address, uint32_t lane) {
  TensorMap map{};
  for (uint32_t half = 0; half < 2; ++half) {
    const std::byte* at = w.access(i, Space::Generic, address + 64 * half, 64, lane, false);
    if (at == nullptr) return std::nullopt;
    std::memcpy(reinterpret_cast<std::byte*>(&map) + size_t{64} * half, at, 64);
  }
  const auto refuse = [&](const char* why) {
    w.fail(i, why);
    return std::nullopt;
  };
  if (map.magic != kTensorMapMagic) return refuse("an address that is not one of a tensor map");
  if (map.interleave != 0) return refuse("an interleaved tensor map is not known");
  if (map.fill != 0) return refuse("a tensor map that fills with NaN is not known");
  // NVIDIA's document does not say where the lines of such a box lie.
  if (map.swizzle != 0 && map.box[0] * map.strides[0] != uint64_t{16} << map.swizzle)
    return refuse("a box narrower than its swizzle is not known");
  return map;
}

/// The elements of one line of a box, which begins at `first`; `device` is the address of the
/// element at coordinate 0.
void add_line(Transfer& t, const TensorMap& map, int64_t first, std::optional<uint64_t> device,
              uint64_t shared) {
  const auto size = static_cast<int64_t>(map.strides[0]);
  const int64_t count = map.box[0], dim = static_cast<int64_t>(map.dims[0]);
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(dim - first, 0, count);
  for (int64_t block = 0; block < count * size; block += 16) {
    const uint64_t to = swizzled(shared + static_cast<uint64_t>(block), map.swizzle);
    t.shared.emplace_back(to, 16);
    const int64_t from = std::max(begin * size, block), last = std::min(end * size, block + 16);
    if (!device.has_value() || from >= last) continue;
    t.pieces.push_back({to + static_cast<uint64_t>(from - block),
                        *device + static_cast<uint64_t>(first * size + from),
                        static_cast<uint32_t>(last - from)});
  }
}

/// A box at these coordinates. What lies outside of the tensor is no piece.
Transfer box_of(const TensorMap& map, const std::array<int32_t, TensorMap::kDims>& at,
                uint64_t shared) {
  Transfer t;
  std::array<uint32_t, TensorMap::kDims> n{};
  const uint64_t line = map.box[0] * map.strides[0];
  while (true) {
    std::optional<uint64_t> device = map.address;
    for (uint32_t d = 1; d < map.rank; ++d) {
      const int64_t c = int64_t{at[d]} + int64_t{n[d]} * map.steps[d];
      if (c < 0 || c >= static_cast<int64_t>(map.dims[d]))
        device.reset();
      else if (device)
        *device += static_cast<uint64_t>(c) * map.strides[d];
    }
    add_line(t, map, at[0], device, shared + t.bytes);
    t.bytes += static_cast<uint32_t>(line);
    uint32_t d = 1;
    for (; d < map.rank && ++n[d] == map.count(d); ++d) n[d] = 0;
    if (d >= map.rank) return t;
  }
}

Transfer line_of(uint64_t shared, uint64_t device, uint32_t bytes) {
  Transfer t;
  t.bytes = bytes;
  for (uint32_t n = 0; n < bytes; n += 16) {
    t.shared.emplace_back(shared + n, 16);
    t.pieces.push_back({shared + n, device + n, 16});
  }
  return t;
}

/// To shared memory of one workgroup.
void issue_load(Warp& w, const Instruction& i, uint32_t lane, const SharedPlace& signal,
                Transfer t) {
  const Signal* s = known_signal(w, i, lane, signal);
  if (s == nullptr) return;
  Access a = w.by(lane);
  a.async = true;
  a.stamp = {s->component, 0, s->phase};
  for (const Piece& p : t.pieces) {
    const std::byte* from = t.source == nullptr ? w.global_bytes(i, p.device, p.bytes)
                                                : w.access(i, a, {t.source, p.device}, p.bytes);
    if (from == nullptr) return;
  }
  Delivery d{signal.group, signal.offset, std::move(t.shared), true, {}};
  d.land = [&w, &i, pieces = std::move(t.pieces), source = t.source](Group& to) {
    for (const Piece& p : pieces) {
      const std::byte* from =
          source == nullptr ? w.global_bytes(i, p.device, p.bytes) : source->shared.at(p.device);
      std::copy_n(from, p.bytes, to.shared.at(p.shared));
    }
  };
  deliver(w, i, lane, std::move(d));
}

/// Where a copy lands: at the same offsets in all workgroups that a mask names, or in one.
void issue_loads(Warp& w, const Instruction& i, uint32_t lane, const SharedPlace& to,
                 const SharedPlace& signal, uint32_t mask_operand, const Transfer& t) {
  if (to.group != signal.group)
    return w.fail(i, "a copy whose mbarrier lies in another workgroup than its destination");
  if (!is_multicast(i)) return issue_load(w, i, lane, signal, t);
  const auto& groups = w.cluster().groups;
  const uint64_t mask = w.from(i.from[mask_operand])[lane] & 0xFFFF;
  if (mask == 0 || mask >> groups.size() != 0)
    return w.fail(i, "a copy to workgroups " + std::to_string(mask) + " (bits) of a cluster of " +
                         std::to_string(groups.size()));
  for (uint32_t rank = 0; rank < groups.size() && !w.failed(); ++rank) {
    if ((mask >> rank & 1) == 0 || !w.may_reach(i, *groups[rank], lane)) continue;
    issue_load(w, i, lane, {groups[rank].get(), signal.offset}, t);
  }
}

/// To global memory, as a part of the lane's next bulk group.
void issue_store(Warp& w, const Instruction& i, uint32_t lane, Transfer t) {
  Access a = w.by(lane);
  a.async = true;
  a.stamp = {w.bulk_component(lane), 0, w.bulk_groups(lane)};
  for (const Piece& p : t.pieces) {
    if (w.global_bytes(i, p.device, p.bytes, true) == nullptr) return;
    for (uint32_t n = 0; n < p.bytes; ++n)
      if (w.access(i, a, {&w.group(), p.shared + n}, 1) == nullptr) return;
  }
  const auto copy = std::make_shared<BulkCopy>();
  copy->land = [&w, &i, t = std::move(t)] {
    for (const Piece& p : t.pieces)
      std::copy_n(w.group().shared.at(p.shared), p.bytes,
                  w.global_bytes(i, p.device, p.bytes, true));
  };
  w.bulk(lane).back().push_back(copy);
  w.cluster().later([copy] {
    if (!std::exchange(copy->done, true)) copy->land();
  });
}

/// The box that a lane means: the map is operand `first`, its coordinates follow.
std::optional<Transfer> box_at(Warp& w, const Instruction& i, uint32_t first, uint64_t shared,
                               uint32_t lane) {
  const auto map = map_at(w, i, w.from(i.from[first])[lane], lane);
  if (!map) return std::nullopt;
  const auto refuse = [&](const char* why) {
    w.fail(i, why);
    return std::nullopt;
  };
  if (map->rank != i.number) return refuse("a tensor map of another rank");
  if (shared % 128 != 0) return refuse("a box in shared memory that is not aligned to 128 bytes");
  std::array<int32_t, TensorMap::kDims> at{};
  for (uint32_t d = 0; d < i.number; ++d)
    at[d] = static_cast<int32_t>(w.from(i.from[first + 1 + d])[lane]);
  return box_of(*map, at, shared);
}

bool has_rank(Warp& w, const Instruction& i, size_t others) {
  if (i.from.size() == i.number + others || i.from.size() == i.number + others + 1) return true;
  w.fail(i, "another number of coordinates than dimensions");
  return false;
}

void load_boxes(Warp& w, const Instruction& i, uint32_t mask) {
  if (!has_rank(w, i, is_multicast(i) ? 4 : 3)) return;
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    const SharedPlace to = shared_place(w, i, i.space, 0, 0, l);
    const SharedPlace signal = shared_place(w, i, i.space, i.number + 2, 1, l);
    if (w.failed()) return;
    const auto t = box_at(w, i, 1, to.offset, l);
    if (t) issue_loads(w, i, l, to, signal, i.number + 3, *t);
  });
}

void store_boxes(Warp& w, const Instruction& i, uint32_t mask) {
  if (!has_rank(w, i, 2)) return;
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    for (uint32_t d = 0; d < i.number; ++d)
      if (static_cast<int32_t>(w.from(i.from[1 + d])[l]) < 0)
        return w.fail(i, "a store of a box that begins before the tensor");
    const SharedPlace from = shared_place(w, i, Space::Shared, i.number + 1, 0, l);
    if (w.failed()) return;
    auto t = box_at(w, i, 0, from.offset, l);
    if (t) issue_store(w, i, l, std::move(*t));
  });
}

void prefetch_boxes(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    if (!w.failed()) map_at(w, i, w.from(i.from[0])[l], l);
  });
}

bool is_line(Warp& w, const Instruction& i, uint64_t to, uint64_t from, uint64_t bytes) {
  if (to % 16 == 0 && from % 16 == 0 && bytes % 16 == 0) return true;
  w.fail(i, "a bulk copy whose addresses or size are no multiples of 16 bytes");
  return false;
}

/// From global memory, or (i.source_space) from the workgroup's own shared memory.
void load_lines(Warp& w, const Instruction& i, uint32_t mask) {
  const bool of_shared = i.source_space == Space::Shared;
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    const SharedPlace to = shared_place(w, i, i.space, 0, 0, l);
    const SharedPlace signal = shared_place(w, i, i.space, 3, 2, l);
    uint64_t from = w.from(i.from[1])[l] + static_cast<uint64_t>(i.offset[1]);
    if (of_shared) from = w.place(i, Space::Shared, from, l).offset;
    const auto bytes = static_cast<uint32_t>(w.from(i.from[2])[l]);
    if (w.failed() || !is_line(w, i, to.offset, from, bytes)) return;
    Transfer t = line_of(to.offset, from, bytes);
    if (of_shared) t.source = &w.group();
    issue_loads(w, i, l, to, signal, 4, t);
  });
}

void store_lines(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    const uint64_t to = w.from(i.from[0])[l] + static_cast<uint64_t>(i.offset[0]);
    const SharedPlace from = shared_place(w, i, Space::Shared, 1, 1, l);
    const auto bytes = static_cast<uint32_t>(w.from(i.from[2])[l]);
    if (w.failed() || !is_line(w, i, to, from.offset, bytes)) return;
    issue_store(w, i, l, line_of(from.offset, to, bytes));
  });
}

void commit_bulk(Warp& w, const Instruction&, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    w.bulk(l).emplace_back();
    ++w.bulk_groups(l);
  });
}

/// wait_group N and wait_group.read N. What waits for less cannot tell here.
void await_bulk(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    auto& groups = w.bulk(l);
    const uint64_t allowed = w.from(i.from[0])[l];
    while (groups.size() > allowed + 1) {
      for (const auto& copy : groups.front())
        if (!std::exchange(copy->done, true)) copy->land();
      groups.pop_front();
    }
    const auto pending = static_cast<uint32_t>(groups.size() - 1);
    if (w.bulk_groups(l) > 0) w.view(l).seen.raise(w.bulk_component(l), w.bulk_groups(l) - pending);
  });
}

void prefetch_lines(Warp&, const Instruction&, uint32_t) {}

/// What follows the mbarrier of a load: the mask of its workgroups, and a hint.
bool take_destination(Words& w, Instruction& i, Shape& s) {
  const int space = w.take_one({"shared::cluster", "shared::cta"});
  i.space = space == 0 ? Space::Cluster : Space::Shared;
  const bool multicast = w.take("multicast::cluster");
  i.detail[0] = multicast ? 1 : 0;
  if (multicast) s.from.push_back(1);
  if (s.optional_from) s.from.push_back(1);
  return w.take("mbarrier::complete_tx::bytes") && space >= 0 && (space == 0 || !multicast);
}

bool decode_tensor(Words& w, Instruction& i, Shape& s) {
  const int rank = w.take_one({"1d", "2d", "3d", "4d", "5d"});
  if (rank < 0) return false;
  i.number = static_cast<uint32_t>(rank) + 1;
  w.take("tile");
  s.optional_from = w.take("L2::cache_hint");
  if (w.take("prefetch")) {
    i.run = prefetch_boxes;
    s.from = {Shape::kTensor};
    if (s.optional_from) s.from.push_back(1);
    return w.take("L2") && w.take("global");
  }
  if (!w.take("global")) return false;
  if (w.take("bulk_group")) {
    i.run = store_boxes;
    s.from = {Shape::kTensor, 0};
    if (s.optional_from) s.from.push_back(1);
    return w.take("shared::cta");
  }
  i.run = load_boxes;
  s.from = {0, Shape::kTensor, 0};
  return take_destination(w, i, s);
}

bool decode_lines(Words& w, Instruction& i, Shape& s) {
  s.optional_from = w.take("L2::cache_hint");
  if (!w.take("global")) {
    i.run = load_lines;
    i.source_space = Space::Shared;
    s = {{}, {0, 0, 1, 0}, false, false};
    return w.take("shared::cta") && take_destination(w, i, s) && i.space == Space::Cluster &&
           !is_multicast(i);
  }
  if (w.take("prefetch")) {
    i.run = prefetch_lines;
    s.from = {0, 1};
    if (s.optional_from) s.from.push_back(1);
    return w.take("L2");
  }
  if (w.take("bulk_group")) {
    i.run = store_lines;
    s.from = {0, 0, 1};
    if (s.optional_from) s.from.push_back(1);
    return w.take("shared::cta");
  }
  i.run = load_lines;
  s.from = {0, 0, 1, 0};
  return take_destination(w, i, s);
}

bool decode_whole(Words& w, Instruction& i, Shape& s) {
  if (!w.take("async") || !w.take("bulk")) return false;
  if (w.take("commit_group")) {
    i.run = commit_bulk;
    return true;
  }
  if (w.take("wait_group")) {
    w.take("read");
    i.run = await_bulk;
    s.from = {1};
    return true;
  }
  return w.take("tensor") ? decode_tensor(w, i, s) : decode_lines(w, i, s);
}

}  // namespace

bool decode_bulk(Words& w, Instruction& i, Shape& s) {
  const bool map = w.opcode() == "prefetch";
  if (!map && w.opcode() != "cp") return false;
  Words copy = w;
  if (map) {
    i.run = prefetch_boxes;
    s.from = {0};
    copy.take("param");
  }
  if (map ? !copy.take("tensormap") : !decode_whole(copy, i, s)) {
    i.run = nullptr;
    s = {};
    return false;
  }
  w = copy;
  return true;
}

}  // namespace reprise::test::ptx
