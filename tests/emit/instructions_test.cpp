// Every kind of instruction, on every executor of the test program, against the interpreter:
// test_emit has devices and CUDA text, test_ptx has PTX.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/emit/agreement.h"
#include "tests/emit/expect_agreement.h"
#include "tests/support/random_moves.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::kF32;
using kernel::kI32;
using kernel::ScalarOp;
using kernel::SubgroupOp;
using kernel::Ty;
using kernel::Val;

constexpr uint32_t kGroup = 32;

/// Memory for `count` elements: small numbers of both signs that every type holds.
std::vector<std::byte> numbers(Ty t, size_t count) {
  std::vector<std::byte> m;
  for (size_t n = 0; n < count; ++n) {
    const double v =
        static_cast<double>(n * 37 % 101) -
        (kernel::class_of(t) == kernel::kUnsigned || t == Ty::U8 || t == Ty::U16 ? 0.0 : 50.0);
    const Ty compute = kernel::compute_type(t);
    uint64_t bits = kernel::bits_of(v, compute);
    if (t == Ty::BF16) bits >>= 16;
    set_element(m, t, n, bits);
  }
  return m;
}

std::vector<std::byte> blank(Ty t, size_t count) {
  return std::vector<std::byte>(count * static_cast<size_t>(kernel::byte_size(t)), std::byte{0xCD});
}

/// Writes one kernel and its launch.
struct Maker {
  Builder b;
  Launch launch;

  explicit Maker(const std::string& name, uint32_t x = kGroup, uint32_t y = 1, uint32_t z = 1)
      : b(name) {
    b.set_workgroup(x, y, z);
  }
  int in(const std::string& name, Ty t, size_t count) {
    launch.buffers.push_back(numbers(t, count));
    return b.buffer(name, t, Access::Read);
  }
  int out(const std::string& name, Ty t, size_t count) {
    launch.buffers.push_back(blank(t, count));
    return b.buffer(name, t, Access::Write);
  }
  Val param(const std::string& name, int32_t value) {
    launch.scalars.push_back(static_cast<uint32_t>(value));
    return b.param(b.scalar(name));
  }
  Val index(int component = 0) {
    return b.convert(b.builtin(Builtin::GlobalId, component), Ty::I32);
  }
  Case done(std::array<uint32_t, 3> grid = {2, 1, 1}, Tolerance tolerance = {}) {
    launch.grid = grid;
    auto k = b.finish();
    EXPECT_TRUE(k.ok()) << k.status().message();
    if (!k.ok()) return {};
    return {*std::move(k), std::move(launch), tolerance, true};
  }
};

std::string lane_name(const char* prefix, Ty t, int lanes) {
  return std::string(prefix) + "_" + std::string(kernel::name_of(t)) + "x" + std::to_string(lanes);
}

constexpr Ty kStorage[] = {Ty::I8,  Ty::U8,  Ty::I16, Ty::U16,  Ty::I32, Ty::U32,
                           Ty::I64, Ty::U64, Ty::F16, Ty::BF16, Ty::F32, Ty::F64};
constexpr Ty kCompute[] = {Ty::I32, Ty::U32, Ty::I64, Ty::U64, Ty::F16, Ty::F32, Ty::F64};

TEST(Instructions, LoadAndStoreOfEveryStorageType) {
  std::vector<Case> cases;
  for (const Ty t : kStorage) {
    for (const int lanes : {1, 2, 4}) {
      if (kernel::byte_size(t) * lanes > 16) continue;
      const auto step = static_cast<uint32_t>(lanes);
      Maker m(lane_name("copy", t, lanes));
      const int x = m.in("x", t, 64 * step), y = m.out("y", t, 64 * step);
      const Val i = m.b.mul(m.index(), m.b.i32(lanes));
      const Val v = m.b.load(x, i, lanes, step);
      m.b.store(y, i, m.b.add(v, v), step);
      cases.push_back(m.done());
    }
  }
  expect_agreement(cases);
}

