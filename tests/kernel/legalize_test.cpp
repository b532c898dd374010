// Legalised kernels compute what the originals do, or report that they cannot.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

constexpr LegalizeFor kFewestFeatures{
    .int64 = false, .float16 = false, .storage8 = false, .storage16 = false};

Kernel legalizable(Builder& b) {
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  return k.ok() ? std::move(*k) : Kernel{};
}

Kernel legal(Kernel k, const LegalizeFor& target) {
  const Status s = legalize(k, target);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(k).ok()) << verify(k).message();
  const Requirements r = requirements(k);
  EXPECT_TRUE(target.int64 || !r.int64);
  EXPECT_TRUE(target.float16 || !r.float16);
  EXPECT_TRUE(target.storage8 || !r.storage8);
  EXPECT_TRUE(target.storage16 || !r.storage16);
  return k;
}

using Memory = std::vector<std::vector<std::byte>>;

ErrorCode run(const Kernel& k, uint32_t groups, Memory& memory) {
  Launch launch;
  launch.grid = {groups, 1, 1};
  for (auto& m : memory) launch.buffers.emplace_back(m);
  const auto outcome = interpret(k, launch);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message() << print(k);
  return outcome.ok() ? outcome->error : ErrorCode::None;
}

template <typename T>
std::vector<std::byte> pack(const std::vector<T>& v) {
  std::vector<std::byte> out(v.size() * sizeof(T));
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

/// y[i] = row(x0[i], x1[i]) on 64-bit integers.
Kernel wide_kernel(ScalarOp op, Ty t) {
  Builder b("wide");
  b.set_workgroup(1);
  const Val i = b.builtin(Builtin::GlobalId, 0);
  const bool test = row(op).result == ResultKind::Boolean;
  const int y = b.buffer("y", test ? Ty::U32 : t, Access::Write);
  std::vector<Val> args;
  for (int a = 0; a < row(op).arity; ++a) {
    args.push_back(b.load(b.buffer("x" + std::to_string(a), t, Access::Read), i));
  }
  const Val v = b.scalar_op(op, args);
  b.store(y, i, test ? b.convert(v, Ty::U32) : v);
  return legalizable(b);
}

bool leaves_64_bits(uint64_t base, uint64_t exponent, Ty t) {
  const bool is_signed = t == Ty::I64;
  const auto number = [&](uint64_t v) {
    return is_signed ? static_cast<double>(static_cast<int64_t>(v)) : static_cast<double>(v);
  };
  return std::fabs(std::pow(number(base), number(exponent))) >= (is_signed ? 0x1p63 : 0x1p64);
}

/// On every pair of interesting values: the 64-bit result when it fits 32 bits, otherwise an error.
TEST(Legalize, CheckedIntegersAgreeOrReport) {
  for (Ty t : {Ty::I64, Ty::U64}) {
    std::vector<uint64_t> values = {0,  1,     2,     3,     31,         32,
                                    40, 46341, 65535, 65536, 0x7ffffffe, 0x7fffffff};
    if (t == Ty::U64) values.insert(values.end(), {0x80000000, 0xffffffff});
    if (t == Ty::I64) {
      for (int64_t v : {-1L, -2L, -46341L, -65536L, -2147483647L, -2147483648L}) {
        values.push_back(static_cast<uint64_t>(v));
      }
    }
    for (int n = 0; n < scalar_op_count(); ++n) {
      const ScalarRow& r = row(static_cast<ScalarOp>(n));
      const bool no_form = t == Ty::U64 && r.op == ScalarOp::BitNot;
      if ((r.operands & class_of(t)) == 0 || r.op == ScalarOp::Where || no_form) continue;
      const Kernel original = wide_kernel(r.op, t);
      const Kernel narrow = legal(original, kFewestFeatures);
      for (uint64_t a : values) {
        for (uint64_t b : values) {
          if (b == 0 && (r.op == ScalarOp::IDiv || r.op == ScalarOp::IRem)) continue;
          Memory m{std::vector<std::byte>(8), pack(std::vector{a})};
          if (r.arity == 2) m.push_back(pack(std::vector{b}));
          Memory narrow_memory = m;
          ASSERT_EQ(run(original, 1, m), ErrorCode::None);
          const ErrorCode error = run(narrow, 1, narrow_memory);
          uint64_t want = 0;
          std::memcpy(&want, m[0].data(), 8);
          const bool fits = r.result == ResultKind::Boolean ||
                            (t == Ty::I64 ? static_cast<int64_t>(want) == static_cast<int32_t>(want)
                                          : want <= 0xffffffffU);
          // A shift or a power that leaves 64 bits is reported, too.
          if (r.op == ScalarOp::ShiftLeft && b < 64 && a != 0 && want == 0) continue;
          if (r.op == ScalarOp::Pow && leaves_64_bits(a, b, t)) continue;
          const std::string text =
              std::string(r.name) + " " + std::to_string(a) + " " + std::to_string(b);
          EXPECT_EQ(error, fits ? ErrorCode::None : ErrorCode::IntegerOverflow) << text;
          EXPECT_TRUE(!fits || narrow_memory[0] == m[0]) << text;
        }
      }
    }
  }
}

TEST(Legalize, LoadsThatDoNotFitAreReported) {
  const Kernel k = legal(wide_kernel(ScalarOp::Relu, Ty::I64), kFewestFeatures);
  const struct {
    int64_t value;
    ErrorCode error;
  } cases[] = {{5, ErrorCode::None},
               {-2147483648, ErrorCode::None},
               {2147483648, ErrorCode::IntegerOverflow},
               {-2147483649, ErrorCode::IntegerOverflow},
               {int64_t{1} << 40, ErrorCode::IntegerOverflow}};
  for (const auto& c : cases) {
    Memory m{std::vector<std::byte>(8), pack(std::vector{c.value})};
    EXPECT_EQ(run(k, 1, m), c.error) << c.value;
  }
}

/// The identities of reductions over 64-bit integers do not fit; they compare as infinities, and
/// never reach memory in silence.
TEST(Legalize, ConstantsBeyondTheRange) {
  Builder b("largest");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::I64, Access::Read);
  const int y = b.buffer("y", Ty::I64, Access::Write);
  const int n = b.scalar("n");
  const int best = b.local("best", kI64);
  b.local_store(best, b.i64(std::numeric_limits<int64_t>::min()));
  b.for_loop(b.i32(0), b.param(n), b.i32(1),
             [&](Val i) { b.local_store(best, b.max(b.local_load(best), b.load(x, i))); });
  b.store(y, b.i32(0), b.local_load(best));
  const Kernel k = legal(legalizable(b), kFewestFeatures);
  std::vector<int64_t> in{-7, -3, -2147483647};
  std::vector<int64_t> out(1);
  Launch launch{{1, 1, 1},
                {std::as_writable_bytes(std::span(in)), std::as_writable_bytes(std::span(out))},
                {3}};
  EXPECT_EQ(interpret(k, launch)->error, ErrorCode::None);
  EXPECT_EQ(out[0], -3);
  launch.scalars[0] = 0;
  EXPECT_EQ(interpret(k, launch)->error, ErrorCode::IntegerOverflow);
}

