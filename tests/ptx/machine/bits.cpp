// mov, logic, shifts, and what counts, takes and permutes bits.
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

uint64_t both(uint64_t a, uint64_t b) {
  return a & b;
}
uint64_t either(uint64_t a, uint64_t b) {
  return a | b;
}
uint64_t differing(uint64_t a, uint64_t b) {
  return a ^ b;
}

/// All ones in the instruction's type.
uint64_t ones(Type t) {
  return t == Type::Pred ? 1 : ~uint64_t{0} >> (64 - 8 * size_of(t));
}

void invert(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = ~a[l] & ones(i.type); });
}

bool bit_type(Type t) {
  return t == Type::Pred || t == Type::B16 || t == Type::B32 || t == Type::B64;
}

bool decode_logic(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op != "and" && op != "or" && op != "xor" && op != "not") return false;
  if (!w.take_type(i.type) || !bit_type(i.type)) return false;
  i.run = op == "and"   ? binary<uint64_t, both>
          : op == "or"  ? binary<uint64_t, either>
          : op == "xor" ? binary<uint64_t, differing>
                        : invert;
  s.to = {1};
  s.from.assign(op == "not" ? 1 : 2, 1);
  return true;
}

template <typename T>
void shift_left(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  for_lanes(mask, [&](uint32_t l) {
    const auto by = static_cast<uint32_t>(b[l]);
    d[l] = by >= 8 * sizeof(T) ? 0 : static_cast<T>(value<T>(a[l]) << by);
  });
}
template <typename T>
void shift_right(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  for_lanes(mask, [&](uint32_t l) {
    const uint32_t by = std::min<uint32_t>(static_cast<uint32_t>(b[l]), 8 * sizeof(T));
    const T v = value<T>(a[l]);
    const T all = v < 0 ? static_cast<T>(-1) : T{0};
    d[l] = bits<T>(by == 8 * sizeof(T) ? all : static_cast<T>(v >> by));
  });
}

bool decode_shifts(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "shl" && w.opcode() != "shr") return false;
  const bool left = w.opcode() == "shl";
  if (!w.take_type(i.type)) return false;
  s = {{1}, {1, 1}, false, false};
  switch (i.type) {
    case Type::B16:
      i.run = left ? shift_left<uint16_t> : shift_right<uint16_t>;
      return true;
    case Type::B32:
      i.run = left ? shift_left<uint32_t> : shift_right<uint32_t>;
      return true;
    case Type::B64:
      i.run = left ? shift_left<uint64_t> : shift_right<uint64_t>;
      return true;
    case Type::U16:
      i.run = shift_right<uint16_t>;
      return !left;
    case Type::U32:
      i.run = shift_right<uint32_t>;
      return !left;
    case Type::U64:
      i.run = shift_right<uint64_t>;
      return !left;
    case Type::S16:
      i.run = shift_right<int16_t>;
      return !left;
    case Type::S32:
      i.run = shift_right<int32_t>;
      return !left;
    case Type::S64:
      i.run = shift_right<int64_t>;
      return !left;
    default:
      return false;
  }
}

/// A register to a register, to the parts of a vector, or from them.
void move(Warp& w, const Instruction& i, uint32_t mask) {
  const size_t parts = std::max(i.to.size(), i.from.size());
  const uint32_t width = 8 * size_of(i.type) / static_cast<uint32_t>(parts);
  const uint64_t part = ~uint64_t{0} >> (64 - width);
  for_lanes(mask, [&](uint32_t l) {
    uint64_t whole = 0;
    for (size_t n = 0; n < i.from.size(); ++n) {
      const uint64_t v = w.from(i.from[n])[l];
      whole |= i.from.size() == 1 ? v : (v & part) << (n * width);
    }
    for (size_t n = 0; n < i.to.size(); ++n) {
      if (i.to[n] == Instruction::kNone) continue;
      w.to(i.to[n])[l] = i.to.size() == 1 ? whole : whole >> (n * width) & part;
    }
  });
}
void copy(Warp& w, const Instruction& i, uint32_t mask) {
  if (i.to.size() + i.from.size() > 2) return move(w, i, mask);
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* a = w.from(i.from[0]);
  const uint64_t kept = ones(i.type);
  for_lanes(mask, [&](uint32_t l) { d[l] = a[l] & kept; });
}

