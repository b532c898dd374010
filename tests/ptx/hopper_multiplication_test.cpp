// wgmma, against plain sums over matrices that are laid out as NVIDIA's document draws them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "runtime/base/tensor.h"
#include "tests/ptx/edits.h"
#include "tests/ptx/hopper.h"

namespace reprise::test {
namespace {

/// Small integers are exact in all of these, and so are their sums.
struct ElementKind {
  const char* name;
  uint32_t bytes;
  std::function<uint32_t(int)> bits;
  int least = -3, most = 3;
};

uint32_t single_bits(int v) {
  const auto f = static_cast<float>(v);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, 4);
  return bits;
}
/// The upper part of a single, which is exact for these numbers.
uint32_t short_float(int v, uint32_t exponent_bits, uint32_t fraction_bits) {
  if (v == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(static_cast<float>(std::abs(v)), &exponent);
  const auto bias = static_cast<int>((1U << (exponent_bits - 1)) - 1);
  const auto mantissa =
      static_cast<uint32_t>(std::ldexp(fraction * 2 - 1, static_cast<int>(fraction_bits)));
  const auto stored = static_cast<uint32_t>(exponent - 1 + bias);
  const uint32_t sign = v < 0 ? 1U << (exponent_bits + fraction_bits) : 0;
  return sign | stored << fraction_bits | mantissa;
}

const ElementKind kF16{"f16", 2, [](int v) { return short_float(v, 5, 10); }};
const ElementKind kBf16{"bf16", 2, [](int v) { return single_bits(v) >> 16; }};
const ElementKind kTf32{"tf32", 4,
                        [](int v) { return single_bits(v) | 0x1FFF; }};  // the rest is not read
const ElementKind kE4m3{"e4m3", 1, [](int v) { return short_float(v, 4, 3); }};
const ElementKind kE5m2{"e5m2", 1, [](int v) { return short_float(v, 5, 2); }};
const ElementKind kS8{"s8", 1, [](int v) { return static_cast<uint32_t>(v) & 255; }, -128, 127};
const ElementKind kU8{"u8", 1, [](int v) { return static_cast<uint32_t>(v); }, 0, 255};

/// How an operand lies in shared memory.
struct OperandLayout {
  uint32_t swizzle = 0;  // 0 none, 1 to 3: 32, 64, 128 bytes
  bool transposed = false;
  uint32_t leading = 0, stride = 0;  // bytes

  /// The byte of an element, from the canonical layouts: T elements are 16 bytes.
  uint32_t place(uint32_t outer, uint32_t k, uint32_t bytes) const {
    const uint32_t t = 16 / bytes, lines = 1U << swizzle;
    uint32_t element = 0;
    if (!transposed && swizzle == 0) {
      element = outer % 8 * t + outer / 8 * (stride / bytes) + k % t + k / t * (leading / bytes);
    } else if (!transposed) {
      element = outer % 8 * lines * t + outer / 8 * (stride / bytes) + k;
    } else if (swizzle == 0) {
      element = outer % t + outer / t * (stride / bytes) + k % 8 * t + k / 8 * (leading / bytes);
    } else {
      element = outer % t + outer / t % lines * t + outer / t / lines * (leading / bytes) +
                k % 8 * lines * t + k / 8 * (stride / bytes);
    }
    const uint32_t byte = element * bytes;
    // The picture of a swizzle: within lines of 128 bytes, 16 bytes change places.
    const uint32_t line = byte / 128, chunk = byte / 16 % 8;
    return line * 128 + (chunk ^ (line % lines)) * 16 + byte % 16;
  }
  uint64_t descriptor(uint32_t start) const {
    constexpr uint64_t kModes[] = {0, 3, 2, 1};
    return (start & 0x3FFFF) >> 4 | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
           kModes[swizzle] << 62;
  }
};

/// The densest layout of so many rows or columns.
OperandLayout dense_layout(uint32_t swizzle, bool transposed, uint32_t outer) {
  OperandLayout l;
  l.swizzle = swizzle;
  l.transposed = transposed;
  if (!transposed && swizzle == 0) {
    l.leading = 128;  // two halves of the depth, for 8 rows
    l.stride = 256;
  } else if (!transposed) {
    l.leading = 16;
    l.stride = 128U << swizzle;
  } else if (swizzle == 0) {
    l.stride = 128;
    l.leading = outer / 8 * 128;
  } else {
    l.leading = 128U << swizzle;
    l.stride = (outer * 2 + (16U << swizzle) - 1) / (16U << swizzle) * l.leading;
  }
  return l;
}

struct TeamProduct {
  ElementKind a = kF16, b = kF16;
  std::string sum = "f32";
  uint32_t columns = 64;
  OperandLayout left, right;
  bool from_registers = false, keeps = true, saturates = false;
  int left_sign = 1, right_sign = 1;
  uint64_t seed = 1;

  uint32_t depth() const { return 32 / a.bytes; }
  bool integer() const { return sum == "s32"; }
  uint32_t sums() const { return columns / (sum == "f16" ? 4 : 2); }
};

constexpr uint32_t kLeft = 0, kRight = 16384, kOld = 1 << 16;  // bytes of the first buffer

struct TeamNumbers {
  std::vector<int> a, b, old;  // by row and depth, by column and depth, by row and column
};

TeamNumbers team_numbers(const TeamProduct& p) {
  std::mt19937 rng(static_cast<unsigned>(p.seed));
  const auto some = [&](const ElementKind& k, size_t count) {
    std::vector<int> v(count);
    for (int& x : v)
      x = k.least + static_cast<int>(rng() % static_cast<unsigned>(k.most - k.least + 1));
    return v;
  };
  TeamNumbers n{some(p.a, size_t{64} * p.depth()), some(p.b, size_t{p.columns} * p.depth()),
                some(kF16, size_t{64} * p.columns)};
  return n;
}

/// Where a lane's nth sum of a warpgroup is.
std::pair<uint32_t, uint32_t> place_of_sum(uint32_t thread, uint32_t n) {
  const uint32_t warp = thread / 32, lane = thread % 32;
  return {16 * warp + lane / 4 + (n % 4 >= 2 ? 8 : 0), n / 4 * 8 + lane % 4 * 2 + n % 2};
}

void put_bits(std::vector<std::byte>& to, size_t at, uint32_t bits, uint32_t bytes) {
  std::memcpy(&to[at], &bits, bytes);
}

/// The buffer that a kernel starts from: operands as they lie in shared memory, or A as registers
/// hold it, and the sums to which products are added.
std::vector<std::byte> product_image(const TeamProduct& p, const TeamNumbers& n) {
  std::vector<std::byte> in(kOld + 128 * 128 * 4);
  for (uint32_t k = 0; k < p.depth(); ++k) {
    for (uint32_t c = 0; c < p.columns; ++c)
      put_bits(in, kRight + p.right.place(c, k, p.b.bytes), p.b.bits(n.b[c * p.depth() + k]),
               p.b.bytes);
    for (uint32_t r = 0; r < 64 && !p.from_registers; ++r)
      put_bits(in, kLeft + p.left.place(r, k, p.a.bytes), p.a.bits(n.a[r * p.depth() + k]),
               p.a.bytes);
  }
  const uint32_t parts = 4 / p.a.bytes;
  for (uint32_t t = 0; t < 128 && p.from_registers; ++t) {
    for (uint32_t e = 0; e < 4 * parts; ++e) {
      const uint32_t r = e / parts, lane = t % 32;
      const uint32_t row = t / 32 * 16 + lane / 4 + r % 2 * 8;
      const uint32_t k = r / 2 * 4 * parts + lane % 4 * parts + e % parts;
      put_bits(in, kLeft + t * 16 + e * p.a.bytes, p.a.bits(n.a[row * p.depth() + k]), p.a.bytes);
    }
  }
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t e = 0; e < p.columns / 2; ++e) {
      const auto [row, column] = place_of_sum(t, e);
      const int old = n.old[row * p.columns + column];
      const uint32_t size = p.sum == "f16" ? 2 : 4;
      const uint32_t bits = p.integer() ? static_cast<uint32_t>(old)
                            : size == 2 ? short_float(old, 5, 10)
                                        : single_bits(old);
      put_bits(in, kOld + t * 512 + e * size, bits, size);
    }
  }
  return in;
}

