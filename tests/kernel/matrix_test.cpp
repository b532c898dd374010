// Matrices of subgroups: what they compute, and what the verifier and the interpreter refuse.
#include <gtest/gtest.h>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/build/builder.h"
#include "tests/kernel/verified.h"

namespace reprise::kernel {
namespace {

constexpr uint32_t kLanes = 8;
constexpr int kSize = 8;
constexpr uint32_t kLine = 10;  // elements between lines

/// Two subgroups: subgroup s computes y[s] = a[s] * b[s] + 1, with b stored by columns.
struct Products {
  Builder b{"products"};
  int a = 0, w = 0, y = 0, halves = 0, sums = 0, left = 0, right = 0, sum = 0;
  Val local, subgroup;

  explicit Products(uint32_t lanes = kLanes) {
    b.set_workgroup(2 * kLanes);
    b.require_subgroup_size(lanes);
    a = b.buffer("a", Ty::F16, Access::Read);
    w = b.buffer("w", Ty::F16, Access::Read);
    y = b.buffer("y", Ty::F32, Access::Write);
    halves = b.shared("halves", Ty::F16, 4 * kSize * kLine);
    sums = b.shared("sums", Ty::F32, 2 * kSize * kLine);
    left = b.matrix("left", MatrixUse::Left, Ty::F16, kSize, kSize);
    right = b.matrix("right", MatrixUse::Right, Ty::F16, kSize, kSize);
    sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, kSize, kSize);
    local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    subgroup = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32);
  }
  Val place(int matrix) {  // of this subgroup's matrix in `halves`: both a, then both b
    const int size = kSize * static_cast<int>(kLine);
    return b.add(b.mul(subgroup, b.i32(size)), b.i32(matrix * 2 * size));
  }
  /// Invocation n copies line n of both subgroups' matrices.
  void fill() {
    b.for_loop(b.i32(0), b.i32(kSize), b.i32(1), [&](Val c) {
      const Val from = b.add(b.mul(local, b.i32(kSize)), c);
      const Val to = b.add(b.mul(local, b.i32(kLine)), c);
      b.shared_store(halves, to, b.load(a, from));
      b.shared_store(halves, b.add(to, b.i32(2 * kSize * kLine)), b.load(w, from));
      b.shared_store(sums, to, b.f32(1));
    });
  }
  void multiply() {
    b.matrix_load(sum, sums, b.mul(subgroup, b.i32(kSize * kLine)), kLine);
    b.matrix_load(left, halves, place(0), kLine);
    b.matrix_load(right, halves, place(1), kLine, true);
    b.matrix_mul_add(sum, left, right);
    b.matrix_store(sum, sums, b.mul(subgroup, b.i32(kSize * kLine)), kLine);
  }
  void read_back() {
    b.for_loop(b.i32(0), b.i32(kSize), b.i32(1), [&](Val c) {
      const Val v = b.shared_load(sums, b.add(b.mul(local, b.i32(kLine)), c));
      b.store(y, b.add(b.mul(local, b.i32(kSize)), c), v);
    });
  }
};

std::vector<uint16_t> halves_of(int seed) {
  std::vector<uint16_t> v;
  for (int i = 0; i < 2 * kSize * kSize; ++i)
    v.push_back(float_to_f16(static_cast<float>((i * seed) % 7 - 3)));
  return v;
}

Result<std::vector<float>> run(const Kernel& k) {
  std::vector<uint16_t> a = halves_of(5), w = halves_of(3);
  std::vector<float> y(2 * kSize * kSize);
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  RP_TRY(interpret(k, {{1, 1, 1}, {bytes(a), bytes(w), bytes(y)}, {}}).status());
  return y;
}

TEST(Matrix, MultipliesPerSubgroup) {
  Products p;
  p.fill();
  p.b.barrier();
  p.multiply();
  p.b.barrier();
  p.read_back();
  auto k = p.b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_EQ(requirements(*k).matrix, (MmaConfig{kSize, kSize, kSize, kHalfMma}));
  Kernel copied = *k;
  ASSERT_TRUE(legalize(copied, {}).ok());
  for (const Kernel* kernel : {&*k, &copied}) {
    const auto y = run(*kernel);
    ASSERT_TRUE(y.ok()) << y.status().message();
    const std::vector<uint16_t> a = halves_of(5), w = halves_of(3);
    for (size_t s = 0; s < 2; ++s) {
      for (size_t r = 0; r < kSize; ++r) {
        for (size_t c = 0; c < kSize; ++c) {
          float expected = 1;
          for (size_t d = 0; d < kSize; ++d) {
            expected += f16_to_float(a[(s * kSize + r) * kSize + d]) *
                        f16_to_float(w[(s * kSize + c) * kSize + d]);
          }
          EXPECT_EQ((*y)[(s * kSize + r) * kSize + c], expected);
        }
      }
    }
  }
  EXPECT_NE(print(*k).find("matrix_load right, halves["), std::string::npos) << print(*k);
  EXPECT_NE(print(*k).find("matrix left: left f16 8x8"), std::string::npos) << print(*k);
}