bool decode_moves(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "mov" || !w.take_type(i.type)) return false;
  i.run = copy;
  i.moves = true;
  i.takes_undefined = true;
  s = {{Shape::kAny}, {Shape::kAny}, false, false};
  return true;
}

uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t all = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (uint32_t n = 0; n < 4; ++n) {
    const uint32_t choice = selector >> (4 * n) & 15;
    auto byte = static_cast<uint32_t>(all >> (8 * (choice & 7)) & 255);
    if ((choice & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;  // its sign, in all bits
    out |= byte << (8 * n);
  }
  return out;
}

template <typename T>
uint32_t ones_in(T v) {
  return static_cast<uint32_t>(std::popcount(v));
}
template <typename T>
uint32_t leading_zeros(T v) {
  return static_cast<uint32_t>(std::countl_zero(v));
}
template <typename T>
T reversed(T v) {
  T out = 0;
  for (size_t n = 0; n < 8 * sizeof(T); ++n, v >>= 1) out = static_cast<T>(out << 1 | (v & 1));
  return out;
}
/// The place of the highest bit that differs from the sign; all ones if none does.
template <typename T>
uint32_t highest(T v) {
  using U = std::make_unsigned_t<T>;
  const U u = v < 0 ? static_cast<U>(~v) : static_cast<U>(v);
  return u == 0 ? ~0U : static_cast<uint32_t>(8 * sizeof(T) - 1) - leading_zeros(u);
}
/// By how much that bit is to be shifted to be the highest.
template <typename T>
uint32_t shift_to_top(T v) {
  const uint32_t at = highest(v);
  return at == ~0U ? at : static_cast<uint32_t>(8 * sizeof(T) - 1) - at;
}
template <typename T>
T extracted(T v, uint32_t at, uint32_t length) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  using U = std::make_unsigned_t<T>;
  at &= 255;
  length &= 255;
  if (length == 0) return 0;
  const bool sign = std::is_signed_v<T> && (v >> std::min(at + length - 1, kWidth - 1) & 1) != 0;
  const U taken = at >= kWidth ? 0 : static_cast<U>(static_cast<U>(v) >> at);
  const uint32_t kept = at >= kWidth ? 0 : std::min(length, kWidth - at);
  if (kept >= kWidth) return static_cast<T>(taken);
  const U low = static_cast<U>((U{1} << kept) - 1);
  return static_cast<T>(sign ? (taken | static_cast<U>(~low)) : (taken & low));
}
template <typename T>
void extract(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *c = w.from(i.from[2]);
  for_lanes(mask, [&](uint32_t l) {
    d[l] = bits(extracted(value<T>(a[l]), value<uint32_t>(b[l]), value<uint32_t>(c[l])));
  });
}
template <typename T>
void insert(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  const uint64_t *c = w.from(i.from[2]), *e = w.from(i.from[3]);
  for_lanes(mask, [&](uint32_t l) {
    const uint64_t at = c[l] & 255, length = e[l] & 255;
    uint64_t kept = length >= 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1;
    kept = at >= 64 ? 0 : kept << at;
    d[l] = static_cast<T>((b[l] & ~kept) | ((at >= 64 ? 0 : a[l] << at) & kept));
  });
}

/// shf: i.number is 0 for left, 1 for right; i.flush clamps the amount rather than wrapping it.
void funnel(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *c = w.from(i.from[2]);
  for_lanes(mask, [&](uint32_t l) {
    const uint64_t all = b[l] << 32 | a[l];
    const auto amount = static_cast<uint32_t>(c[l]);
    const uint32_t by = i.flush ? std::min(amount, 32U) : amount & 31;
    d[l] = static_cast<uint32_t>(i.number == 0 ? all << by >> 32 : all >> by);
  });
}