std::string list_of_registers(const std::string& name, uint32_t count) {
  std::string out;
  for (uint32_t n = 0; n < count; ++n) out += (n == 0 ? "" : ", ") + name + std::to_string(n);
  return "{" + out + "}";
}

std::string product_text(const TeamProduct& p) {
  std::string text =
      "mov.u32 %r0, smem;\nshl.b32 %r10, %t, 4;\n"
      "FILL: setp.ge.u32 %p1, %r10, 65536;\n@%p1 bra FULL;\nadd.s32 %r11, %r0, %r10;\n"
      "cvt.u64.u32 %q3, %r10;\nadd.s64 %q3, %in, %q3;\n"
      "ld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%q3];\n"
      "st.shared.v4.u32 [%r11], {%r12, %r13, %r14, %r15};\nadd.s32 %r10, %r10, 2048;\nbra FILL;\n"
      "FULL:\nfence.proxy.async;\nbar.sync 0;\n.reg .b32 %d<128>, %a<4>;\n"
      "mul.wide.u32 %q4, %t, 512;\nadd.s64 %q5, %in, %q4;\nadd.s64 %q6, %out, %q4;\n"
      "mul.wide.u32 %q7, %t, 16;\nadd.s64 %q7, %in, %q7;\n"
      "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%q7];\n";
  for (uint32_t n = 0; n < p.sums() && p.keeps; ++n)
    text +=
        "ld.global.u32 %d" + std::to_string(n) + ", [%q5+" + std::to_string(kOld + 4 * n) + "];\n";
  text +=
      "setp.ne.u32 %p2, " + std::string(p.keeps ? "1" : "0") + ", 0;\n" +
      "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n" + std::to_string(p.columns) +
      "k" + std::to_string(p.depth()) + (p.saturates ? ".satfinite." : ".") + p.sum + "." +
      p.a.name + "." + p.b.name + " " + list_of_registers("%d", p.sums()) + ", " +
      (p.from_registers ? list_of_registers("%a", 4) : std::to_string(p.left.descriptor(kLeft))) +
      ", " + std::to_string(p.right.descriptor(kRight)) + ", %p2";
  if (!p.integer())
    text += ", " + std::to_string(p.left_sign) + ", " + std::to_string(p.right_sign);
  if (p.a.bytes == 2 && !p.from_registers) text += p.left.transposed ? ", 1" : ", 0";
  if (p.a.bytes == 2) text += p.right.transposed ? ", 1" : ", 0";
  text += ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  for (uint32_t n = 0; n < p.sums(); ++n)
    text += "st.global.u32 [%q6+" + std::to_string(4 * n) + "], %d" + std::to_string(n) + ";\n";
  return text;
}

