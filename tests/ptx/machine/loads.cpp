// ld, st, atom, red, copies that are not awaited at once (cp.async), and fences.
#include <cstring>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

uint64_t address_of(const Instruction& i, uint64_t base, size_t which = 0) {
  return base + static_cast<uint64_t>(i.offset[which]);
}

/// What a register of so many bytes, which may be more than the type has, receives.
uint64_t read_register(const std::byte* at, Type t, uint32_t width) {
  uint64_t v = 0;
  std::memcpy(&v, at, size_of(t));
  return fitted(t, v, width);
}

void load(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t* base = w.from(i.from[0]);
  const auto count = static_cast<uint32_t>(i.to.size());
  const uint32_t size = size_of(i.type);
  const bool whole = i.used_bytes == ~uint64_t{0};
  w.count(i, Mover::Load, mask, 0, size * count);
  for_lanes(mask, [&](uint32_t l) {
    const uint64_t address = address_of(i, base[l]);
    if (w.failed()) return;
    if (!whole && address % (size * count) != 0) return w.fail(i, "an address that is not aligned");
    const std::byte* at = whole ? w.access(i, i.space, address, size * count, l, false) : nullptr;
    if (whole && at == nullptr) return;
    for (uint32_t n = 0; n < count; ++n) {
      if (i.to[n] == Instruction::kNone) continue;
      const std::byte* part = at + n * size;
      if (!whole) {
        part = w.access(i, i.space, address + n * size, size, l, false);
        // What is not used may lie anywhere, but is read where it can be: NVRTC 13.0 says of some
        // parameters that they are not used, and uses them.
        const bool used = (i.used_bytes >> (n * size) & 1) != 0;
        if (part == nullptr && !used) w.forgive();
      }
      if (part != nullptr) w.to(i.to[n])[l] = read_register(part, i.type, i.width);
    }
  });
}

void store(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t* base = w.from(i.from[0]);
  const auto count = static_cast<uint32_t>(i.from.size() - 1), size = size_of(i.type);
  w.count(i, Mover::Store, mask, 0, size * count);
  for_lanes(mask, [&](uint32_t l) {
    std::byte* at = w.access(i, i.space, address_of(i, base[l]), size * count, l, true);
    if (at == nullptr) return;
    for (uint32_t n = 0; n < count; ++n)
      std::memcpy(at + n * size, &w.from(i.from[n + 1])[l], size);
  });
}

/// Takes the words that say how an access is ordered and cached, which change nothing here.
void take_hints(Words& w) {
  w.take("weak") || w.take("relaxed") || w.take("volatile") || w.take("acquire") ||
      w.take("release") || w.take("acq_rel");
  w.take_one({"cta", "cluster", "gpu", "sys"});
  w.take("ca") || w.take("cg") || w.take("cs") || w.take("lu") || w.take("cv") || w.take("wb") ||
      w.take("wt");
  w.take("nc");
}

Space take_space(Words& w) {
  const int n = w.take_one({"param", "global", "shared", "local", "const", "shared::cta",
                            "shared::cluster", "param::entry"});
  constexpr Space kFound[] = {Space::Param,  Space::Global, Space::Shared,  Space::Local,
                              Space::Global, Space::Shared, Space::Cluster, Space::Param};
  return n < 0 ? Space::Generic : kFound[n];
}

bool decode_access(Words& w, Instruction& i, Shape& s) {
  const bool loads = w.opcode() == "ld";
  if (!loads && w.opcode() != "st") return false;
  take_hints(w);
  i.space = take_space(w);
  // The parameters of a call lie in a thread's own memory, those of the kernel do not.
  if (i.space == Space::Param) i.space = Space::Generic;
  const uint32_t count = w.take("v2") ? 2 : w.take("v4") ? 4 : 1;
  if (!w.take_type(i.type) || i.type == Type::Pred) return false;
  if (loads) {
    s.to = {count};
    s.from = {0};
  } else {
    s.from = {0, count};
  }
  i.run = loads ? load : store;
  return count * size_of(i.type) <= 16;
}