TEST(Legalize, ConversionsOfWideIntegers) {
  const struct {
    Ty from, to;
    double value;
    bool fits;
  } cases[] = {
      {Ty::F32, Ty::I64, -5.7, true},
      {Ty::F32, Ty::I64, 3e9, false},
      {Ty::F32, Ty::I64, -2147483648.0, true},
      {Ty::F32, Ty::I64, -3e9, false},
      {Ty::F32, Ty::I64, NAN, true},
      {Ty::F32, Ty::I64, INFINITY, false},
      {Ty::F32, Ty::U64, 4e9, true},
      {Ty::F32, Ty::U64, 5e9, false},
      {Ty::F32, Ty::U64, -1, true},
      {Ty::I32, Ty::I64, -9, true},
      {Ty::U32, Ty::I64, 3e9, false},
      {Ty::U32, Ty::U64, 3e9, true},
      {Ty::I32, Ty::U64, -1, false},
      {Ty::I64, Ty::F32, -77, true},
      {Ty::I64, Ty::I32, -77, true},
      {Ty::I64, Ty::U64, -1, false},
      {Ty::U64, Ty::I64, 3e9, false},
      {Ty::I64, Ty::F16, -77, true},
      {Ty::F16, Ty::I64, 1000, true},
  };
  for (const auto& c : cases) {
    Builder b("convert");
    b.set_workgroup(1);
    const int x = b.buffer("x", c.from, Access::Read);
    const int y = b.buffer("y", c.to, Access::Write);
    // Twice, so that a half covers a whole word.
    const int lanes = c.to == Ty::F16 || c.from == Ty::F16 ? 2 : 1;
    b.store(y, b.i32(0), b.convert(b.load(x, b.i32(0), lanes, 2), c.to), 2);
    const Kernel original = legalizable(b);
    const Kernel narrow = legal(original, kFewestFeatures);
    const uint64_t bits = bits_of(c.value, c.from);
    Memory m{pack(std::vector{bits, bits}), std::vector<std::byte>(16)};
    if (c.from == Ty::F16) m[0] = pack(std::vector<uint16_t>(2, static_cast<uint16_t>(bits)));
    Memory narrow_memory = m;
    ASSERT_EQ(run(original, 1, m), ErrorCode::None);
    const ErrorCode error = run(narrow, 1, narrow_memory);
    const std::string text = std::string(name_of(c.from)) + " " + std::to_string(c.value) + " to " +
                             std::string(name_of(c.to));
    EXPECT_EQ(error, c.fits ? ErrorCode::None : ErrorCode::IntegerOverflow) << text;
    EXPECT_TRUE(!c.fits || narrow_memory[1] == m[1]) << text;
  }
}

