// mma.sync and ldmatrix, by the places that the ISA document gives to each lane's elements.
#include <gtest/gtest.h>

#include <bit>

#include "runtime/base/tensor.h"
#include "tests/ptx/assembly.h"

namespace reprise::test {
namespace {

struct MmaForm {
  std::string name;  // of the factors' type
  uint32_t depth;
  bool single;  // one element in a register, as of tf32
};

/// Elements of the factors: integers that tell places apart, small enough for bf16.
float left_at(uint32_t row, uint32_t k) {
  return static_cast<float>((row * 5 + k * 3) % 13) - 6;
}
float right_at(uint32_t k, uint32_t column) {
  return static_cast<float>((k * 7 + column * 2) % 11) - 5;
}
float sum_at(uint32_t row, uint32_t column) {
  return static_cast<float>(row * 8 + column) - 60;
}

uint32_t packed(const MmaForm& form, float low, float high) {
  if (form.single) return std::bit_cast<uint32_t>(low);
  const auto bits = [&](float v) {
    return uint32_t{form.name == "f16" ? float_to_f16(v) : float_to_bf16(v)};
  };
  return bits(high) << 16 | bits(low);
}

/// The element of the left factor with number i in a lane: its row and place along the depth.
/// Written as the document has it, one case at a time.
std::pair<uint32_t, uint32_t> left_place(const MmaForm& form, uint32_t lane, uint32_t i) {
  const uint32_t group = lane >> 2, in_group = lane % 4;
  if (form.single) {
    const uint32_t row = i == 0 || i == 2 ? group : group + 8;
    const uint32_t column = i == 0 || i == 1 ? in_group : in_group + 4;
    return {row, column};
  }
  const bool upper = form.depth == 8 ? i < 2 : i < 2 || (i >= 4 && i < 6);
  const uint32_t column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
  return {upper ? group : group + 8, column};
}
std::pair<uint32_t, uint32_t> right_place(const MmaForm& form, uint32_t lane, uint32_t i) {
  const uint32_t group = lane >> 2, in_group = lane % 4;
  if (form.single) return {i == 0 ? in_group : in_group + 4, group};
  return {in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}
std::pair<uint32_t, uint32_t> sum_place(uint32_t lane, uint32_t i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}

std::string list(const std::string& prefix, uint32_t first, uint32_t count) {
  std::string s = "{";
  for (uint32_t n = 0; n < count; ++n)
    s += (n == 0 ? "" : ", ") + prefix + std::to_string(first + n);
  return s + "}";
}

TEST(PtxMatrix, ProductsOfEveryForm) {
  for (const MmaForm& form :
       {MmaForm{"f16", 16, false}, MmaForm{"bf16", 16, false}, MmaForm{"f16", 8, false},
        MmaForm{"bf16", 8, false}, MmaForm{"tf32", 8, true}, MmaForm{"tf32", 4, true}}) {
    const uint32_t each = form.single ? 1 : 2;
    const uint32_t lefts = 16 * form.depth / 32 / each, rights = lefts / 2;
    const uint32_t words = lefts + rights + 4;
    std::vector<uint32_t> in(32 * words), out(32 * 4);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t* at = &in[lane * words];
      const auto a = [&](uint32_t i) {
        const auto [row, k] = left_place(form, lane, i);
        return left_at(row, k);
      };
      const auto b = [&](uint32_t i) {
        const auto [k, column] = right_place(form, lane, i);
        return right_at(k, column);
      };
      for (uint32_t n = 0; n < lefts; ++n)
        *at++ = packed(form, a(each * n), a(each * n + each - 1));
      for (uint32_t n = 0; n < rights; ++n)
        *at++ = packed(form, b(each * n), b(each * n + each - 1));
      for (uint32_t n = 0; n < 4; ++n) {
        const auto [row, column] = sum_place(lane, n);
        *at++ = std::bit_cast<uint32_t>(sum_at(row, column));
      }
    }
    std::string body = "mov.u32 %r60, %tid.x;\nmul.lo.s32 %r61, %r60, " +
                       std::to_string(4 * words) + ";\ncvt.u64.u32 %q1, %r61;\n" +
                       "add.s64 %q1, %in, %q1;\n";
    for (uint32_t n = 0; n < lefts + rights; ++n)
      body += "ld.global.u32 %r" + std::to_string(n) + ", [%q1+" + std::to_string(4 * n) + "];\n";
    for (uint32_t n = 0; n < 4; ++n) {
      body += "ld.global.f32 %f" + std::to_string(n) + ", [%q1+" +
              std::to_string(4 * (lefts + rights + n)) + "];\n";
    }
    body += "mma.sync.aligned.m16n8k" + std::to_string(form.depth) + ".row.col.f32." + form.name +
            "." + form.name + ".f32 " + list("%f", 4, 4) + ", " + list("%r", 0, lefts) + ", " +
            list("%r", lefts, rights) + ", " + list("%f", 0, 4) +
            ";\nmul.wide.u32 %q2, %r60, 16;\n" +
            "add.s64 %q2, %out, %q2;\nst.global.v4.f32 [%q2], " + list("%f", 4, 4) + ";";
    const Status s = run_assembly(assembly(body), 32, in, out);
    ASSERT_TRUE(s.ok()) << s.message();
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t n = 0; n < 4; ++n) {
        const auto [row, column] = sum_place(lane, n);
        float expected = sum_at(row, column);
        for (uint32_t k = 0; k < form.depth; ++k) expected += left_at(row, k) * right_at(k, column);
        EXPECT_EQ(std::bit_cast<float>(out[lane * 4 + n]), expected)
            << form.name << " k" << form.depth << " lane " << lane;
      }
    }
  }
}