void check_product(const TeamProduct& p) {
  const TeamNumbers n = team_numbers(p);
  HopperMemory m;
  m.in = product_image(p, n);
  m.out.resize(128 * 512);
  const Status s = run_hopper(product_text(p), m);
  ASSERT_TRUE(s.ok()) << s.message() << product_text(p);
  size_t wrong = 0;
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t e = 0; e < p.columns / 2; ++e) {
      const auto [row, column] = place_of_sum(t, e);
      int64_t sum = 0;
      for (uint32_t k = 0; k < p.depth(); ++k)
        sum += int64_t{n.a[row * p.depth() + k]} * n.b[column * p.depth() + k];
      sum = sum * p.left_sign * p.right_sign + (p.keeps ? n.old[row * p.columns + column] : 0);
      const uint32_t size = p.sum == "f16" ? 2 : 4;
      uint32_t got = 0;
      std::memcpy(&got, &m.out[t * 512 + e * size], size);
      const uint32_t expected = p.integer() ? static_cast<uint32_t>(sum)
                                : size == 2 ? short_float(static_cast<int>(sum), 5, 10)
                                            : single_bits(static_cast<int>(sum));
      wrong += got == expected ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0U) << p.a.name << " " << p.b.name << " " << p.sum << " n" << p.columns
                       << " swizzles " << p.left.swizzle << p.right.swizzle << " transposed "
                       << p.left.transposed << p.right.transposed << " registers "
                       << p.from_registers;
}

TEST(PtxProducts, OfEachLayout) {
  for (uint32_t left = 0; left < 8; ++left) {
    for (uint32_t right = 0; right < 8; ++right) {
      TeamProduct p;
      p.seed = 8 * left + right;
      p.columns = 8 * (1 + (8 * left + right) % 12);
      p.left = dense_layout(left % 4, left >= 4, 64);
      p.right = dense_layout(right % 4, right >= 4, p.columns);
      check_product(p);
    }
  }
}

TEST(PtxProducts, OfEachWidth) {
  for (uint32_t columns = 8; columns <= 256; columns += 8) {
    TeamProduct p;
    p.a = p.b = columns % 16 == 0 ? kF16 : kBf16;
    p.columns = columns;
    p.left = dense_layout(3, false, 64);
    p.right = dense_layout(columns % 64 == 0 ? 3 : 0, columns % 64 == 0, columns);
    check_product(p);
  }
}