/// Copies elements of a small storage type through its compute type: all bit patterns.
TEST(Legalize, PackedElementsRoundTrip) {
  for (Ty t : {Ty::I8, Ty::U8, Ty::I16, Ty::U16, Ty::F16, Ty::BF16}) {
    const int lanes = byte_size(t) == 1 ? 4 : 2;
    for (int load_lanes : {1, 2, 4}) {
      if (load_lanes > lanes) continue;
      Builder b("copy");
      b.set_workgroup(16);
      const int x = b.buffer("x", t, Access::Read);
      const int y = b.buffer("y", t, Access::Write);
      const int wide = b.buffer("wide", compute_type(t), Access::Write);
      const Val first = b.mul(b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32), b.i32(lanes));
      std::vector<Val> parts;
      for (int l = 0; l < lanes; l += load_lanes) {
        const Val v =
            b.load(x, b.add(first, b.i32(l)), load_lanes, static_cast<uint32_t>(load_lanes));
        for (int p = 0; p < load_lanes; ++p) parts.push_back(b.extract(v, p));
      }
      const Val all = b.compose(parts);
      b.store(y, first, all, static_cast<uint32_t>(lanes));
      b.store(wide, first, all, static_cast<uint32_t>(lanes));
      const Kernel original = legalizable(b);
      LegalizeFor target = kFewestFeatures;
      target.float16 = true;
      const Kernel narrow = legal(original, t == Ty::F16 ? target : kFewestFeatures);
      const size_t count = byte_size(t) == 1 ? 256 : 65536;
      Memory m(3);
      m[0].resize(count * static_cast<size_t>(byte_size(t)));
      for (size_t i = 0; i < count; ++i) {
        // NaNs need not keep their payload.
        const bool nan =
            (t == Ty::F16 && (i & 0x7fffU) > 0x7c00U) || (t == Ty::BF16 && (i & 0x7fffU) > 0x7f80U);
        const size_t bits = nan ? 0 : i;
        std::memcpy(&m[0][i * static_cast<size_t>(byte_size(t))], &bits,
                    static_cast<size_t>(byte_size(t)));
      }
      m[1].resize(m[0].size());
      m[2].resize(count * static_cast<size_t>(byte_size(compute_type(t))));
      Memory narrow_memory = m;
      const auto groups = static_cast<uint32_t>(count / 16 / static_cast<size_t>(lanes));
      run(original, groups, m);
      EXPECT_EQ(m[1], m[0]);
      EXPECT_EQ(run(narrow, groups, narrow_memory), ErrorCode::None);
      EXPECT_EQ(narrow_memory[1], m[1]) << name_of(t) << " by " << load_lanes;
      EXPECT_EQ(narrow_memory[2], m[2]) << name_of(t) << " by " << load_lanes;
    }
  }
}