TEST(PtxMatrix, BlocksFromSharedMemory) {
  for (const uint32_t count : {1U, 2U, 4U}) {
    for (const bool transposed : {false, true}) {
      // Rows of 8 elements, 48 bytes apart; element n of row r is 100 * r + n.
      std::vector<uint32_t> out(32 * count);
      std::string body =
          ".shared .align 16 .b8 rows[1536];\nmov.u32 %r60, %tid.x;\n"
          "mov.u32 %r61, rows;\nmad.lo.s32 %r62, %r60, 48, %r61;\n"
          "mul.lo.s32 %r1, %r60, 100;\n";
      for (uint32_t n = 0; n < 8; ++n) {
        const std::string i = std::to_string(n), at = std::to_string(2 * n);
        body += "add.s32 %r2, %r1, " + i + ";\ncvt.u16.u32 %h0, %r2;\nst.shared.u16 [%r62+" + at +
                "], %h0;\n";
      }
      const std::string results = count == 1 ? "{%r10}" : list("%r", 10, count);
      body += "bar.sync 0;\nldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
              (transposed ? ".trans" : "") + ".shared.b16 " + results + ", [%r62];\n" +
              "mul.wide.u32 %q2, %r60, " + std::to_string(4 * count) +
              ";\nadd.s64 %q2, %out, %q2;\n";
      for (uint32_t n = 0; n < count; ++n)
        body += "st.global.u32 [%q2+" + std::to_string(4 * n) + "], %r" + std::to_string(10 + n) +
                ";\n";
      const Status s = run_assembly(assembly(body), 32, {0}, out);
      ASSERT_TRUE(s.ok()) << s.message();
      for (uint32_t lane = 0; lane < 32; ++lane) {
        for (uint32_t n = 0; n < count; ++n) {
          const uint32_t row = lane / 4, column = lane % 4 * 2;
          const uint32_t low =
              transposed ? 100 * (8 * n + column) + row : 100 * (8 * n + row) + column;
          const uint32_t high = low + (transposed ? 100 : 1);
          EXPECT_EQ(out[lane * count + n], high << 16 | low) << count << " " << transposed;
        }
      }
    }
  }
}

TEST(PtxMatrix, AllLanesTakePart) {
  const std::string multiply =
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1}, {%r1}, "
      "{%f4, %f4, %f4, %f4};";
  const std::string ready =
      "mov.u32 %r1, 0;\nmov.f32 %f4, 0f00000000;\nmov.u32 %r60, %tid.x;\n"
      "setp.lt.u32 %p0, %r60, 31;\n";
  std::vector<uint32_t> out(1);
  EXPECT_EQ(run_assembly(assembly(ready + multiply), 64, {0}, out).message(), "");
  EXPECT_NE(run_assembly(assembly(ready + multiply), 48, {0}, out).message(), "");
  EXPECT_NE(run_assembly(assembly(ready + "@%p0 " + multiply), 32, {0}, out).message(), "");
  EXPECT_NE(
      run_assembly(assembly(ready + "@%p0 bra L;\n" + multiply + "\nL:"), 32, {0}, out).message(),
      "");
}

}  // namespace
}  // namespace reprise::test