enum class Change : uint8_t { Add, Min, Max, And, Or, Xor, Exch, Cas };

template <typename T>
uint64_t changed(Change c, T old, T with, T other) {
  switch (c) {
    case Change::Add:
      return bits(static_cast<T>(old + with));
    case Change::Min:
      return bits(std::min(old, with));
    case Change::Max:
      return bits(std::max(old, with));
    case Change::Exch:
      return bits(with);
    case Change::Cas:
      return bits(old == with ? other : old);
    default:
      break;
  }
  const uint64_t a = bits(old), b = bits(with);
  return c == Change::And ? a & b : c == Change::Or ? a | b : a ^ b;
}

/// atom and red: i.number is the change; without a destination nothing is returned.
template <typename T>
void change(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t* base = w.from(i.from[0]);
  const auto kind = static_cast<Change>(i.number);
  for_lanes(mask, [&](uint32_t l) {
    std::byte* at = w.access(i, i.space, address_of(i, base[l]), sizeof(T), l, true, true);
    if (at == nullptr) return;
    const uint64_t old = read_register(at, i.type, sizeof(T));
    const uint64_t with = w.from(i.from[1])[l];
    const uint64_t other = i.from.size() > 2 ? w.from(i.from[2])[l] : 0;
    const uint64_t now = changed<T>(kind, value<T>(old), value<T>(with), value<T>(other));
    std::memcpy(at, &now, sizeof(T));
    if (!i.to.empty() && i.to[0] != Instruction::kNone) w.to(i.to[0])[l] = bits(value<T>(old));
  });
}

bool decode_atomic(Words& w, Instruction& i, Shape& s) {
  const bool returns = w.opcode() == "atom";
  if (!returns && w.opcode() != "red") return false;
  take_hints(w);
  i.space = take_space(w);
  const int kind = w.take_one({"add", "min", "max", "and", "or", "xor", "exch", "cas"});
  if (kind < 0 || !w.take_type(i.type)) return false;
  i.number = static_cast<uint32_t>(kind);
  s.to.assign(returns ? 1 : 0, 1);
  s.from = {0, 1};
  if (kind == 7) s.from = {0, 1, 1};
  const bool by_bits = kind >= 3, sum = kind == 0;
  switch (i.type) {
    case Type::B32:
      i.run = change<uint32_t>;
      return by_bits;
    case Type::B64:
      i.run = change<uint64_t>;
      return by_bits;
    case Type::U32:
      i.run = change<uint32_t>;
      return true;
    case Type::U64:
      i.run = change<uint64_t>;
      return true;
    case Type::S32:
      i.run = change<int32_t>;
      return true;
    case Type::S64:
      i.run = change<int64_t>;
      return true;
    case Type::F32:
      i.run = change<float>;
      return sum;
    case Type::F64:
      i.run = change<double>;
      return sum;
    default:
      return false;
  }
}

/// cp.async: the destination, the source, the size (i.number) and, if given, how many bytes are
/// taken from the source.
void copy_later(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t *to = w.from(i.from[0]), *from = w.from(i.from[1]);
  const uint64_t* size = w.from(i.from[2]);
  const uint64_t* taken = i.from.size() > 3 ? w.from(i.from[3]) : size;
  uint32_t taking = 0;
  for_lanes(mask, [&](uint32_t l) { taking |= taken[l] > 0 ? 1U << l : 0; });
  const auto bytes = static_cast<uint32_t>(size[std::countr_zero(mask)]);
  w.count(i, Mover::Copy, mask, 0, bytes);
  w.count(i, Mover::Copy, taking, 1, bytes);
  for_lanes(mask, [&](uint32_t l) {
    const auto copy = std::make_shared<Copy>();
    Copy& c = *copy;
    const uint64_t address = address_of(i, to[l]);
    c.from = address_of(i, from[l], 1);
    c.bytes = static_cast<uint32_t>(size[l]);
    c.taken = static_cast<uint32_t>(taken[l]);
    c.line = i.line;
    const bool small = c.bytes == 4 || c.bytes == 8;
    if (c.bytes != 16 && !(small && i.number == 0)) return w.fail(i, "a copy of another size");
    if (c.taken > c.bytes) return w.fail(i, "a copy that takes more bytes than it writes");
    if (c.from % c.bytes != 0) return w.fail(i, "a copy from an address that is not aligned");
    if (address >= kSharedWindow) return w.fail(i, "a copy to a generic address");
    c.to = w.place(i, Space::Shared, address, l).offset;
    if (w.failed()) return;
    if (c.taken > 0) {
      // Checked where it is issued; read where it takes place.
      if (w.global_bytes(i, c.from, c.taken) == nullptr) return;
    }
    if (w.access(i, Space::Shared, c.to, c.bytes, l, true) == nullptr) return;
    Cluster& all = w.cluster();
    const bool now = all.options.copies == Completion::Early ||
                     (all.options.copies == Completion::Random && all.random() % 2 == 0);
    w.group().shared.expect(c.to, c.bytes, true);
    if (now) w.transfer(i, c);
    w.copies(l).back().push_back(copy);
  });
}

