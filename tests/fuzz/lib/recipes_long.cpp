// What is computed in another way from some length or size on: TopK of long lines, Fourier
// transforms of several factors, and products with weights of 4 bits in blocks.
#include "codegen/ops/row/support.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

/// Lets the results of a recipe's nodes be larger than those of others.
class Large {
 public:
  Large(Maker& m, int64_t most) : m_(m), before_(m.most_results) { m.most_results = most; }
  ~Large() { m_.most_results = before_; }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = delete;

 private:
  Maker& m_;
  int64_t before_;
};

V number(Maker& m, int64_t v) {
  return m.constant(HostTensor::from(DType::I64, {}, std::vector<int64_t>{v}));
}

/// Lines that radix_select.cpp takes, and such that are a little too short for it. Few values make
/// many ties.
bool top_k_of_long(Maker& m) {
  const DType t = m.rng.pick(std::vector<DType>{DType::F32, DType::F32, DType::F16, DType::BF16,
                                                DType::I32, DType::U32, DType::U8, DType::I64});
  const int64_t length = m.rng.in(4090, 4500), lines = m.rng.in(1, 2);
  const int64_t rank = m.rng.in(1, 3), axis = m.rng.in(0, rank - 1);
  Shape s(static_cast<size_t>(rank), Expr(1));
  if (rank > 1) s[static_cast<size_t>(axis == 0 ? 1 : 0)] = lines;
  s[static_cast<size_t>(axis)] = length;
  const Values values = m.rng.chance(0.3) ? Values::between(0, 3) : m.some_values(t);
  V x = m.fresh(t, s, values);
  const Large large(m, 2 * length);
  if (m.rng.chance(0.3) && t == DType::F32) x = m.chain("Neg", {x});
  if (x == Maker::kNone) return false;
  AttrMap attrs = attr("axis", axis);
  attrs.set("largest", m.rng.in(0, 1));
  const int64_t wanted = m.rng.chance(0.5) ? m.rng.in(1, 12) : m.rng.in(1, 520);
  return m.add("TopK", {x, m.ints({wanted})}, std::move(attrs), 2);
}

/// A length with factors that transforms are split into.
int64_t length_of_transform(Maker& m) {
  static const std::vector<int64_t> kLengths{768, 1000, 1024, 1072, 1155, 4352, 4913};
  if (m.rng.chance(0.6)) return m.rng.pick(kLengths);
  return m.rng.in(17, 40) * m.rng.in(17, 60);
}

bool long_dft(Maker& m) {
  const DType t = m.rng.chance(0.8) ? DType::F32 : m.random_float();
  const int64_t length = length_of_transform(m);
  const Large large(m, 4 * length);
  const bool inverse = m.rng.chance(0.4), onesided = m.rng.chance(0.5);
  // Inverse and onesided: the first half of the spectrum of a real signal.
  const int64_t parts = onesided == inverse && m.rng.chance(inverse ? 1 : 0.5) ? 2 : 1;
  int64_t given = onesided && inverse ? length / 2 + 1 : length;
  const bool other = m.rng.chance(0.3);  // zeros follow, or the end is left out
  if (other) given += m.rng.in(-9, 9);
  const V x = m.fresh(t, {m.rng.in(1, 2), given, onesided && !inverse ? 1 : parts});
  AttrMap attrs = attr("onesided", int64_t{onesided});
  attrs.set("inverse", int64_t{inverse});
  const V size = other || (onesided && inverse) ? number(m, length) : Maker::kNone;
  return m.add("DFT", {x, size, number(m, 1)}, std::move(attrs));
}

V bytes(Maker& m, DType t, const std::vector<int64_t>& dims) {
  return m.constant(test::random_values(t, dims, {Values::Kind::Wide}, m.rng.next(), "packed"));
}

V scales(Maker& m, DType t, const std::vector<int64_t>& dims) {
  return m.constant(
      test::random_values(t, dims, Values::between(0.01, 0.2), m.rng.next(), "scales"));
}

