// wgmma: products of a warpgroup, with operands in shared memory that descriptors say where to
// find.
#include <charconv>
#include <cstring>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/small_floats.h"
#include "tests/ptx/machine/swizzle.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

enum class Element : uint8_t { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
enum class Sum : uint8_t { F16, F32, S32 };
constexpr std::array<std::string_view, 7> kElements{"f16",  "bf16", "tf32", "e4m3",
                                                    "e5m2", "s8",   "u8"};
constexpr std::array<std::string_view, 3> kSums{"f16", "f32", "s32"};
constexpr uint32_t kRowsOfWarp = 16;  // of a warp

// Instruction::detail: the elements of A and B, the sum, and whether it saturates.
Element element_of(const Instruction& i, uint32_t operand) {
  return static_cast<Element>(i.detail[operand]);
}
Sum sum_of(const Instruction& i) {
  return static_cast<Sum>(i.detail[2]);
}
uint32_t bytes_of(Element e) {
  return e == Element::TF32 ? 4 : e == Element::F16 || e == Element::BF16 ? 2 : 1;
}
bool is_integer(Element e) {
  return e == Element::S8 || e == Element::U8;
}
/// Whether operands may be transposed: those of 16 bits.
bool has_transposition(Element e) {
  return bytes_of(e) == 2;
}

float element_at(Element e, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, bytes_of(e));
  switch (e) {
    case Element::F16:
      return static_cast<float>(widen(static_cast<uint16_t>(bits), kHalf));
    case Element::BF16:
      return static_cast<float>(widen(static_cast<uint16_t>(bits), kBrain));
    case Element::TF32:
      return std::bit_cast<float>(bits & 0xFFFFE000);  // the rest is not read
    case Element::E4M3:
      return widen_e4m3(static_cast<uint8_t>(bits));
    case Element::E5M2:
      return static_cast<float>(widen(static_cast<uint16_t>(bits << 8), kHalf));
    case Element::S8:
      return static_cast<float>(static_cast<int8_t>(bits));
    case Element::U8:
      return static_cast<float>(bits);
  }
  return 0;
}

/// A descriptor: where lines of 16 bytes lie. "Outer" is the dimension of rows or columns, the
/// other one is the depth.
struct Descriptor {
  uint64_t start, leading, stride, base;
  uint32_t mode;  // as swizzled() has it

  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3FFF) << 4),
        leading((bits >> 16 & 0x3FFF) << 4),
        stride((bits >> 32 & 0x3FFF) << 4),
        base(bits >> 49 & 7),
        mode(static_cast<uint32_t>((4 - (bits >> 62)) & 3)) {}

  /// The line of row `outer`, of which 16 bytes begin at depth 16 * `line` bytes.
  uint64_t along_depth(uint32_t outer, uint32_t line) const {
    const uint64_t pitch = uint64_t{16} << mode;
    const uint64_t block = start + outer / 8 * stride + outer % 8 * pitch;
    return swizzled(block + (mode == 0 ? line * leading : uint64_t{16} * line), mode, base);
  }
  /// The line at a depth, of which 16 bytes begin at outer 16 * `line` bytes.
  uint64_t across_depth(uint32_t depth, uint32_t line) const {
    const uint32_t span = 1U << mode;  // lines of a pattern
    const uint64_t block = start + depth % 8 * (uint64_t{16} << mode);
    const uint64_t lines = mode == 0 ? line * stride : line / span * leading + line % span * 16;
    return swizzled(block + lines + depth / 8 * (mode == 0 ? leading : stride), mode, base);
  }
};

/// The bits of a descriptor that mean nothing on sm_90a.
constexpr uint64_t kUnusedBits =
    ~(0x3FFFULL | 0x3FFFULL << 16 | 0x3FFFULL << 32 | 7ULL << 49 | 3ULL << 62);

/// An operand as numbers, by depth and then row or column.
struct Factor {
  uint32_t outer, depth;
  std::vector<float> values;
  float& at(uint32_t k, uint32_t n) { return values[size_t{k} * outer + n]; }
  Factor(uint32_t o, uint32_t d) : outer(o), depth(d), values(size_t{o} * d) {}
};

struct OperandRead {
  const Instruction& i;
  Access access;
  Element element;
  bool transposed;
};