void commit(Warp& w, const Instruction&, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) { w.copies(l).emplace_back(); });
}

/// wait_group n: at most the latest n groups may be in flight; wait_all (i.number 1): none.
void await(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    auto& groups = w.copies(l);
    // The last is the one that has not been committed.
    if (i.number == 1) groups.emplace_back();
    const uint64_t allowed = i.number == 1 ? 0 : w.from(i.from[0])[l];
    while (groups.size() > allowed + 1) {
      for (const auto& c : groups.front()) w.complete(i, *c, l);
      groups.pop_front();
    }
  });
}

bool decode_copies(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "cp" || !w.take("async") || w.take("bulk")) return false;
  if (w.take("commit_group")) {
    i.run = commit;
    return true;
  }
  if (w.take("wait_all")) {
    i.run = await;
    i.number = 1;
    return true;
  }
  if (w.take("wait_group")) {
    i.run = await;
    s.from = {1};
    return true;
  }
  const int cache = w.take_one({"ca", "cg"});
  const bool shared = w.take("shared") || w.take("shared::cta");
  w.take_one({"L2::64B", "L2::128B", "L2::256B"});
  i.number = static_cast<uint32_t>(cache);
  i.run = copy_later;
  s.from = {0, 0, 1, 1};
  s.optional_from = true;
  return cache >= 0 && shared && w.take("global");
}

void nothing(Warp&, const Instruction&, uint32_t) {}

/// The mbarriers that a lane has initialised are those of everybody who knows that this is over,
/// as after a relaxed arrival at the cluster's barrier.
void fence_signals(Warp& w, const Instruction&, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    const Stamp now = w.by(l).stamp;
    for (auto& [offset, s] : w.group().signals.all())
      if (s.made.component == now.component && s.made.lanes == now.lanes) s.fenced = now;
  });
}

void fence_async(Warp& w, const Instruction&, uint32_t mask) {
  w.fence_async(mask);
}

bool decode_fences(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "membar" && w.opcode() != "fence") return false;
  i.run = nothing;  // memory is the same for all threads here
  if (w.take("mbarrier_init")) {
    i.run = fence_signals;
    return w.take("release") && w.take("cluster");
  }
  if (w.take("proxy")) {
    if (w.take("async")) {
      const bool global = w.take("global");
      if (!global) i.run = fence_async;
      w.take_one({"shared::cta", "shared::cluster"});
      return true;
    }
    if (w.take("alias")) return true;
    // A map is in memory that does not change during a launch.
    const bool map = w.take("tensormap::generic"), acquire = w.take("acquire");
    if (acquire) s.from = {0, 1};
    return map && (acquire || w.take("release")) &&
           w.take_one({"cta", "cluster", "gpu", "sys"}) >= 0;
  }
  w.take_one({"sc", "acq_rel"});
  return w.take_one({"cta", "cluster", "gl", "gpu", "sys"}) >= 0;
}

}  // namespace

bool decode_memory(Words& w, Instruction& i, Shape& s) {
  const Instruction plain = i;
  for (auto* family : {decode_access, decode_atomic, decode_copies, decode_fences}) {
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
