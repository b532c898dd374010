// What workgroups of a cluster do together: addresses in each other's shared memory, the barrier of
// the cluster, and stores that count at an mbarrier (st.async).
#include <cstring>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

bool is_generic(uint64_t address) {
  return address >= kSharedWindow && address < kLocalWindow;
}

/// mapa: the same place in the shared memory of the workgroup of a rank. i.space: Cluster, unless
/// addresses are generic.
void map_to_cluster(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *rank = w.from(i.from[1]);
  for_lanes(mask, [&](uint32_t l) {
    const bool generic = i.space == Space::Generic;
    if (generic && !is_generic(a[l])) return w.fail(i, "an address that is not of shared memory");
    const uint64_t offset = generic ? a[l] - kSharedWindow : a[l];
    const auto to = static_cast<uint32_t>(rank[l]);
    if (to >= w.cluster().groups.size())
      return w.fail(i, "a workgroup that the cluster does not have: rank " + std::to_string(to));
    if (offset >> kRankShift != 0) return w.fail(i, "an address that was mapped before");
    const uint64_t mapped = uint64_t{to + 1} << kRankShift | offset;
    d[l] = generic ? kSharedWindow + mapped : mapped;
  });
}

/// getctarank: whose shared memory an address lies in.
void rank_of_address(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) {
    if (i.space == Space::Generic && !is_generic(a[l]))
      return w.fail(i, "an address that is not of shared memory");
    const uint64_t which = (is_generic(a[l]) ? a[l] - kSharedWindow : a[l]) >> kRankShift;
    if (which > w.cluster().groups.size())
      return w.fail(i, "a workgroup that the cluster does not have");
    d[l] = which == 0 ? w.group().rank : which - 1;
  });
}

/// barrier.cluster.arrive; i.number 1: .relaxed, which tells only that what lies before has run.
void arrive_at_cluster(Warp& w, const Instruction& i, uint32_t mask) {
  if (w.cluster_phase() != 0)
    return w.fail(i, "a second arrival at the barrier of the cluster without a wait between");
  w.cluster_phase() = w.cluster().barrier.phase + 1;
  const View told = w.tell(mask);
  w.cluster().arrive(w, i.number == 1 ? told.relaxed() : told);
}

void wait_for_cluster(Warp& w, const Instruction& i, uint32_t mask) {
  const ClusterBarrier& b = w.cluster().barrier;
  if (w.cluster_phase() == 0)
    return w.fail(i, "a wait for the barrier of the cluster without an arrival");
  if (w.cluster_phase() > b.phase) return w.give_way(true, "the barrier of the cluster");
  w.cluster_phase() = 0;
  w.hear(mask, b.completed);
}

/// st.async: an address, registers, an mbarrier.
void store_async(Warp& w, const Instruction& i, uint32_t mask) {
  const auto count = static_cast<uint32_t>(i.from.size() - 2), size = size_of(i.type);
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    const auto place = [&](size_t operand, size_t which) {
      const uint64_t address = w.from(i.from[operand])[l] + static_cast<uint64_t>(i.offset[which]);
      return w.place(i, Space::Cluster, address, l);
    };
    const SharedPlace to = place(0, 0), signal = place(count + 1, 1);
    if (w.failed()) return;
    if (to.group != signal.group)
      return w.fail(i, "a store whose mbarrier lies in another workgroup than its destination");
    std::vector<std::byte> bytes(size_t{count} * size);
    for (uint32_t n = 0; n < count; ++n)
      std::memcpy(&bytes[size_t{n} * size], &w.from(i.from[n + 1])[l], size);
    Delivery d{to.group, signal.offset, {{to.offset, count * size}}, false, {}};
    d.land = [at = to.offset, bytes = std::move(bytes)](Group& g) {
      std::copy(bytes.begin(), bytes.end(), g.shared.at(at));
    };
    deliver(w, i, l, std::move(d));
  });
}

bool decode_barrier(Words& w, Instruction& i, Shape&) {
  if (w.opcode() != "barrier" || !w.take("cluster")) return false;
  i.flow = Flow::Barrier;
  if (w.take("arrive")) {
    i.number = w.take_one({"release", "relaxed"}) == 1 ? 1 : 0;
    i.run = arrive_at_cluster;
  } else {
    w.take("acquire");
    i.run = wait_for_cluster;
    if (!w.take("wait")) return false;
  }
  w.take("aligned");
  return true;
}

bool decode_address(Words& w, Instruction& i, Shape& s) {
  const bool maps = w.opcode() == "mapa";
  if (!maps && w.opcode() != "getctarank") return false;
  i.space = w.take("shared::cluster") ? Space::Cluster : Space::Generic;
  i.run = maps ? map_to_cluster : rank_of_address;
  s.to = {1};
  s.from.assign(maps ? 2 : 1, 1);
  return w.take_type(i.type) && (i.type == Type::U32 || i.type == Type::U64);
}

bool decode_store_async(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "st" || !w.take("async")) return false;
  w.take("weak");
  w.take("shared::cluster");
  w.take("mbarrier::complete_tx::bytes");
  const uint32_t count = w.take("v2") ? 2 : w.take("v4") ? 4 : 1;
  i.run = store_async;
  s.from = {0, count, 0};
  return w.take_type(i.type) && size_of(i.type) >= 4;
}

}  // namespace

/// The bytes have no value until they land.
void deliver(Warp& w, const Instruction& i, uint32_t lane, Delivery d) {
  const Signal* s = known_signal(w, i, lane, {d.to, d.signal});
  if (s == nullptr) return;
  Access a = w.by(lane);
  a.async = d.async_proxy;
  a.writes = true;
  a.stamp = {s->component, 0, s->phase};
  for (const auto& [to, bytes] : d.blocks) {
    std::byte* at = w.access(i, a, {d.to, to}, bytes);
    if (at == nullptr) return;
    std::fill_n(at, bytes, std::byte{0xA5});
    d.to->shared.expect(to, bytes, true);
  }
  w.cluster().later([&w, &i, stamp = a.stamp, d = std::move(d)] {
    Signal* now = d.to->signals.find(d.signal);
    if (now == nullptr || now->component != stamp.component || now->phase != stamp.time)
      return w.fail(i, "a copy lands after the phase of its mbarrier in which it was issued");
    for (const auto& [to, bytes] : d.blocks) {
      std::fill_n(d.to->shared.at(to), bytes, std::byte{0});
      d.to->shared.expect(to, bytes, false);
    }
    d.land(*d.to);
    const std::string wrong = Signals::complete(*now, d.bytes());
    if (!wrong.empty()) w.fail(i, wrong);
    ++w.cluster().activity;
  });
}

bool decode_clusters(Words& w, Instruction& i, Shape& s) {
  const Instruction plain = i;
  for (auto* family : {decode_barrier, decode_address, decode_store_async}) {
    Words copy = w;
    i = plain;
    s = {};
    if (!family(copy, i, s)) continue;
    w = copy;
    return true;
  }
  i = plain;
  return false;
}

}  // namespace reprise::test::ptx