/// Rows (of A) or columns (of B) from `first` on.
bool read_shared(Warp& w, const OperandRead& r, uint64_t bits, uint32_t first, Factor& f) {
  const Descriptor d(bits);
  const uint32_t size = bytes_of(r.element), per_line = 16 / size;
  const uint32_t lines = (r.transposed ? f.outer : f.depth) / per_line;
  const uint32_t others = r.transposed ? f.depth : f.outer;
  for (uint32_t other = 0; other < others; ++other) {
    for (uint32_t line = 0; line < lines; ++line) {
      const uint64_t address = r.transposed ? d.across_depth(other, line + first / per_line)
                                            : d.along_depth(other + first, line);
      const std::byte* at = w.access(r.i, r.access, {&w.group(), address}, 16);
      if (at == nullptr) return false;
      for (uint32_t n = 0; n < per_line; ++n) {
        const uint32_t along = line * per_line + n;
        const float v = element_at(r.element, at + size_t{n} * size);
        if (r.transposed)
          f.at(other, along) = v;
        else
          f.at(along, other) = v;
      }
    }
  }
  return true;
}

/// A in registers: rows l / 4 and l / 4 + 8; four lanes have consecutive parts of the depth.
void read_registers(Warp& w, const Instruction& i, Factor& f) {
  const Element e = element_of(i, 0);
  const uint32_t parts = 4 / bytes_of(e);
  for (uint32_t r = 0; r < 4; ++r) {
    const uint64_t* v = w.from(i.from[r]);
    for (uint32_t l = 0; l < Warp::kLanes; ++l) {
      std::array<std::byte, 4> bytes{};
      std::memcpy(bytes.data(), &v[l], 4);
      for (uint32_t n = 0; n < parts; ++n)
        f.at(4 * parts * (r / 2) + parts * (l % 4) + n, l / 4 + 8 * (r % 2)) =
            element_at(e, &bytes[size_t{n} * bytes_of(e)]);
    }
  }
}

/// Where a lane's nth element of the sum is.
struct Place {
  uint32_t row, column;
};
Place place_of(uint32_t lane, uint32_t n) {
  return {lane / 4 + 8 * (n / 2 % 2), 8 * (n / 4) + 2 * (lane % 4) + n % 2};
}

uint32_t integer_sum(double v, bool saturates) {
  const auto whole = static_cast<int64_t>(v);
  if (!saturates) return static_cast<uint32_t>(whole);
  return static_cast<uint32_t>(std::clamp<int64_t>(whole, std::numeric_limits<int32_t>::min(),
                                                   std::numeric_limits<int32_t>::max()));
}

/// Adds to what the registers hold, if `keeps`; `sums` are by row and column.
void write_sums(Warp& w, const Instruction& i, const std::vector<double>& sums, bool keeps) {
  const Sum kind = sum_of(i);
  const uint32_t columns = i.number;
  for (uint32_t r = 0; r < i.to.size(); ++r) {
    uint64_t* d = w.to(i.to[r]);
    for (uint32_t l = 0; l < Warp::kLanes; ++l) {
      const auto sum = [&](uint32_t n) {
        const Place p = place_of(l, n);
        return sums[size_t{p.row} * columns + p.column];
      };
      if (kind == Sum::F16) {
        uint64_t packed = 0;
        for (uint32_t half = 0; half < 2; ++half) {
          const auto old = static_cast<uint16_t>(d[l] >> (16 * half));
          const double v = sum(2 * r + half) + (keeps ? widen(old, kHalf) : 0);
          packed |= uint64_t{narrow(v, kHalf)} << (16 * half);
        }
        d[l] = packed;
      } else if (kind == Sum::F32) {
        const double old = keeps ? static_cast<double>(value<float>(d[l])) : 0;
        d[l] = bits(static_cast<float>(sum(r) + old));
      } else {
        const double old = keeps ? static_cast<double>(value<int32_t>(d[l])) : 0;
        d[l] = integer_sum(sum(r) + old, i.detail[3] != 0);
      }
    }
  }
}