TEST(Instructions, LongVectorsOfEveryNarrowType) {
  std::vector<Case> cases;
  for (const Ty t : kStorage) {
    for (const int lanes : {8, 16}) {
      if (kernel::byte_size(t) * lanes > kernel::kMostAccessBytes) continue;
      const auto step = static_cast<uint32_t>(lanes);
      Maker m(lane_name("long", t, lanes));
      const int x = m.in("x", t, 64 * step), y = m.out("y", t, 64 * step);
      const Val i = m.b.mul(m.index(), m.b.i32(lanes));
      const Val v = m.b.load(x, i, lanes, step);
      std::vector<Val> parts;
      for (int p = 0; p < lanes / kernel::kPartLanes; ++p)
        parts.push_back(m.b.add(m.b.part(v, p), m.b.part(v, 0)));
      m.b.store(y, i, m.b.compose(parts), step);
      cases.push_back(m.done());
    }
  }
  Maker m("long_shared");
  const int x = m.in("x", Ty::F16, 512), y = m.out("y", Ty::F16, 512);
  const int s = m.b.shared("s", Ty::F16, 256);
  const Val local = m.b.convert(m.b.builtin(Builtin::LocalIndex), Ty::I32);
  const Val other = m.b.sub(m.b.i32(31), local);
  m.b.shared_store(s, m.b.mul(local, m.b.i32(8)),
                   m.b.load(x, m.b.mul(m.index(), m.b.i32(8)), 8, 8));
  m.b.barrier();
  m.b.store(y, m.b.mul(m.index(), m.b.i32(8)), m.b.shared_load(s, m.b.mul(other, m.b.i32(8)), 8),
            8);
  cases.push_back(m.done());
  expect_agreement(cases);
}

TEST(Instructions, RandomMovesOfNarrowTypes) {
  std::vector<Case> cases;
  for (uint64_t seed = 1000; seed < 1008; ++seed) {
    const auto made = random_moves(seed, 16);
    ASSERT_TRUE(made.ok()) << made.status().message();
    Case c;
    c.kernel = made->kernel;
    c.kernel.name += "_" + std::to_string(seed);
    const Status s = kernel::legalize(c.kernel, {.joins_accesses = seed % 2 == 0});
    ASSERT_TRUE(s.ok()) << s.message();
    c.launch.grid = {2, 1, 1};
    c.launch.buffers = made->buffers;
    cases.push_back(std::move(c));
  }
  expect_agreement(cases);
}

TEST(Instructions, Bfloat16RoundsToNearestEven) {
  Maker m("round_bf16");
  const int x = m.in("x", Ty::F32, 64), y = m.out("y", Ty::BF16, 64);
  const uint32_t bits[] = {0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F800001,
                           0xFF800000, 0xFFC12345, 0x00000000, 0x80000000, 0x7F800000, 0x3F800000};
  for (size_t n = 0; n < 64; ++n) {
    set_element(m.launch.buffers[0], Ty::F32, n, bits[n % std::size(bits)]);
  }
  const Val i = m.index();
  m.b.store(y, i, m.b.load(x, i));
  expect_agreement({m.done()});
}

TEST(Instructions, VectorAccessWithATail) {
  std::vector<Case> cases;
  for (const Ty t : {Ty::F32, Ty::I32, Ty::U8}) {
    Maker m(lane_name("tail", t, 4));
    constexpr int kCount = 4 * 37 + 3;
    const int x = m.in("x", t, kCount), y = m.out("y", t, kCount);
    const Val n = m.param("n", kCount);
    const Val i = m.b.mul(m.index(), m.b.i32(4));
    m.b.if_else(
        m.b.le(m.b.add(i, m.b.i32(4)), n),
        [&] {
          const Val v = m.b.load(x, i, 4, 4);
          m.b.store(y, i, m.b.mul(v, v), 4);
        },
        [&] {
          m.b.for_loop(i, n, m.b.i32(1), [&](Val j) {
            const Val v = m.b.load(x, j);
            m.b.store(y, j, m.b.mul(v, v));
          });
        });
    cases.push_back(m.done());
  }
  expect_agreement(cases);
}

TEST(Instructions, AccessesOfDifferentWidths) {
  Maker m("widths");
  const int x = m.in("x", Ty::F32, 256), y = m.out("y", Ty::F32, 256);
  const Val i = m.b.mul(m.index(), m.b.i32(4));
  const Val four = m.b.load(x, i, 4, 4);
  const Val two = m.b.load(x, m.b.add(i, m.b.i32(2)), 2, 2);
  const Val one = m.b.load(x, m.b.add(i, m.b.i32(1)));
  m.b.store(y, i, m.b.compose(std::vector<Val>{m.b.extract(four, 3), one}), 2);
  m.b.store(y, m.b.add(i, m.b.i32(2)), m.b.extract(two, 1));
  m.b.store(y, m.b.add(i, m.b.i32(3)), m.b.add(m.b.extract(two, 0), m.b.extract(four, 0)));
  expect_agreement({m.done()});
}

