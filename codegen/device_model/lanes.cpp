#include "codegen/device_model/lanes.h"

#include <algorithm>

namespace reprise::device_model {

namespace {

uint64_t truncated(uint64_t v, uint32_t bits) {
  return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1);
}

int64_t extended(uint64_t v, uint32_t bits) {
  if (bits >= 64) return static_cast<int64_t>(v);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((truncated(v, bits) ^ sign) - sign);
}

/// A source as its type has it, in 64 bits.
uint64_t read(const Type& t, uint64_t v) {
  return t.is_signed ? static_cast<uint64_t>(extended(v, t.bits)) : truncated(v, t.bits);
}

uint64_t product(const Instruction& i, uint64_t a, uint64_t b) {
  const uint64_t x = read(i.type, a), y = read(i.type, b);
  return i.part == Part::High ? (x * y) >> i.type.bits : x * y;
}

uint64_t shifted(const Instruction& i, uint64_t a, uint64_t by) {
  by = truncated(by, 32);
  const uint32_t bits = i.type.bits;
  if (i.operation == Operation::ShiftLeft) return by >= bits ? 0 : a << by;
  if (i.type.is_signed)
    return static_cast<uint64_t>(extended(a, bits) >> std::min<uint64_t>(by, bits - 1));
  return by >= bits ? 0 : truncated(a, bits) >> by;
}

/// By zero: all bits, as devices have it.
uint64_t quotient(const Instruction& i, uint64_t a, uint64_t b) {
  const uint64_t x = read(i.type, a), y = read(i.type, b);
  const bool rest = i.operation == Operation::Remainder;
  if (y == 0 || (i.type.is_signed && y == ~uint64_t{0}))
    return y == 0 ? ~uint64_t{0} : rest ? 0 : ~x + 1;
  if (!i.type.is_signed) return rest ? x % y : x / y;
  const auto m = static_cast<int64_t>(x), n = static_cast<int64_t>(y);
  return static_cast<uint64_t>(rest ? m % n : m / n);
}

template <typename T>
bool holds(Comparison c, T a, T b) {
  switch (c) {
    case Comparison::Equal:
      return a == b;
    case Comparison::NotEqual:
      return a != b;
    case Comparison::Less:
      return a < b;
    case Comparison::LessEqual:
      return a <= b;
    case Comparison::Greater:
      return a > b;
    case Comparison::GreaterEqual:
      return a >= b;
  }
  return false;
}

bool compared(const Instruction& i, Comparison c, uint64_t a, uint64_t b) {
  const uint64_t x = read(i.type, a), y = read(i.type, b);
  return i.type.is_signed ? holds(c, static_cast<int64_t>(x), static_cast<int64_t>(y))
                          : holds(c, x, y);
}

uint64_t looked_up(const std::array<uint64_t, 4>& x) {
  uint64_t out = 0;
  for (uint32_t bit = 0; bit < 32; ++bit) {
    const uint64_t row = (x[0] >> bit & 1) << 2 | (x[1] >> bit & 1) << 1 | (x[2] >> bit & 1);
    out |= (x[3] >> row & 1) << bit;
  }
  return out;
}

}  // namespace

uint64_t computed(const Instruction& i, const std::array<uint64_t, 4>& x) {
  const auto result = [&]() -> uint64_t {
    switch (i.operation) {
      case Operation::Move:
        return x[0];
      case Operation::Add:
        return x[0] + x[1];
      case Operation::Subtract:
        return x[0] - x[1];
      case Operation::Multiply:
        return product(i, x[0], x[1]);
      case Operation::MultiplyAdd:
        return product(i, x[0], x[1]) + x[2];
      case Operation::ShiftLeft:
      case Operation::ShiftRight:
        return shifted(i, x[0], x[1]);
      case Operation::And:
        return x[0] & x[1];
      case Operation::Or:
        return x[0] | x[1];
      case Operation::Xor:
        return x[0] ^ x[1];
      case Operation::Not:
        return ~x[0];
      case Operation::Negate:
        return ~x[0] + 1;
      case Operation::Absolute: {
        const int64_t v = extended(x[0], i.type.bits);
        return static_cast<uint64_t>(v < 0 ? -v : v);
      }
      case Operation::Minimum:
        return compared(i, Comparison::Less, x[0], x[1]) ? x[0] : x[1];
      case Operation::Maximum:
        return compared(i, Comparison::Less, x[0], x[1]) ? x[1] : x[0];
      case Operation::Divide:
      case Operation::Remainder:
        return quotient(i, x[0], x[1]);
      case Operation::Compare:
        return compared(i, i.comparison, x[0], x[1]) ? 1 : 0;
      case Operation::Select:
        return (x[2] & 1) != 0 ? x[0] : x[1];
      case Operation::Convert:
        return read(i.source_type, x[0]);
      case Operation::Lookup:
        return looked_up(x);
      case Operation::True:
        return 1;
      case Operation::Unknown:
      case Operation::Elect:
        return 0;
    }
    return 0;
  }();
  const uint32_t bits = i.part == Part::Wide ? i.type.bits * 2U : i.type.bits;
  const bool predicate = i.operation == Operation::Compare || i.operation == Operation::True;
  return predicate ? result : truncated(result, bits);
}

Sectors sectors_of(const Lanes& addresses, int64_t offset, uint32_t bytes, uint32_t mask) {
  Sectors out;
  constexpr uint32_t kSector = 32;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint64_t first = addresses[lane] + static_cast<uint64_t>(offset);
    for (uint64_t s = first / kSector; s <= (first + bytes - 1) / kSector; ++s) {
      if (out.count > 0 && out.sector[out.count - 1] == s) continue;
      if (out.count < out.sector.size()) out.sector[out.count++] = s;
    }
    if (addresses.uniform) break;
  }
  auto* const end = out.sector.begin() + out.count;
  if (!std::is_sorted(out.sector.begin(), end)) {
    std::sort(out.sector.begin(), end);
    out.count = static_cast<uint32_t>(std::unique(out.sector.begin(), end) - out.sector.begin());
  }
  return out;
}

uint32_t passes_of(const Lanes& addresses, int64_t offset, uint32_t bytes, uint32_t mask) {
  constexpr uint32_t kBanks = 32, kWord = 4;
  const uint32_t at_once = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;  // lanes
  uint32_t passes = 0;
  for (uint32_t begin = 0; begin < kLanes; begin += at_once) {
    std::array<std::array<uint64_t, kLanes>, kBanks> words;  // those of each bank, each once
    std::array<uint32_t, kBanks> count{};
    uint32_t most = 0;
    for (uint32_t lane = begin; lane < begin + at_once; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const uint64_t first = (addresses[lane] + static_cast<uint64_t>(offset)) / kWord;
      for (uint64_t w = first; w < first + std::max(1U, bytes / kWord); ++w) {
        auto& bank = words[w % kBanks];
        uint32_t& n = count[w % kBanks];
        if (std::find(bank.begin(), bank.begin() + n, w) != bank.begin() + n) continue;
        if (n < kLanes) bank[n++] = w;
        most = std::max(most, n);
      }
    }
    passes += most;
  }
  return passes;
}

}  // namespace reprise::device_model