/// Every invocation owns `lanes` elements that do not fill a word: neighbours keep theirs.
TEST(Legalize, BytesLoadedInFoursBecomeWords) {
  constexpr LegalizeFor kWordLoads{.word_loads = true};
  for (const Ty t : {Ty::I8, Ty::U8}) {
    for (const bool fours : {true, false}) {
      Builder b("bytes");
      b.set_workgroup(1);
      const Val i = b.convert(b.builtin(Builtin::GlobalId, 0), Ty::I32);
      const int in = b.buffer("in", t, Access::Read, 16);
      const int out = b.buffer("out", Ty::I32, Access::Write, 16);
      Val x = b.load(in, b.mul(i, b.i32(4)), 4, 4);
      if (!fours) x = b.add(x, b.splat(b.load(in, i), 4));
      b.store(out, b.mul(i, b.i32(4)), t == Ty::I8 ? x : b.convert(x, Ty::I32), 4);
      const Kernel original = legalizable(b);
      const Kernel words = legal(original, kWordLoads);
      EXPECT_EQ(words.buffers[0].storage, fours ? Ty::U32 : t);
      std::vector<uint8_t> bytes;
      for (int n = 0; n < 64; ++n) bytes.push_back(static_cast<uint8_t>(n * 37));
      Memory expected{pack(bytes), std::vector<std::byte>(256)};
      Memory actual = expected;
      EXPECT_EQ(run(original, 16, expected), ErrorCode::None);
      EXPECT_EQ(run(words, 16, actual), ErrorCode::None);
      EXPECT_EQ(actual[1], expected[1]);
    }
  }
}

TEST(Legalize, HalvesThatAreOnlyLoadedBecomeWords) {
  constexpr LegalizeFor kWordLoads{.float16 = false, .word_loads = true};
  for (const Ty t : {Ty::F16, Ty::BF16, Ty::I16, Ty::U16}) {
    for (const int lanes : {1, 2, 4}) {
      Builder b("halves");
      b.set_workgroup(1);
      const auto n = static_cast<uint32_t>(lanes);
      const Val at = b.mul(b.builtin(Builtin::GlobalId, 0), b.u32(n));
      const int in = b.buffer("in", t, Access::Read, 16);
      const int copy = b.buffer("copy", t, Access::Write, 16);
      const int out = b.buffer("out", compute_type(t), Access::Write, 16);
      const Val x = b.load(in, at, lanes, n);
      b.store(copy, at, x, n);
      b.store(out, at, b.add(x, x), n);
      const Kernel original = legalizable(b);
      const Kernel words = legal(original, kWordLoads);
      EXPECT_EQ(words.buffers[0].storage, Ty::U32);
      EXPECT_EQ(words.buffers[1].storage, t == Ty::F16 ? Ty::U16 : t);
      std::vector<uint16_t> halves;
      for (int i = 0; i < 16; ++i) halves.push_back(static_cast<uint16_t>(i * 2081));
      Memory expected{pack(halves), std::vector<std::byte>(32), std::vector<std::byte>(64)};
      Memory actual = expected;
      EXPECT_EQ(run(original, 16 / n, expected), ErrorCode::None);
      EXPECT_EQ(run(words, 16 / n, actual), ErrorCode::None);
      EXPECT_EQ(actual[1], expected[1]) << name_of(t) << " by " << lanes;
      EXPECT_EQ(actual[2], expected[2]) << name_of(t) << " by " << lanes;
    }
  }
}

