// ldmatrix, stmatrix and mma.sync.
#include <cstring>

#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

/// Blocks of 8x8 elements of 16 bits: lane 8 * m + r has the address of row r of block m; lane
/// 4 * r + c receives two elements of row r (transposed: of column r) of each block.
void load_blocks(Warp& w, const Instruction& i, uint32_t) {
  const uint64_t* base = w.from(i.from[0]);
  const auto blocks = static_cast<uint32_t>(i.to.size());
  std::array<std::array<std::array<uint16_t, 8>, 8>, 4> block{};
  for (uint32_t m = 0; m < blocks; ++m) {
    w.count(i, Mover::Blocks, 0xFFU << (8 * m), 0, 16);
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t lane = 8 * m + r;
      const uint64_t address = base[lane] + static_cast<uint64_t>(i.offset[0]);
      const std::byte* at = w.access(i, Space::Shared, address, 16, lane, false);
      if (at == nullptr) return;
      std::memcpy(block[m][r].data(), at, 16);
    }
  }
  for (uint32_t m = 0; m < blocks; ++m) {
    uint64_t* d = w.to(i.to[m]);
    for (uint32_t l = 0; l < Warp::kLanes; ++l) {
      const uint32_t r = l / 4, c = 2 * (l % 4);
      const auto& b = block[m];
      const uint32_t low = i.transposed ? b[c][r] : b[r][c];
      const uint32_t high = i.transposed ? b[c + 1][r] : b[r][c + 1];
      d[l] = high << 16 | low;
    }
  }
}

/// The same to shared memory.
void store_blocks(Warp& w, const Instruction& i, uint32_t) {
  const uint64_t* base = w.from(i.from[0]);
  const auto blocks = static_cast<uint32_t>(i.from.size() - 1);
  for (uint32_t m = 0; m < blocks; ++m) {
    std::array<std::array<uint16_t, 8>, 8> block{};
    const uint64_t* v = w.from(i.from[m + 1]);
    for (uint32_t l = 0; l < Warp::kLanes; ++l) {
      const uint32_t r = l / 4, c = 2 * (l % 4);
      (i.transposed ? block[c][r] : block[r][c]) = static_cast<uint16_t>(v[l]);
      (i.transposed ? block[c + 1][r] : block[r][c + 1]) = static_cast<uint16_t>(v[l] >> 16);
    }
    w.count(i, Mover::Blocks, 0xFFU << (8 * m), 0, 16);
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t lane = 8 * m + r;
      const uint64_t address = base[lane] + static_cast<uint64_t>(i.offset[0]);
      std::byte* at = w.access(i, Space::Shared, address, 16, lane, true);
      if (at == nullptr) return;
      std::memcpy(at, block[r].data(), 16);
    }
  }
}

/// What an mma multiplies: m16, n8, k of `depth`.
struct Product {
  uint32_t depth;
  Type type;  // of the factors; F32 stands for tf32
};

/// Element of a factor that a lane holds in a register: two of 16 bits, or one of 32.
double factor(const Product& p, uint64_t reg, uint32_t part) {
  if (p.type == Type::F32) {
    return static_cast<double>(value<float>(reg & 0xFFFFE000));  // the rest is not read
  }
  const auto half = static_cast<uint16_t>(reg >> (16 * part));
  return p.type == Type::F16 ? widen(half, kHalf) : widen(half, kBrain);
}

/// The left factor is in registers of rows g and g + 8, the right one's columns are g, where g is
/// the lane's quad; within a quad, lanes have consecutive places along the depth.
void multiply(Warp& w, const Instruction& i, uint32_t) {
  const Product p{i.number, i.type};
  const uint32_t in_register = p.type == Type::F32 ? 1 : 2;
  const uint32_t lefts = 16 * p.depth / in_register / 32, rights = lefts / 2;
  const uint32_t span = 4 * in_register;  // places along the depth that one register covers
  std::array<std::array<double, 16>, 16> a{};
  std::array<std::array<double, 8>, 16> b{};
  for (uint32_t l = 0; l < Warp::kLanes; ++l) {
    const uint32_t g = l / 4, t = l % 4 * in_register;
    for (uint32_t part = 0; part < in_register; ++part) {
      for (uint32_t n = 0; n < lefts; ++n)
        a[g + 8 * (n % 2)][t + part + span * (n / 2)] = factor(p, w.from(i.from[n])[l], part);
      for (uint32_t n = 0; n < rights; ++n)
        b[t + part + span * n][g] = factor(p, w.from(i.from[lefts + n])[l], part);
    }
  }
  const uint32_t sums = lefts + rights;
  std::array<std::array<float, Warp::kLanes>, 4> out{};
  for (uint32_t l = 0; l < Warp::kLanes; ++l) {
    for (uint32_t n = 0; n < 4; ++n) {
      const uint32_t row = l / 4 + 8 * (n / 2), column = 2 * (l % 4) + n % 2;
      double sum = 0;
      for (uint32_t k = 0; k < p.depth; ++k) sum += a[row][k] * b[k][column];
      sum += static_cast<double>(value<float>(w.from(i.from[sums + n])[l]));
      out[n][l] = static_cast<float>(sum);
    }
  }
  for (uint32_t n = 0; n < 4; ++n) {
    uint64_t* d = w.to(i.to[n]);
    for (uint32_t l = 0; l < Warp::kLanes; ++l) d[l] = bits(out[n][l]);
  }
}

bool decode_blocks(Words& w, Instruction& i, Shape& s) {
  const bool loads = w.opcode() == "ldmatrix";
  if (!loads && w.opcode() != "stmatrix") return false;
  i.flow = Flow::Aligned;
  i.run = loads ? load_blocks : store_blocks;
  i.space = Space::Shared;
  const bool whole = w.take("sync") && w.take("aligned") && w.take("m8n8");
  const int count = w.take_one({"x1", "x2", "x4"});
  i.transposed = w.take("trans");
  const uint32_t registers = count < 0 ? 1U : 1U << count;
  if (loads)
    s = {{registers}, {0}, false, false};
  else
    s = {{}, {0, registers}, false, false};
  return whole && count >= 0 && (w.take("shared") || w.take("shared::cta")) && w.take("b16");
}

bool decode_mma(Words& w, Instruction& i, Shape& s) {
  if (w.opcode() != "mma" || !w.take("sync") || !w.take("aligned")) return false;
  const int shape = w.take_one({"m16n8k16", "m16n8k8", "m16n8k4"});
  if (shape < 0 || !w.take("row") || !w.take("col") || !w.take("f32")) return false;
  i.number = 16U >> shape;
  const int type = w.take_one({"f16", "bf16", "tf32"});
  constexpr std::string_view kNames[] = {"f16", "bf16", "tf32"};
  if (type < 0 || !w.take(kNames[type]) || !w.take("f32")) return false;
  i.type = type == 0 ? Type::F16 : type == 1 ? Type::BF16 : Type::F32;
  if ((type == 2 && shape == 0) || (type < 2 && shape == 2)) return false;
  const uint32_t lefts = 16 * i.number / (type == 2 ? 1 : 2) / 32;
  i.flow = Flow::Aligned;
  i.run = multiply;
  s = {{4}, {lefts, lefts / 2, 4}, false, false};
  return true;
}

}  // namespace

bool decode_matrix(Words& w, Instruction& i, Shape& s) {
  Words copy = w;
  if (decode_blocks(copy, i, s)) {
    w = copy;
    return true;
  }
  copy = w;
  if (!decode_mma(copy, i, s)) return false;
  w = copy;
  return true;
}

}  // namespace reprise::test::ptx