/// A driver that follows what memory holds must not take one component for another.
TEST(Instructions, ComponentsOfAVectorThatIsLoadedWhole) {
  std::vector<Case> cases;
  for (const Ty t : {Ty::U8, Ty::I16, Ty::F16, Ty::F32}) {
    Maker m(lane_name("components", t, 4));
    const int x = m.in("x", t, 4), y = m.out("y", t, 256);
    const Val four = m.b.load(x, m.b.i32(0), 4, 4);
    std::vector<Val> components;
    for (int l = 3; l >= 0; --l) components.push_back(m.b.load(x, m.b.i32(l)));
    const Val at = m.b.mul(m.index(), m.b.i32(4));
    m.b.store(y, at, m.b.sub(four, m.b.compose(components)), 4);
    cases.push_back(m.done());
  }
  expect_agreement(cases);
}

TEST(Instructions, ConstantsAndParameters) {
  std::vector<Case> cases;
  for (const Ty t : kCompute) {
    Maker m(lane_name("constants", t, 1));
    const int y = m.out("y", t, 64 * 8);
    const Val i = m.b.mul(m.index(), m.b.i32(8));
    const double least = t == Ty::I32 ? -2147483648.0 : t == Ty::I64 ? -9223372036854775808.0 : 7.0;
    const double values[] = {0.0, 1.0, least, 0.1, 1e5, 1e-7, 65504.0, 3.0};
    for (int n = 0; n < 8; ++n) {
      m.b.store(y, m.b.add(i, m.b.i32(n)), m.b.constant({t, 1}, values[n]));
    }
    cases.push_back(m.done());
  }
  Maker m("parameters");
  m.launch.scalars = {0x80000001, 0xFFFFFFFF, 0x7FC00000, 0xFF800000};
  const Val p[] = {m.b.param(m.b.scalar("a", Ty::I32)), m.b.param(m.b.scalar("b", Ty::U32)),
                   m.b.param(m.b.scalar("c", Ty::F32)), m.b.param(m.b.scalar("d", Ty::F32))};
  const int y = m.out("y", Ty::U32, 64 * 6);
  const Val i = m.b.mul(m.index(), m.b.i32(6));
  for (int n = 0; n < 4; ++n) {
    m.b.store(y, m.b.add(i, m.b.i32(n)), m.b.bitcast(p[n], {Ty::U32, 1}));
  }
  for (const int n : {4, 5}) {
    const Val special = m.b.constant_bits(kF32, n == 4 ? 0x7F800000 : 0xFFC00000);
    m.b.store(y, m.b.add(i, m.b.i32(n)), m.b.bitcast(m.b.max(special, special), {Ty::U32, 1}));
  }
  cases.push_back(m.done());
  expect_agreement(cases);
}

TEST(Instructions, BuiltinsInThreeDimensions) {
  Maker m("builtins", 8, 4, 2);
  constexpr std::array<uint32_t, 3> kGrid{3, 2, 2};
  constexpr size_t kTotal = 64 * 12;
  const int y = m.out("y", Ty::U32, kTotal * 16);
  Builder& b = m.b;
  const auto get = [&](Builtin which, int c) { return b.builtin(which, c); };
  const Val sx = b.u32(3 * 8), sy = b.u32(2 * 4);
  const Val row = b.add(get(Builtin::GlobalId, 1), b.mul(get(Builtin::GlobalId, 2), sy));
  const Val at = b.mul(b.add(get(Builtin::GlobalId, 0), b.mul(row, sx)), b.u32(16));
  int n = 0;
  for (const Builtin which : {Builtin::GlobalId, Builtin::LocalId, Builtin::WorkgroupId}) {
    for (int c = 0; c < 3; ++c) b.store(y, b.add(at, b.u32(n++)), get(which, c));
  }
  for (const Builtin which : {Builtin::LocalIndex, Builtin::SubgroupLane, Builtin::SubgroupSize,
                              Builtin::SubgroupIndex}) {
    b.store(y, b.add(at, b.u32(n++)), get(which, 0));
  }
  expect_agreement({m.done(kGrid)});
}