TEST(PtxProducts, OfEachType) {
  struct Row {
    ElementKind a, b;
    std::string sum;
  };
  const Row rows[] = {{kF16, kF16, "f16"},   {kF16, kF16, "f32"},   {kBf16, kBf16, "f32"},
                      {kTf32, kTf32, "f32"}, {kE4m3, kE4m3, "f32"}, {kE4m3, kE5m2, "f32"},
                      {kE5m2, kE4m3, "f16"}, {kE5m2, kE5m2, "f32"}, {kS8, kS8, "s32"},
                      {kU8, kU8, "s32"},     {kS8, kU8, "s32"},     {kU8, kS8, "s32"}};
  for (const Row& row : rows) {
    for (uint32_t n = 0; n < 8; ++n) {
      TeamProduct p;
      p.a = row.a;
      p.b = row.b;
      p.sum = row.sum;
      p.columns = 48;
      p.left = dense_layout(n % 4, false, 64);
      p.right = dense_layout((n + 1) % 4, false, 48);
      p.from_registers = n >= 4;
      p.keeps = n % 2 == 0;
      p.saturates = p.integer() && n % 3 == 0;
      if (!p.integer()) p.left_sign = n % 3 == 0 ? -1 : 1;
      if (!p.integer()) p.right_sign = n % 4 == 1 ? -1 : 1;
      p.seed = n;
      check_product(p);
    }
  }
}

/// A stage of a ring: rows of 128 bytes, of which each product reads 32.
TEST(PtxProducts, OfPartsOfRows) {
  HopperMemory m;
  m.out.resize(128 * 512);
  m.in.resize(1 << 16);
  std::mt19937 rng(11);
  std::vector<int> a(size_t{64} * 64), b(size_t{32} * 64);
  for (int& v : a) v = static_cast<int>(rng() % 7) - 3;
  for (int& v : b) v = static_cast<int>(rng() % 7) - 3;
  const OperandLayout rows = dense_layout(3, false, 64);
  const auto byte = [&](uint32_t r, uint32_t k) {
    const uint32_t line = r, chunk = k / 8;
    return line * 128 + (chunk ^ line % 8) * 16 + k % 8 * 2;
  };
  for (uint32_t k = 0; k < 64; ++k) {
    for (uint32_t r = 0; r < 64; ++r) put_bits(m.in, byte(r, k), kF16.bits(a[r * 64 + k]), 2);
    for (uint32_t c = 0; c < 32; ++c)
      put_bits(m.in, kRight + byte(c, k), kF16.bits(b[c * 64 + k]), 2);
  }
  TeamProduct p;
  p.columns = 32;
  p.keeps = false;
  p.left = p.right = rows;
  std::string text = product_text(p);
  const size_t begin = text.find("wgmma.mma_async"), end = text.find(";\n", begin) + 2;
  std::string products;
  for (uint32_t part = 0; part < 4; ++part) {
    std::string one = text.substr(begin, end - begin);
    const auto change = [&](uint64_t from, uint64_t to) {
      const std::string old = std::to_string(from);
      one.replace(one.find(old), old.size(), std::to_string(to));
    };
    change(rows.descriptor(kLeft), rows.descriptor(kLeft + 32 * part));
    change(rows.descriptor(kRight), rows.descriptor(kRight + 32 * part));
    if (part > 0) one.replace(one.find("%p2"), 3, "1");
    products += one;
  }
  const Status s = run_hopper(text.replace(begin, end - begin, products), m);
  ASSERT_TRUE(s.ok()) << s.message();
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t e = 0; e < 16; ++e) {
      const auto [row, column] = place_of_sum(t, e);
      int sum = 0;
      for (uint32_t k = 0; k < 64; ++k) sum += a[row * 64 + k] * b[column * 64 + k];
      uint32_t got = 0;
      std::memcpy(&got, &m.out[t * 512 + e * 4], 4);
      ASSERT_EQ(got, single_bits(sum)) << row << " " << column;
    }
  }
}