TEST(Legalize, StoresOfPartsOfWordsKeepTheRest) {
  for (const auto& [t, lanes] :
       {std::pair{Ty::U8, 1}, {Ty::I8, 2}, {Ty::U8, 4}, {Ty::F16, 1}, {Ty::BF16, 1}}) {
    Builder b("part");
    b.set_workgroup(4);
    const int x = b.buffer("x", compute_type(t), Access::Read);
    const int y = b.buffer("y", t, Access::Write);
    const auto n = static_cast<uint32_t>(lanes);
    const Val at = b.mul(b.builtin(Builtin::GlobalId, 0), b.u32(n));
    // Unaligned for the packed form: the index is proven a multiple of the lanes only.
    b.store(y, at, b.load(x, at, lanes, n), lanes == 4 ? 4 : n);
    const Kernel original = legalizable(b);
    const Kernel narrow = legal(original, kFewestFeatures);
    const size_t count = size_t{12} * n;
    Memory m(2);
    for (size_t i = 0; i < count; ++i) {
      const float number = 0.5F * static_cast<float>(i) - 3.0F;
      uint64_t bits = i * 29 % 251;
      if (t == Ty::BF16) bits = std::bit_cast<uint32_t>(number);
      if (t == Ty::F16) bits = float_to_f16(number);
      const auto size = static_cast<size_t>(byte_size(compute_type(t)));
      m[0].resize((i + 1) * size);
      std::memcpy(&m[0][i * size], &bits, size);
    }
    m[1].assign(count * static_cast<size_t>(byte_size(t)), std::byte{0x5a});
    Memory narrow_memory = m;
    run(original, 3, m);
    EXPECT_EQ(run(narrow, 3, narrow_memory), ErrorCode::None);
    EXPECT_EQ(narrow_memory[1], m[1]) << name_of(t) << " by " << lanes;
  }
}

/// Half-precision arithmetic moves to F32: results are as near to the exact ones as halves get.
TEST(Legalize, HalfArithmetic) {
  for (const LegalizeFor& target : {kFewestFeatures, LegalizeFor{.float16 = false}}) {
    Builder b("halves");
    b.set_workgroup(16);
    const int x = b.buffer("x", Ty::F16, Access::Read);
    const int y = b.buffer("y", Ty::F16, Access::Write);
    const int cells = b.shared("cells", Ty::F16, 32);
    const Val me = b.mul(b.convert(b.builtin(Builtin::LocalIndex), Ty::I32), b.i32(2));
    b.shared_store(cells, me, b.load(x, me, 2, 2));
    b.barrier();
    const Val v = b.shared_load(cells, me, 2);
    const Type half2{Ty::F16, 2};
    const Val r = b.scalar_op(ScalarOp::Tanh, {b.mul(b.add(v, b.constant(half2, 0.25)), v)});
    b.store(y, me, r, 2);
    const Kernel original = legalizable(b);
    const Kernel narrow = legal(original, target);
    std::vector<uint16_t> in(32);
    std::mt19937 random(3);
    for (auto& h : in) h = float_to_f16(std::uniform_real_distribution<float>(-2, 2)(random));
    Memory m{pack(in), std::vector<std::byte>(64)};
    run(narrow, 1, m);
    for (size_t i = 0; i < in.size(); ++i) {
      const float f = f16_to_float(in[i]);
      uint16_t got = 0;
      std::memcpy(&got, &m[1][i * 2], 2);
      EXPECT_NEAR(f16_to_float(got), std::tanh((f + 0.25F) * f), 1e-3F) << f;
    }
  }
}

/// Float to half rounds alike with and without half arithmetic.
TEST(Legalize, CastsToHalfRound) {
  Builder b("cast");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Val i = b.builtin(Builtin::GlobalId, 0);
  b.store(y, i, b.convert(b.convert(b.load(x, i), Ty::F16), Ty::F32));
  const Kernel original = legalizable(b);
  const Kernel narrow = legal(original, kFewestFeatures);
  std::vector<uint32_t> in(64 * 1024);
  std::mt19937 random(5);
  for (auto& v : in) {
    v = static_cast<uint32_t>(random());
    if ((v & 0x7fffffffU) > 0x7f800000U) v = 0x477fe800U;
  }
  Memory m{pack(in), std::vector<std::byte>(in.size() * 4)};
  Memory narrow_memory = m;
  run(original, 1024, m);
  run(narrow, 1024, narrow_memory);
  EXPECT_EQ(narrow_memory[1], m[1]);
}

TEST(Legalize, NamesWhatIsUnsupported) {
  Builder b("flip");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::U64, Access::ReadWrite);
  b.store(x, b.i32(0), b.scalar_op(ScalarOp::BitNot, {b.load(x, b.i32(0))}));
  Kernel k = legalizable(b);
  const Status s = legalize(k, kFewestFeatures);
  EXPECT_EQ(s.code(), Code::Unsupported);
  EXPECT_NE(s.message().find("BitNot of uint64"), std::string::npos) << s.message();
  EXPECT_TRUE(legalize(k, {}).ok());
}

}  // namespace
}  // namespace reprise::kernel