/// Operands of few rows, for which a product reads its weight once.
V rows(Maker& m, DType t, int64_t depth) {
  Shape s{Expr(depth)};
  if (m.rng.chance(0.9)) s.insert(s.begin(), m.rng.chance(0.7) ? m.rng.in(1, 9) : m.random_dim());
  if (m.rng.chance(0.2)) s.insert(s.begin(), Expr(m.rng.in(1, 3)));
  return m.rng.chance(0.5) ? m.operand(t, s) : m.fresh(t, s);
}

bool matmul_nbits(Maker& m) {
  const DType t = m.rng.chance(0.7) ? DType::F32 : m.random_float();
  const int64_t bits = m.rng.chance(0.7) ? 4 : m.rng.chance(0.5) ? 2 : 8;
  const int64_t block = m.rng.pick(std::vector<int64_t>{16, 16, 32, 32, 64, 128});
  const int64_t k = m.rng.chance(0.7) ? block * m.rng.in(1, 4) : m.rng.in(1, 150);
  const int64_t n = m.rng.chance(0.6) ? 4 * m.rng.in(1, 20) : m.rng.in(1, 70);
  const int64_t blocks = (k + block - 1) / block;
  std::vector<V> inputs{rows(m, t, k),
                        bytes(m, DType::U8, {n, blocks, block * bits / 8}),
                        scales(m, t, {n, blocks}),
                        Maker::kNone,
                        Maker::kNone,
                        Maker::kNone};
  if (m.rng.chance(0.5))
    inputs[3] = m.rng.chance(0.7) ? bytes(m, DType::U8, {n, (blocks * bits + 7) / 8})
                                  : m.fresh(t, {n, blocks}, Values::between(0, 15));
  if (m.rng.chance(0.2))
    inputs[4] = m.fresh(DType::I32, {k}, Values::between(0, static_cast<double>(blocks - 1)));
  if (m.rng.chance(0.3)) inputs[5] = m.fresh(t, {n});
  while (inputs.back() == Maker::kNone) inputs.pop_back();
  AttrMap attrs = attr("K", k);
  attrs.set("N", n);
  attrs.set("bits", bits);
  attrs.set("block_size", block);
  return m.add("MatMulNBits", std::move(inputs), std::move(attrs), 1, 1);
}

/// A weight of 4 bits in blocks as the standard has it.
bool weight_of_4_bits(Maker& m) {
  const DType t = m.rng.chance(0.7) ? DType::F32 : m.random_float();
  const DType w = m.rng.chance(0.5) ? DType::I4 : DType::U4;
  const int64_t block = m.rng.pick(std::vector<int64_t>{8, 16, 32, 64});
  const int64_t blocks = m.rng.in(1, 4);
  const int64_t k = block * blocks - (m.rng.chance(0.2) ? m.rng.in(1, block - 1) : 0);
  const int64_t n = m.rng.chance(0.6) ? 4 * m.rng.in(1, 20) : m.rng.in(1, 70);
  AttrMap attrs = attr("axis", int64_t{0});
  attrs.set("block_size", block);
  std::vector<V> inputs{bytes(m, w, {k, n}), scales(m, t, {blocks, n})};
  if (m.rng.chance(0.5)) inputs.push_back(bytes(m, w, {blocks, n}));
  const V weight = m.chain("DequantizeLinear", std::move(inputs), std::move(attrs));
  return m.chain("MatMul", {rows(m, t, k), weight}) != Maker::kNone;
}

}  // namespace

std::span<const Recipe> long_recipes() {
  static constexpr Recipe kRecipes[] = {{"top k of long lines", top_k_of_long},
                                        {"DFT", long_dft},
                                        {"MatMulNBits", matmul_nbits},
                                        {"weights of 4 bits", weight_of_4_bits}};
  return kRecipes;
}

}  // namespace reprise::fuzz
