// The executor itself, on PTX by hand, against what NVIDIA's document says of each instruction.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "runtime/base/dtype.h"
#include "runtime/base/tensor.h"
#include "tests/ptx/assembly.h"

namespace reprise::test {
namespace {

/// Each thread writes one word: what `body` leaves in %r0.
std::string of_each_thread(const std::string& body, const std::string& declarations = "") {
  return assembly(
      "mov.u32 %r60, %tid.x;\nmul.wide.u32 %q15, %r60, 4;\nadd.s64 %q14, %in, %q15;\n"
      "ld.global.u32 %r1, [%q14];\n" +
          body + "\nadd.s64 %q13, %out, %q15;\nst.global.u32 [%q13], %r0;",
      declarations);
}

std::vector<uint32_t> counting(uint32_t count) {
  std::vector<uint32_t> v(count);
  for (uint32_t n = 0; n < count; ++n) v[n] = n;
  return v;
}

/// What one thread makes of a word.
uint32_t result_of(const std::string& body, uint32_t in, const std::string& declarations = "") {
  std::vector<uint32_t> out(1, 0xDEAD);
  const Status s = run_assembly(of_each_thread(body, declarations), 1, {in}, out);
  EXPECT_TRUE(s.ok()) << s.message();
  return out[0];
}

uint32_t word(float v) {
  return std::bit_cast<uint32_t>(v);
}
float single_of(uint32_t v) {
  return std::bit_cast<float>(v);
}

TEST(PtxInstructions, IntegersAndBits) {
  EXPECT_EQ(result_of("prmt.b32 %r0, %r1, 0x11223344, 0x7654;", 0xAABBCCDD), 0x11223344U);
  EXPECT_EQ(result_of("prmt.b32 %r0, %r1, 0x11223344, 0x0415;", 0xAABBCCDD), 0xDD44CC33U);
  EXPECT_EQ(result_of("prmt.b32 %r0, %r1, 0, 0xBA98;", 0x80017F80), 0xFF0000FFU);
  EXPECT_EQ(result_of("lop3.b32 %r0, %r1, 0x0F0F0F0F, 0x00FF00FF, 0xCA;", 0xFF00FF00),
            (0xFF00FF00U & 0x0F0F0F0FU) | (0x00FF00FFU & 0x00FF00FFU));
  EXPECT_EQ(result_of("shf.l.wrap.b32 %r0, %r1, 0x12345678, 36;", 0x9ABCDEF0), 0x23456789U);
  EXPECT_EQ(result_of("shf.r.clamp.b32 %r0, %r1, 0x12345678, 40;", 0x9ABCDEF0), 0x12345678U);
  EXPECT_EQ(result_of("bfe.s32 %r0, %r1, 4, 8;", 0x00000F80), 0xFFFFFFF8U);
  EXPECT_EQ(result_of("bfe.u32 %r0, %r1, 28, 8;", 0xF0000000), 0xFU);
  EXPECT_EQ(result_of("bfi.b32 %r0, 0xAB, %r1, 8, 8;", 0x11223344), 0x1122AB44U);
  EXPECT_EQ(result_of("shr.s32 %r0, %r1, 99;", 0x80000000), 0xFFFFFFFFU);
  EXPECT_EQ(result_of("shl.b32 %r0, %r1, 32;", 1), 0U);
  EXPECT_EQ(result_of("mul.hi.s32 %r0, %r1, -3;", 0x7FFFFFFF), 0xFFFFFFFEU);
  EXPECT_EQ(result_of("mad.lo.s32 %r0, %r1, 5, -7;", 3), 8U);
  EXPECT_EQ(result_of("bfind.u32 %r0, %r1;", 0x00010000), 16U);
  EXPECT_EQ(result_of("bfind.shiftamt.u32 %r0, %r1;", 0x00010000), 15U);
  EXPECT_EQ(result_of("clz.b32 %r0, %r1;", 0x00010000), 15U);
  EXPECT_EQ(result_of("brev.b32 %r0, %r1;", 0x00010000), 0x8000U);
  EXPECT_EQ(result_of("dp4a.s32.s32 %r0, %r1, 0x01FF0203, 10;", 0x05FE0701), 10U + 5 + 2 + 14 + 3);
  EXPECT_EQ(result_of("mov.b64 %q0, {%r1, 7};\nmov.b64 {_, %r0}, %q0;", 3), 7U);
  EXPECT_EQ(result_of("setp.eq.u32 %p2, %r1, 9;\nsetp.lt.and.u32 %p0|%p1, %r1, 5, %p2;\n"
                      "selp.u32 %r0, 1, 2, %p1;",
                      9),
            1U);
}

TEST(PtxInstructions, Floats) {
  const auto f = [](const std::string& op, float a) {
    return single_of(result_of("mov.b32 %f1, %r1;\n" + op + "\nmov.b32 %r0, %f0;", word(a)));
  };
  EXPECT_EQ(f("fma.rm.f32 %f0, %f1, 0f3F800001, 0fBF800000;", 1.0F), 0x1p-23F);
  EXPECT_EQ(word(f("add.rm.f32 %f0, %f1, 0f33000000;", 1.0F)), 0x3F800000U);
  EXPECT_EQ(word(f("add.rp.f32 %f0, %f1, 0f33000000;", 1.0F)), 0x3F800001U);
  EXPECT_EQ(f("max.f32 %f0, %f1, 0f40000000;", NAN), 2.0F);
  EXPECT_TRUE(std::isnan(f("max.NaN.f32 %f0, %f1, 0f40000000;", NAN)));
  EXPECT_EQ(word(f("max.f32 %f0, %f1, 0f80000000;", 0.0F)), 0U);
  EXPECT_EQ(word(f("min.f32 %f0, %f1, 0f00000000;", -0.0F)), 0x80000000U);
  EXPECT_EQ(f("cvt.sat.f32.f32 %f0, %f1;", -3.0F), 0.0F);
  EXPECT_EQ(f("cvt.sat.f32.f32 %f0, %f1;", NAN), 0.0F);
  EXPECT_EQ(f("cvt.rni.f32.f32 %f0, %f1;", 2.5F), 2.0F);
  EXPECT_EQ(f("cvt.rpi.f32.f32 %f0, %f1;", -2.5F), -2.0F);
  EXPECT_EQ(f("mul.ftz.f32 %f0, %f1, 0f3F000000;", 0x1p-126F), 0.0F);
  EXPECT_EQ(f("mul.f32 %f0, %f1, 0f3F000000;", 0x1p-126F), 0x1p-127F);
  EXPECT_EQ(f("ex2.approx.ftz.f32 %f0, %f1;", 5.0F), 32.0F);
  EXPECT_EQ(result_of("mov.b32 %f1, %r1;\ncvt.rzi.s32.f32 %r0, %f1;", word(-3e9F)), 0x80000000U);
  EXPECT_EQ(result_of("mov.b32 %f1, %r1;\ncvt.rzi.u32.f32 %r0, %f1;", word(-1.0F)), 0U);
  EXPECT_EQ(result_of("mov.b32 %f1, %r1;\ncvt.rzi.s32.f32 %r0, %f1;", word(NAN)), 0U);
}

/// Every fp16 number and ties between them, against the runtime's conversion.
TEST(PtxInstructions, HalvesRoundToNearestEven) {
  const std::string text = of_each_thread(
      "mov.b32 %f1, %r1;\ncvt.rn.f16.f32 %h0, %f1;\ncvt.rn.bf16.f32 %h1, %f1;\n"
      "mov.b32 %r0, {%h0, %h1};");
  std::vector<uint32_t> in;
  std::mt19937 random(3);
  for (uint32_t n = 0; n < 0x7C00; n += 7) {
    const float v = f16_to_float(static_cast<uint16_t>(n));
    const float next = f16_to_float(static_cast<uint16_t>(n + 1));
    for (const float x : {v, -v, (v + next) / 2, std::nextafter((v + next) / 2, 0.0F)})
      in.push_back(word(x));
    in.push_back(static_cast<uint32_t>(random()));
  }
  while (in.size() % 256 != 0) in.push_back(0x7F800000);
  for (size_t at = 0; at < in.size(); at += 256) {
    const std::vector<uint32_t> some(in.begin() + static_cast<ptrdiff_t>(at),
                                     in.begin() + static_cast<ptrdiff_t>(at) + 256);
    std::vector<uint32_t> out(256);
    const Status s = run_assembly(text, 256, some, out);
    ASSERT_TRUE(s.ok()) << s.message();
    for (size_t n = 0; n < 256; ++n) {
      const float v = single_of(some[n]);
      if (std::isnan(v)) continue;
      ASSERT_EQ(out[n] & 0xFFFF, float_to_f16(v)) << v;
      ASSERT_EQ(out[n] >> 16, float_to_bf16(v)) << v;
    }
  }
}

/// A product that is far below the sum but decides a tie.
TEST(PtxInstructions, FusedHalvesRoundOnce) {
  const auto fma = [](uint32_t a, uint32_t b, uint32_t c) {
    return result_of("mov.b32 {%h0, %h1}, %r1;\ncvt.u16.u32 %h2, " + std::to_string(c) +
                         ";\nfma.rn.f16 %h3, %h0, %h1, %h2;\ncvt.u32.u16 %r0, %h3;",
                     b << 16 | a);
  };
  // 1 + 2^-11 is a tie; 2^-24 * 2^-24 more is not.
  EXPECT_EQ(fma(0x1000, 0x3C00, 0x3C00), 0x3C00U);  // 1 + 2^-11
  EXPECT_EQ(fma(0x1001, 0x3C00, 0x3C00), 0x3C01U);
  EXPECT_EQ(fma(0x0001, 0x0001, 0x7BFF), 0x7BFFU);
}

TEST(PtxInstructions, Shuffles) {
  const auto shuffled = [](const std::string& op) {
    std::vector<uint32_t> out(32);
    const Status s = run_assembly(of_each_thread("shfl.sync." + op +
                                                 ", -1;\nselp.u32 %r2, 100, 0, %p0;\n"
                                                 "add.s32 %r0, %r0, %r2;"),
                                  32, counting(32), out);
    EXPECT_TRUE(s.ok()) << s.message();
    return out;
  };
  const auto down = shuffled("down.b32 %r0|%p0, %r1, 3, 31");
  const auto up = shuffled("up.b32 %r0|%p0, %r1, 3, 0");
  const auto flipped = shuffled("bfly.b32 %r0|%p0, %r1, 5, 31");
  const auto quads = shuffled("idx.b32 %r0|%p0, %r1, 2, 7199");  // segments of 4: 0x1C1F
  for (uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(down[l], l + 3 < 32 ? l + 103 : l);
    EXPECT_EQ(up[l], l >= 3 ? l + 97 : l);
    EXPECT_EQ(flipped[l], (l ^ 5) + 100);
    EXPECT_EQ(quads[l], l / 4 * 4 + 102);
  }
}

TEST(PtxInstructions, VotesOfSomeLanes) {
  std::vector<uint32_t> out(32);
  const Status s = run_assembly(
      of_each_thread("setp.lt.u32 %p0, %r1, 12;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n"
                     "mov.u32 %r0, 0;\n@!%p0 bra DONE;\n"
                     "vote.sync.ballot.b32 %r0, %p1, 0xFFF;\nactivemask.b32 %r4;\n"
                     "shl.b32 %r4, %r4, 16;\nor.b32 %r0, %r0, %r4;\nDONE:"),
      32, counting(32), out);
  ASSERT_TRUE(s.ok()) << s.message();
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(out[l], l < 12 ? 0x0FFF0555U : 0U);
}

/// A function is called by some lanes, and calls another.
TEST(PtxInstructions, Calls) {
  const std::string functions = R"(
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) folded(.param .b32 a)
{ .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u32 %r1, [a]; setp.lt.s32 %p1, %r1, 10;
  @%p1 bra SMALL; st.param.b32 [r], %r1; ret;
SMALL: { .param .b32 x; st.param.b32 [x], %r1; .param .b32 y; call.uni (y), twice, (x);
  ld.param.b32 %r2, [y]; } st.param.b32 [r], %r2; ret; }
)";
  std::vector<uint32_t> out(32);
  const Status s = run_assembly(
      of_each_thread("{ .param .b32 p; st.param.b32 [p], %r1; .param .b32 q;\n"
                     "call.uni (q), folded, (p);\nld.param.b32 %r0, [q]; }\nadd.s32 %r0, %r0, 1;",
                     functions),
      32, counting(32), out);
  ASSERT_TRUE(s.ok()) << s.message();
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(out[l], (l < 10 ? 2 * l : l) + 1);
}