/// The operands after A: B's descriptor, whether sums are kept, signs, transpositions.
struct TeamOperands {
  uint32_t left = 1;  // registers of A; 1: a descriptor
  uint64_t right = 0;
  bool keeps = true, in_registers = false, left_transposed = false, right_transposed = false;
  float sign = 1;
};

bool same_in_lanes(const uint64_t* v) {
  return std::all_of(v, v + Warp::kLanes, [&](uint64_t x) { return x == v[0]; });
}

/// Says what is wrong with them.
std::string read_rest(Warp& w, const Instruction& i, TeamOperands& rest) {
  const Element e = element_of(i, 0);
  const bool may_transpose = has_transposition(e);
  rest.in_registers = i.from.size() == (is_integer(e) ? 6 : may_transpose ? 9 : 8);
  rest.left = rest.in_registers ? 4 : 1;
  for (size_t n = 0; n < i.from.size(); ++n) {
    if (!w.defined(i.from[n])) return "an operand without a value";
    if (n >= (rest.in_registers ? 4U : 0U) && !same_in_lanes(w.from(i.from[n])))
      return "an operand that differs between lanes";
  }
  const auto at = [&](uint32_t n) { return w.from(i.from[rest.left + n])[0]; };
  rest.right = at(0);
  const uint64_t left = rest.in_registers ? 0 : w.from(i.from[0])[0];
  if (((left | rest.right) & kUnusedBits) != 0)
    return "a descriptor with bits that sm_90a does not know";
  rest.keeps = (at(1) & 1) != 0;
  if (rest.keeps &&
      !std::all_of(i.to.begin(), i.to.end(), [&](uint32_t s) { return w.defined(s); }))
    return "sums without a value are kept";
  if (is_integer(e)) return "";
  for (uint32_t n = 2; n < 4; ++n) {
    const auto sign = static_cast<int32_t>(at(n));
    if (sign != 1 && sign != -1) return "a sign that is neither 1 nor -1";
    rest.sign *= static_cast<float>(sign);
  }
  if (!may_transpose) return "";
  rest.left_transposed = !rest.in_registers && at(4) != 0;
  rest.right_transposed = at(rest.in_registers ? 4 : 5) != 0;
  return "";
}

/// What all lanes of a warp know.
View known_to_all(Warp& w) {
  View v = w.view(0);
  for (uint32_t l = 1; l < Warp::kLanes; ++l) {
    v.seen.meet(w.view(l).seen);
    v.fenced.meet(w.view(l).fenced);
  }
  return v;
}

void multiply_team(Warp& w, const Instruction& i, uint32_t) {
  TeamOperands rest;
  std::string wrong = read_rest(w, i, rest);
  std::vector<uint64_t> common{rest.right, rest.keeps ? 1U : 0U};
  if (!rest.in_registers) common.push_back(w.from(i.from[0])[0]);
  if (wrong.empty()) wrong = w.team().step(w, i, common);
  if (!wrong.empty()) return w.fail(i, wrong);
  Team& team = w.team();
  const uint32_t slot = w.number() % 4, group = team.committed[slot];
  std::vector<uint32_t> registers = i.to;
  if (rest.in_registers) registers.insert(registers.end(), i.from.begin(), i.from.begin() + 4);
  if (const char* busy = w.busy().use(registers, group + 1, i); busy != nullptr)
    return w.fail(i, busy);
  const View view = known_to_all(w);
  Access access;
  access.stamp = {team.component, 0, group};
  access.view = &view;
  access.warp = w.component();
  access.async = true;
  const uint32_t depth = 32 / bytes_of(element_of(i, 0));
  Factor a(kRowsOfWarp, depth), b(i.number, depth);
  if (rest.in_registers)
    read_registers(w, i, a);
  else if (!read_shared(w, {i, access, element_of(i, 0), rest.left_transposed},
                        w.from(i.from[0])[0], kRowsOfWarp * slot, a))
    return;
  if (!read_shared(w, {i, access, element_of(i, 1), rest.right_transposed}, rest.right, 0, b))
    return;
  std::vector<double> sums(size_t{kRowsOfWarp} * i.number);
  for (uint32_t row = 0; row < kRowsOfWarp; ++row) {
    double* to = &sums[size_t{row} * i.number];
    for (uint32_t k = 0; k < depth; ++k) {
      const auto left = static_cast<double>(rest.sign * a.at(k, row));
      const float* right = &b.at(k, 0);
      for (uint32_t n = 0; n < i.number; ++n) to[n] += left * static_cast<double>(right[n]);
    }
  }
  write_sums(w, i, sums, rest.keeps);
}