TEST(PtxProducts, MistakesAreFound) {
  TeamProduct p;
  p.left = dense_layout(2, false, 64);
  p.right = dense_layout(2, true, 64);
  const std::string good = product_text(p);
  TeamProduct in_registers = p;
  in_registers.from_registers = true;
  const std::string registers = product_text(in_registers);
  const std::string wait = "wgmma.wait_group.sync.aligned 0;\n",
                    commit = "wgmma.commit_group.sync.aligned;\n",
                    fence = "wgmma.fence.sync.aligned;\n";
  const std::string store = "st.shared.u32 [%r0+16384], 0;\n";
  const std::pair<std::string, std::string> mistakes[] = {
      {replaced(good, wait, ""), "not awaited"},
      {replaced(good, commit, ""), "not awaited"},
      {replaced(good, "aligned 0;", "aligned 1;"), "not awaited"},
      {replaced(good, fence, ""), "wgmma.fence"},
      {replaced(good, fence, fence + "add.u32 %d3, %d3, 0;\n"), "last wgmma.fence"},
      {replaced(good, "fence.proxy.async;\n", ""), "fence.proxy.async"},
      {replaced(good, "bar.sync 0;\n", ""), ""},
      {replaced(good, wait, store + wait), "may still read"},
      {replaced(good, wait, "mov.b32 %r20, %d1;\nadd.u32 %r20, %r20, 1;\n" + wait), "not awaited"},
      {replaced(registers, wait, "mov.u32 %a1, 0;\n" + wait), "not awaited"},
      {replaced(good, "%p2, 1, 1", "%p2, 1, 2"), "sign"},
      {replaced(good, std::to_string(p.right.descriptor(kRight)),
                std::to_string(p.right.descriptor(kRight) | uint64_t{1} << 46)),
       "does not know"},
      {replaced(good, "n64k16", "n64k8"), "unknown instruction"},
      {replaced(good, "n64k16", "n68k16"), "unknown instruction"},
      {replaced(good, fence, "setp.lt.u32 %p3, %t, 96;\n@!%p3 bra END;\n" + fence) + "END:\n",
       "do"},
      {replaced(good, "bar.sync 0;\n", "bar.sync 0;\nsetp.lt.u32 %p3, %t, 96;\n@!%p3 exit;\n"), ""},
      {replaced(good, "setp.ne.u32 %p2, 1, 0;", "setp.lt.u32 %p2, %t, 64;"), "other operands"},
      {replaced(good, "setp.ne.u32 %p2, 1, 0;", "setp.lt.u32 %p2, %t, 16;"), "differs"},
  };
  const std::vector<std::byte> in = product_image(p, team_numbers(p));
  for (const auto& [text, said] : mistakes) {
    ASSERT_NE(text, "") << said;
    HopperMemory m;
    m.in = in;
    m.out.resize(128 * 512);
    const std::string problem = run_hopper(text, m).message();
    EXPECT_NE(problem, "") << text;
    EXPECT_NE(problem.find(said), std::string::npos) << problem << " not " << said;
  }
  HopperMemory small;
  small.in = in;
  small.out.resize(128 * 512);
  small.threads = 96;
  EXPECT_NE(run_hopper(good, small).message().find("not whole"), std::string::npos);
}

/// Threads that write operands themselves tell others by an mbarrier, after a fence.
TEST(PtxProducts, OfWhatThreadsWrote) {
  TeamProduct p;
  p.left = dense_layout(3, false, 64);
  p.right = dense_layout(3, false, 64);
  const std::string bar = "%r0+65536";
  const std::string text =
      replaced(replaced(product_text(p), "bar.sync 0;\n",
                        "mbarrier.arrive.shared::cta.b64 _, [" + bar + "];\n" + wait_for(bar, "0")),
               "FILL:",
               "setp.ne.u32 %p0, %t, 0;\n@%p0 bra READY;\nmbarrier.init.shared::cta.b64 [" + bar +
                   "], 128;\nREADY:\nbar.sync 0;\nFILL:");
  HopperMemory m;
  m.shared = 65536 + 8;
  m.in = product_image(p, team_numbers(p));
  m.out.resize(128 * 512);
  EXPECT_EQ(run_hopper(text, m).message(), "");
  const std::string problem = run_hopper(replaced(text, "fence.proxy.async;\n", ""), m).message();
  EXPECT_NE(problem.find("fence.proxy.async"), std::string::npos) << problem;
  const std::string late = replaced(replaced(text, "fence.proxy.async;\n", ""), "wgmma.fence",
                                    "fence.proxy.async;\nwgmma.fence");
  EXPECT_EQ(run_hopper(late, m).message(), "");
}

/// A compiler may give a sum another name at any place.
TEST(PtxProducts, SumsMayBeRenamedBeforeTheyAreAwaited) {
  TeamProduct p;
  p.left = dense_layout(2, false, 64);
  p.right = dense_layout(2, true, 64);
  HopperMemory m;
  m.in = product_image(p, team_numbers(p));
  m.out.resize(128 * 512);
  std::string text = product_text(p);
  const std::string wait = "wgmma.wait_group";
  text.insert(text.find(wait), "mov.b32 %r20, %d1;\n");
  EXPECT_EQ(run_hopper(text, m).message(), "");
}

}  // namespace
}  // namespace reprise::test