TEST(Matrix, InterpreterCatchesViolations) {
  const struct {
    const char* message;
    std::function<void(Products&)> write;
  } cases[] = {
      {"races with another invocation on sums[0]",
       [](Products& p) {
         p.fill();
         p.multiply();
       }},
      {"multiplies a matrix before it is written",
       [](Products& p) { p.b.matrix_mul_add(p.sum, p.left, p.right); }},
      {"stores matrix sum before it is written",
       [](Products& p) { p.b.matrix_store(p.sum, p.sums, p.b.i32(0), kLine); }},
      {"reads sums[0] before it is written",
       [](Products& p) { p.b.matrix_load(p.sum, p.sums, p.b.i32(0), kLine); }},
      {"accesses sums[100], 78 elements, of 160",
       [](Products& p) {
         p.b.matrix_zero(p.sum);
         p.b.matrix_store(p.sum, p.sums, p.b.i32(100), kLine);
       }},
      {"accesses sums[10], claimed a multiple of 4",
       [](Products& p) {
         p.b.matrix_zero(p.sum);
         const Val odd = p.b.mul(p.subgroup, p.b.i32(10));
         p.b.matrix_store(p.sum, p.sums, p.b.add(odd, p.b.i32(0)), 12, false, 4);
       }},
  };
  for (const auto& c : cases) {
    Products p;
    c.write(p);
    auto k = p.b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto y = run(*k);
    ASSERT_FALSE(y.ok()) << c.message;
    EXPECT_NE(y.status().message().find(c.message), std::string::npos) << y.status().message();
  }
}

TEST(Matrix, VerifierNamesWhatIsWrong) {
  const struct {
    const char* message;
    std::function<void(Products&)> write;
  } cases[] = {
      {"may differ within a subgroup",
       [](Products& p) { p.b.matrix_load(p.sum, p.sums, p.local, kLine); }},
      {"may differ within a subgroup",
       [](Products& p) {
         p.b.if_then(p.b.lt(p.local, p.b.i32(3)), [&] { p.b.matrix_zero(p.sum); });
       }},
      {"a matrix has another use", [](Products& p) { p.b.matrix_mul_add(p.sum, p.right, p.left); }},
      {"only sums are stored",
       [](Products& p) { p.b.matrix_store(p.left, p.halves, p.b.i32(0), kLine); }},
      {"types differ", [](Products& p) { p.b.matrix_load(p.left, p.sums, p.b.i32(0), kLine); }},
      {"lines overlap with a stride of 7",
       [](Products& p) { p.b.matrix_load(p.left, p.halves, p.b.i32(0), 7); }},
      {"the stride is no multiple of 8",
       [](Products& p) { p.b.matrix_load(p.left, p.halves, p.b.i32(0), 12, false, 8); }},
      {"index 4 is not a multiple of 8",
       [](Products& p) { p.b.matrix_load(p.left, p.halves, p.b.i32(4), 16, false, 8); }},
      {"no matrix 9", [](Products& p) { p.b.matrix_zero(9); }},
      {"no shared array 5", [](Products& p) { p.b.matrix_load(p.left, 5, p.b.i32(0), kLine); }},
      {"matrix 'odd' of f16 4x8",
       [](Products& p) { p.b.matrix("odd", MatrixUse::Right, Ty::F16, 4, 8); }},
      {"matrix 'odd' of f32 8x8",
       [](Products& p) { p.b.matrix("odd", MatrixUse::Left, Ty::F32, 8, 8); }},
      {"whole subgroups of a required size", [](Products& p) { p.b.set_workgroup(2 * kLanes, 2); }},
      {"whole subgroups of a required size", [](Products& p) { p.b.require_subgroup_size(12); }},
  };
  for (const auto& c : cases) {
    Products p;
    c.write(p);
    const auto k = verified(p.b);
    ASSERT_FALSE(k.ok()) << c.message;
    EXPECT_NE(k.status().message().find(c.message), std::string::npos) << k.status().message();
  }
}

TEST(Matrix, ControlFlowMayDifferBetweenSubgroups) {
  Products p;
  p.b.if_then(p.b.lt(p.subgroup, p.b.i32(1)), [&] { p.b.matrix_zero(p.sum); });
  auto k = p.b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_TRUE(run(*k).ok());
}

}  // namespace
}  // namespace reprise::kernel