/// lop3: bit 4a + 2b + c of the table.
void table(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]);
  const uint64_t *c = w.from(i.from[2]), *t = w.from(i.from[3]);
  for_lanes(mask, [&](uint32_t l) {
    uint64_t r = 0;
    for (uint32_t n = 0; n < 8; ++n) {
      if ((t[l] >> n & 1) == 0) continue;
      r |= ((n & 4) != 0 ? a[l] : ~a[l]) & ((n & 2) != 0 ? b[l] : ~b[l]) &
           ((n & 1) != 0 ? c[l] : ~c[l]);
    }
    d[l] = static_cast<uint32_t>(r);
  });
}

/// dp4a: i.type and i.source_type are those of the bytes of a and of b.
void dot(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *c = w.from(i.from[2]);
  const auto byte = [](uint64_t v, uint32_t n, Type t) {
    const auto u = static_cast<uint8_t>(v >> (8 * n));
    return t == Type::S32 ? static_cast<int64_t>(static_cast<int8_t>(u)) : int64_t{u};
  };
  for_lanes(mask, [&](uint32_t l) {
    auto sum = static_cast<int64_t>(c[l]);
    for (uint32_t n = 0; n < 4; ++n) sum += byte(a[l], n, i.type) * byte(b[l], n, i.source_type);
    d[l] = static_cast<uint32_t>(sum);
  });
}

template <typename T>
Handler counting(const std::string& op) {
  if (op == "popc") return unary<T, ones_in<T>>;
  if (op == "clz") return unary<T, leading_zeros<T>>;
  if (op == "brev") return unary<T, reversed<T>>;
  return nullptr;
}

template <typename T>
Handler finding(bool amount) {
  return amount ? unary<T, shift_to_top<T>> : unary<T, highest<T>>;
}

bool decode_counting(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  s = {{1}, {1}, false, false};
  if (op == "popc" || op == "clz" || op == "brev") {
    if (!w.take_type(i.type)) return false;
    if (i.type == Type::B32) i.run = counting<uint32_t>(op);
    if (i.type == Type::B64) i.run = counting<uint64_t>(op);
    return i.run != nullptr;
  }
  if (op != "bfind") return false;
  const bool amount = w.take("shiftamt");
  if (!w.take_type(i.type)) return false;
  if (i.type == Type::U32) i.run = finding<uint32_t>(amount);
  if (i.type == Type::S32) i.run = finding<int32_t>(amount);
  if (i.type == Type::U64) i.run = finding<uint64_t>(amount);
  if (i.type == Type::S64) i.run = finding<int64_t>(amount);
  return i.run != nullptr;
}

bool decode_fields(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  s.to = {1};
  if (op == "shf") {
    i.number = w.take("l") ? 0 : w.take("r") ? 1 : 2;
    i.flush = w.take("clamp");
    s.from = {1, 1, 1};
    i.run = funnel;
    return i.number < 2 && (i.flush || w.take("wrap")) && w.take("b32");
  }
  if (op == "dp4a") {
    s.from = {1, 1, 1};
    i.run = dot;
    return w.take_type(i.type) && w.take_type(i.source_type);
  }
  if (!w.take_type(i.type)) return false;
  if (op == "prmt") i.run = i.type == Type::B32 ? ternary<uint32_t, permuted> : nullptr;
  if (op == "lop3") i.run = i.type == Type::B32 ? table : nullptr;
  if (op == "bfi")
    i.run = i.type == Type::B32   ? insert<uint32_t>
            : i.type == Type::B64 ? insert<uint64_t>
                                  : nullptr;
  if (op == "bfe")
    i.run = i.type == Type::U32   ? extract<uint32_t>
            : i.type == Type::S32 ? extract<int32_t>
            : i.type == Type::U64 ? extract<uint64_t>
            : i.type == Type::S64 ? extract<int64_t>
                                  : nullptr;
  s.from.assign(op == "lop3" || op == "bfi" ? 4 : 3, 1);
  return i.run != nullptr;
}

}  // namespace

bool decode_bits(Words& w, Instruction& i, Shape& s) {
  const Instruction plain = i;
  for (auto* family : {decode_moves, decode_logic, decode_shifts, decode_counting, decode_fields}) {
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