TEST(Instructions, ConversionsInRange) {
  std::vector<Case> cases;
  for (const Ty from : kCompute) {
    for (const Ty to : kCompute) {
      if (from == to) continue;
      for (const int lanes : {1, 2}) {
        Maker m(lane_name("convert", from, lanes) + "_" + std::string(kernel::name_of(to)));
        const auto step = static_cast<uint32_t>(lanes);
        const int x = m.in("x", from, 64 * step), y = m.out("y", to, 64 * step);
        const Val i = m.b.mul(m.index(), m.b.i32(lanes));
        Val v = m.b.load(x, i, lanes, step);
        // Negative numbers are not in an unsigned type's range.
        if (kernel::class_of(to) == kernel::kUnsigned) v = m.b.mul(v, v);
        m.b.store(y, i, m.b.convert(v, to, true), step);
        cases.push_back(m.done());
      }
    }
  }
  expect_agreement(cases);
}

TEST(Instructions, ConversionsThatSaturate) {
  std::vector<Case> cases;
  for (const Ty from : {Ty::F32, Ty::F16}) {
    for (const Ty to : {Ty::I32, Ty::U32, Ty::F16}) {
      if (from == to) continue;
      Maker m(lane_name("saturate", from, 1) + "_" + std::string(kernel::name_of(to)));
      const int x = m.in("x", from, 64), y = m.out("y", to, 64);
      const double edges[] = {0.0,     -0.0,   0.99,    -0.99,      1.5,   -1.5,     65504.0,
                              65519.9, 65520., 1e5,     -1e5,       2.1e9, 2.2e9,    -2.1e9,
                              -2.2e9,  4.2e9,  4.3e9,   1e20,       -1e20, 1e38,     2049.,
                              2051.,   6.1e-5, 0x1p-24, 0x1p-25,    3e-8,  INFINITY, -INFINITY,
                              NAN,     1e-30,  5e-6,    2147483520.};
      for (size_t n = 0; n < 64; ++n) {
        set_element(m.launch.buffers[0], from, n,
                    kernel::bits_of(edges[n % std::size(edges)], from));
      }
      const Val i = m.index();
      m.b.store(y, i, m.b.convert(m.b.load(x, i), to));
      cases.push_back(m.done());
      const Status s = kernel::expand(cases.back().kernel);
      ASSERT_TRUE(s.ok()) << s.message();
    }
  }
  expect_agreement(cases);
}