void fence_registers(Warp& w, const Instruction&, uint32_t) {
  w.busy().fence();
}

void commit_products(Warp& w, const Instruction&, uint32_t) {
  ++w.team().committed[w.number() % 4];
  ++w.cluster().activity;
}

/// A group is complete once all warps of the warpgroup have committed it.
void await_products(Warp& w, const Instruction& i, uint32_t mask) {
  const Team& team = w.team();
  const uint32_t committed = team.committed[w.number() % 4];
  const auto allowed = static_cast<uint32_t>(w.from(i.from[0])[0]);
  const uint32_t complete = committed > allowed ? committed - allowed : 0;
  for (const uint32_t others : team.committed)
    if (others < complete) return w.give_way(true, "the other warps of its warpgroup");
  w.busy().release(complete);
  for_lanes(mask, [&](uint32_t l) { w.view(l).seen.raise(team.component, complete); });
}

/// "m64n256k16": N, if the depth fits the elements.
uint32_t columns_of(std::string_view shape, Element e) {
  uint32_t columns = 0, depth = 0;
  const size_t k = shape.find('k');
  if (!shape.starts_with("m64n") || k == std::string_view::npos) return 0;
  std::from_chars(shape.data() + 4, shape.data() + k, columns);
  std::from_chars(shape.data() + k + 1, shape.data() + shape.size(), depth);
  const bool fits = columns % 8 == 0 && columns >= 8 && columns <= 256 && depth * bytes_of(e) == 32;
  const bool of_integers = columns <= 32 || columns % 16 == 0;
  return fits && (!is_integer(e) || of_integers) ? columns : 0;
}

bool fit(Element a, Element b, Sum sum) {
  if (is_integer(a)) return is_integer(b) && sum == Sum::S32;
  if (sum == Sum::S32) return false;
  if (bytes_of(a) == 1) return bytes_of(b) == 1 && !is_integer(b);
  return a == b && (sum == Sum::F32 || a == Element::F16);
}

bool decode_product(Words& w, Instruction& i, Shape& s) {
  i.detail[3] = w.take("satfinite") ? 1 : 0;
  if (w.left().size() != 4) return false;  // the shape, and types of sum, A and B
  const std::vector<std::string> words = w.left();
  const auto place = [](const auto& names, const std::string& name) {
    return static_cast<uint8_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  i.detail[2] = place(kSums, words[1]);
  i.detail[0] = place(kElements, words[2]);
  i.detail[1] = place(kElements, words[3]);
  if (i.detail[2] == kSums.size() || i.detail[0] == kElements.size() ||
      i.detail[1] == kElements.size())
    return false;
  const Element a = element_of(i, 0);
  i.number = columns_of(words[0], a);
  if (i.number == 0 || !fit(a, element_of(i, 1), sum_of(i))) return false;
  if (i.detail[3] != 0 && !is_integer(a)) return false;
  for (const std::string& word : words) w.take(word);
  s = {{i.number / (sum_of(i) == Sum::F16 ? 4 : 2)}, {Shape::kAny, 1, 1}, false, false};
  if (!is_integer(a)) s.from.insert(s.from.end(), 2, 1);
  if (has_transposition(a)) s.from.insert(s.from.end(), 2, 1);
  s.optional_from = has_transposition(a);  // A in registers is not transposed
  i.run = multiply_team;
  i.multiplies = true;
  i.takes_undefined = true;
  return true;
}

}  // namespace

bool decode_multiplication(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "wgmma") return false;
  const int kind = w.take_one({"fence", "commit_group", "wait_group", "mma_async"});
  if (kind < 0 || !w.take("sync") || !w.take("aligned")) return false;
  i.flow = Flow::Aligned;
  constexpr Handler kRun[] = {fence_registers, commit_products, await_products};
  if (kind == 3) return decode_product(w, i, s);
  i.run = kRun[kind];
  if (kind == 2) s.from = {1};
  return true;
}

}  // namespace reprise::test::ptx