TEST(PtxInstructions, TablesOfTheModule) {
  EXPECT_EQ(result_of("mov.u64 %q0, table;\nmul.wide.u32 %q1, %r1, 4;\nadd.s64 %q0, %q0, %q1;\n"
                      "ld.const.u32 %r0, [%q0+4];",
                      1, ".const .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 1};"),
            259U);
}

TEST(PtxInstructions, UnknownTextIsAnErrorThatNamesTheLine) {
  const auto problem = [](const std::string& body) {
    std::vector<uint32_t> out(1);
    return run_assembly(assembly(body), 1, {0}, out).message();
  };
  for (const char* body : {"mad24.lo.s32 %r0, %r1, %r2, %r3;", "add.wrong.s32 %r0, %r1, %r2;",
                           "ld.global.v8.u32 %r0, [%in];", "cvt.f32.s32 %f0, %r1;",
                           "cvt.s32.f32 %r1, %f0;", "add.s32 %r0, %r1, %nothing;",
                           "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %r0, %r1, %r2, %r3;",
                           "add.s32 %r0, %r1;", "bra NOWHERE;", ".odd %r1;"})
    EXPECT_NE(problem(body).find("line 15"), std::string::npos) << body << ": " << problem(body);
}

}  // namespace
}  // namespace reprise::test