/// Numbers whose low 31 bits, rounded by themselves, give another sum than their own bits.
TEST(Instructions, ConversionsOfLargeUnsignedNumbers) {
  constexpr uint32_t kNumbers[] = {0xe21e3e81, 0xc3ca78b9, 0xf3671c8f, 0x80000081, 0x80000080,
                                   0x7fffffff, 0x80000000, 0xffffffff, 0xffffff7f, 1};
  std::vector<Case> cases;
  for (const int lanes : {1, 2, 4}) {
    Maker m(lane_name("large", Ty::U32, lanes));
    const auto step = static_cast<uint32_t>(lanes);
    const int x = m.in("x", Ty::U32, 64 * step), y = m.out("y", Ty::F32, 64 * step);
    for (size_t n = 0; n < size_t{64} * step; ++n)
      set_element(m.launch.buffers[0], Ty::U32, n, kNumbers[n % std::size(kNumbers)]);
    const Val i = m.b.mul(m.index(), m.b.i32(lanes));
    m.b.store(y, i, m.b.convert(m.b.load(x, i, lanes, step), Ty::F32), step);
    cases.push_back(m.done());
    const Status s = kernel::expand(cases.back().kernel);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  expect_agreement(cases);
}

TEST(Instructions, ConversionsToAndFromBool) {
  std::vector<Case> cases;
  for (const Ty t : kCompute) {
    Maker m(lane_name("convert_bool", t, 2));
    const int x = m.in("x", t, 128), y = m.out("y", t, 128), z = m.out("z", Ty::U32, 128);
    const Val i = m.b.mul(m.index(), m.b.i32(2));
    const Val truth = m.b.convert(m.b.load(x, i, 2, 2), Ty::Bool);
    m.b.store(y, i, m.b.convert(truth, t), 2);
    m.b.store(z, i, m.b.convert(truth, Ty::U32), 2);
    cases.push_back(m.done());
  }
  expect_agreement(cases);
}

TEST(Instructions, BitcastsAndLanes) {
  Maker m("bits");
  const int x = m.in("x", Ty::F32, 256), y = m.out("y", Ty::U32, 256);
  const Val i = m.b.mul(m.index(), m.b.i32(4));
  const Val v = m.b.load(x, i, 4, 4);
  std::vector<Val> reversed;
  for (int n = 3; n >= 0; --n) reversed.push_back(m.b.extract(v, n));
  const Val bits = m.b.bitcast(m.b.compose(reversed), {Ty::U32, 4});
  const Val sign = m.b.splat(m.b.u32(0x80000000), 4);
  m.b.store(y, i, m.b.scalar_op(ScalarOp::BitXor, {bits, sign}), 4);
  std::vector<Case> cases{m.done()};
  Maker w("wide_bits");
  const int p = w.in("p", Ty::I64, 64), q = w.out("q", Ty::U32, 128);
  const Val at = w.index();
  const Val halves = w.b.bitcast(w.b.load(p, at), {Ty::U32, 2});
  w.b.store(q, w.b.mul(at, w.b.i32(2)), halves, 2);
  cases.push_back(w.done());
  expect_agreement(cases);
}

TEST(Instructions, LocalsOfEveryShape) {
  Maker m("locals");
  const int x = m.in("x", Ty::F32, 256), y = m.out("y", Ty::F32, 64);
  Builder& b = m.b;
  const int sum = b.local("sum", kF32), pair = b.local("pair", kernel::vec(kF32, 4));
  const int table = b.local("table", kF32, 4);
  const Val i = m.index();
  b.local_store(sum, b.f32(0.5F));
  b.local_store(pair, b.load(x, b.mul(i, b.i32(4)), 4, 4));
  b.for_loop(b.i32(0), b.i32(4), b.i32(1),
             [&](Val n) { b.local_store(table, b.convert(b.mul(n, i), Ty::F32, true), n); });
  b.for_loop(b.i32(0), b.i32(20), b.i32(3), [&](Val n) {
    const Val slot = b.scalar_op(ScalarOp::BitAnd, {b.add(n, i), b.i32(3)});
    const Val v = b.local_load(table, slot);
    b.local_store(sum, b.add(b.local_load(sum), v));
  });
  const Val four = b.local_load(pair);
  b.store(y, i, b.add(b.local_load(sum), b.mul(b.extract(four, 1), b.extract(four, 2))));
  expect_agreement({m.done()});
}

TEST(Instructions, NestedControlFlow) {
  Maker m("nested");
  const int x = m.in("x", Ty::I32, 64), y = m.out("y", Ty::I32, 64);
  Builder& b = m.b;
  const Val limit = m.param("limit", 9), step = m.param("step", 2);
  const int acc = b.local("acc", kI32);
  const Val i = m.index();
  const Val v = b.load(x, i);
  b.local_store(acc, b.i32(0));
  const auto add = [&](Val d) { b.local_store(acc, b.add(b.local_load(acc), d)); };
  b.for_loop(b.i32(0), limit, b.i32(1), [&](Val p) {
    b.if_else(
        b.lt(v, p),
        [&] {
          b.for_loop(p, b.add(limit, v), step, [&](Val q) {
            b.if_then(b.eq(b.scalar_op(ScalarOp::BitAnd, {q, b.i32(1)}), b.i32(0)),
                      [&] { add(b.mul(p, q)); });
          });
        },
        [&] {
          add(v);
          b.if_else(
              b.lt(i, b.i32(40)), [&] { b.for_loop(v, limit, step, add); },
              [&] { add(b.i32(-1)); });
        });
  });
  b.store(y, i, b.local_load(acc));
  expect_agreement({m.done()});
}

TEST(Instructions, SharedMemoryAndBarriers) {
  Maker m("tree", 64);
  const int x = m.in("x", Ty::F32, 256), y = m.out("y", Ty::F32, 4);
  Builder& b = m.b;
  const int s = b.shared("partial", Ty::F32, 64);
  const Val lane = b.convert(b.builtin(Builtin::LocalId), Ty::I32);
  const Val group = b.convert(b.builtin(Builtin::WorkgroupId), Ty::I32);
  b.shared_store(s, lane, b.load(x, m.index()));
  b.barrier();
  for (int half = 32; half > 0; half /= 2) {
    b.if_then(b.lt(lane, b.i32(half)), [&] {
      const Val other = b.shared_load(s, b.add(lane, b.i32(half)));
      b.shared_store(s, lane, b.add(b.shared_load(s, lane), other));
    });
    b.barrier();
  }
  b.if_then(b.eq(lane, b.i32(0)), [&] { b.store(y, group, b.shared_load(s, b.i32(0))); });
  expect_agreement({m.done({4, 1, 1})});
}

TEST(Instructions, SharedVectors) {
  std::vector<Case> cases;
  for (const bool mixed : {false, true}) {
    Maker m(mixed ? "shared_mixed" : "shared_vectors");
    const int x = m.in("x", Ty::F32, 256), y = m.out("y", Ty::F32, 256);
    Builder& b = m.b;
    const int s = b.shared("tile", Ty::F32, 128);
    const Val lane = b.convert(b.builtin(Builtin::LocalId), Ty::I32);
    const Val from = b.mul(m.index(), b.i32(4)), at = b.mul(lane, b.i32(4));
    const Val v = b.load(x, from, 4, 4);
    b.shared_store(s, at, v);
    b.barrier();
    const Val mirrored = b.sub(b.i32(124), at);
    if (mixed) {
      const Val two = b.shared_load(s, mirrored, 2);
      const Val one = b.shared_load(s, b.add(mirrored, b.i32(3)));
      b.store(y, from, b.mul(b.shared_load(s, mirrored, 4), b.splat(one, 4)), 4);
      b.barrier();
      b.shared_store(s, at, two);
      b.shared_store(s, b.add(at, b.i32(3)), one);
      b.barrier();
      b.store(y, from, b.shared_load(s, b.add(mirrored, b.i32(3))));
    } else {
      b.store(y, from, b.add(v, b.shared_load(s, mirrored, 4)), 4);
    }
    cases.push_back(m.done());
  }
  expect_agreement(cases);
}

TEST(Instructions, Subgroups) {
  std::vector<Case> cases;
  for (const Ty t : {Ty::F32, Ty::I32, Ty::U32}) {
    for (const int lanes : {1, 4}) {
      const auto step = static_cast<uint32_t>(lanes);
      Maker m(lane_name("subgroup", t, lanes), 64);
      const int x = m.in("x", t, 128 * step);
      const Val i = m.b.mul(m.index(), m.b.i32(lanes));
      const Val v = m.b.load(x, i, lanes, step);
      for (const SubgroupOp op : {SubgroupOp::Add, SubgroupOp::Max, SubgroupOp::Min}) {
        const int y = m.out("y" + std::to_string(static_cast<int>(op)), t, 128 * step);
        m.b.store(y, i, m.b.subgroup(op, v), step);
      }
      const Val own = m.b.builtin(Builtin::SubgroupLane);
      const Val next = m.b.scalar_op(ScalarOp::BitAnd, {m.b.add(own, m.b.u32(1)), m.b.u32(3)});
      const int p = m.out("p", t, 128 * step), q = m.out("q", t, 128 * step);
      const int r = m.out("r", t, 128 * step);
      m.b.store(p, i, m.b.subgroup(SubgroupOp::Shuffle, v, next), step);
      m.b.store(q, i, m.b.subgroup(SubgroupOp::ShuffleXor, v, m.b.u32(2)), step);
      m.b.store(r, i, m.b.subgroup(SubgroupOp::Broadcast, v, m.b.u32(1)), step);
      cases.push_back(m.done());
    }
  }
  expect_agreement(cases);
}

TEST(Instructions, SubgroupsOfActiveLanes) {
  Maker m("active_lanes", 64);
  const int x = m.in("x", Ty::I32, 128), y = m.out("y", Ty::I32, 128);
  Builder& b = m.b;
  const int acc = b.local("acc", kI32);
  const Val i = m.index();
  const Val v = b.load(x, i), lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
  const auto add = [&](Val d) { b.local_store(acc, b.add(b.local_load(acc), d)); };
  b.local_store(acc, b.subgroup(SubgroupOp::Max, v));
  b.if_else(
      b.lt(v, b.i32(7)),
      [&] {
        add(b.subgroup(SubgroupOp::Add, v));
        // Lanes leave the loop one after another.
        b.for_loop(b.i32(0), lane, b.i32(1),
                   [&](Val n) { add(b.subgroup(SubgroupOp::Min, b.add(v, n))); });
        add(b.subgroup(SubgroupOp::Add, b.i32(1)));
      },
      [&] {
        const Val odd = b.eq(b.scalar_op(ScalarOp::BitAnd, {v, b.i32(1)}), b.i32(1));
        b.if_then(odd, [&] { add(b.mul(b.subgroup(SubgroupOp::Add, lane), b.i32(1000))); });
        add(b.subgroup(SubgroupOp::Shuffle, v, lane));
      });
  b.store(y, i, b.add(b.local_load(acc), b.subgroup(SubgroupOp::Min, v)));
  expect_agreement({m.done()});
}

TEST(Instructions, ErrorFlag) {
  std::vector<Case> cases;
  for (const int32_t bad : {-1, 17}) {
    Maker m(bad < 0 ? "error_none" : "error_one");
    m.launch.launch_id = 1234;
    const int y = m.out("y", Ty::I32, 64);
    const Val i = m.index();
    m.b.set_error(m.b.eq(i, m.param("bad", bad)), kernel::ErrorCode::IndexOutOfRange);
    m.b.store(y, i, i);
    cases.push_back(m.done());
  }
  expect_agreement(cases);
}

/// Two warps, each with a product of its own: the shape that CUDA text knows, on all ways to lie in
/// shared memory.
TEST(Instructions, MatricesOfAWarp) {
  std::vector<Case> cases;
  // Lines are copied asynchronously, and loaded as such, or element by element.
  for (const bool lines : {false, true}) {
    for (const int order : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const Ty type = order < 4 ? Ty::F16 : Ty::BF16;
      const bool left_by_columns = order / 2 % 2 == 1, right_by_columns = order % 2 == 1;
      const uint32_t align = lines ? 8 : 1;
      Maker m("matrices" + std::to_string(8 * lines + order), 64);
      Builder& b = m.b;
      b.require_subgroup_size(32);
      constexpr int kSize = 16, kLine = 24, kCount = 4 * kSize * kLine;
      const int x = m.in("x", type, kCount), y = m.out("y", Ty::F32, kCount / 2);
      const int halves = b.shared("halves", type, kCount);
      const int sums = b.shared("sums", Ty::F32, kCount / 2);
      const int left = b.matrix("left", kernel::MatrixUse::Left, type, kSize, kSize);
      const int right = b.matrix("right", kernel::MatrixUse::Right, type, kSize, kSize);
      const int sum = b.matrix("sum", kernel::MatrixUse::Sum, Ty::F32, kSize, kSize);
      const Val local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
      const auto copy = [&](int count, const std::function<void(Val)>& fn) {
        b.for_loop(b.i32(0), b.i32(count / 64), b.i32(1),
                   [&](Val i) { fn(b.add(b.mul(i, b.i32(64)), local)); });
      };
      if (lines) {
        copy(kCount / 8, [&](Val at) {
          const Val first = b.mul(at, b.i32(8));
          b.async_copy(x, first, halves, first, 8, b.i32(8));
        });
        b.copy_commit();
        b.copy_wait(0);
      } else {
        copy(kCount, [&](Val at) { b.shared_store(halves, at, b.load(x, at)); });
      }
      copy(kCount / 2, [&](Val at) { b.shared_store(sums, at, b.convert(at, Ty::F32)); });
      b.barrier();
      const Val warp = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32);
      const Val first = b.mul(warp, b.i32(kSize * kLine));
      b.matrix_load(left, halves, first, kLine, left_by_columns, align);
      b.matrix_load(right, halves, b.add(first, b.i32(kCount / 2)), kLine, right_by_columns, align);
      b.matrix_load(sum, sums, first, kLine);
      b.matrix_mul_add(sum, left, right);
      b.matrix_store(sum, sums, first, kLine);
      b.barrier();
      copy(kCount / 2, [&](Val at) { b.store(y, at, b.shared_load(sums, at)); });
      cases.push_back(m.done({1, 1, 1}));
    }
  }
  expect_agreement(cases);
}

TEST(Instructions, NothingIsContracted) {
  Maker m("contraction");
  const int x = m.in("x", Ty::F32, 64), y = m.out("y", Ty::F32, 64);
  for (size_t n = 0; n < 64; ++n) {
    set_element(m.launch.buffers[0], Ty::F32, n, 0x3F800001 + 977 * n);
  }
  const Val i = m.index();
  const Val v = m.b.load(x, i);
  const Val square = m.b.mul(v, v);
  m.b.store(y, i, m.b.sub(m.b.mul(square, v), m.b.add(square, m.b.f32(0.25F))));
  expect_agreement({m.done()});
}

}  // namespace
}  // namespace reprise::test
