// Matrices of subgroups: what they compute, and what the verifier and the interpreter refuse.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <tuple>

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

  explicit Products(Ty type = Ty::F16) {
    b.set_workgroup(2 * kLanes);
    b.require_subgroup_size(kLanes);
    a = b.buffer("a", type, Access::Read);
    w = b.buffer("w", type, Access::Read);
    y = b.buffer("y", Ty::F32, Access::Write);
    halves = b.shared("halves", type, 4 * kSize * kLine);
    sums = b.shared("sums", Ty::F32, 2 * kSize * kLine);
    left = b.matrix("left", MatrixUse::Left, type, kSize, kSize);
    right = b.matrix("right", MatrixUse::Right, type, kSize, kSize);
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

float number_at(size_t i, int seed) {
  return static_cast<float>((static_cast<int>(i) * seed) % 7 - 3);
}

std::vector<uint16_t> halves_of(Ty type, int seed) {
  std::vector<uint16_t> v;
  for (size_t i = 0; i < 2 * kSize * kSize; ++i) {
    const float x = number_at(i, seed);
    v.push_back(type == Ty::F16 ? float_to_f16(x) : float_to_bf16(x));
  }
  return v;
}

Result<std::vector<float>> run(const Kernel& k) {
  const Ty type = k.buffers[0].storage;
  std::vector<uint16_t> a = halves_of(type, 5), w = halves_of(type, 3);
  std::vector<float> y(2 * kSize * kSize);
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  RP_TRY(interpret(k, {{1, 1, 1}, {bytes(a), bytes(w), bytes(y)}, {}}).status());
  return y;
}

void expect_products(const Kernel& k) {
  const auto y = run(k);
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (size_t s = 0; s < 2; ++s) {
    for (size_t r = 0; r < kSize; ++r) {
      for (size_t c = 0; c < kSize; ++c) {
        float expected = 1;
        for (size_t d = 0; d < kSize; ++d) {
          expected +=
              number_at((s * kSize + r) * kSize + d, 5) * number_at((s * kSize + c) * kSize + d, 3);
        }
        EXPECT_EQ((*y)[(s * kSize + r) * kSize + c], expected);
      }
    }
  }
}

TEST(Matrix, MultipliesPerSubgroup) {
  constexpr MmaTypes kBfloats{MmaType::BF16, MmaType::BF16, MmaType::F32};
  for (const auto& [type, types, name] :
       {std::tuple{Ty::F16, kHalfMma, "f16"}, std::tuple{Ty::BF16, kBfloats, "bf16"}}) {
    SCOPED_TRACE(name);
    Products p(type);
    p.fill();
    p.b.barrier();
    p.multiply();
    p.b.barrier();
    p.read_back();
    auto k = p.b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    EXPECT_EQ(requirements(*k).matrix, (MmaConfig{kSize, kSize, kSize, types}));
    Kernel copied = *k;
    ASSERT_TRUE(legalize(copied, {}).ok());
    expect_products(*k);
    expect_products(copied);
    EXPECT_NE(print(*k).find("matrix_load right, halves["), std::string::npos) << print(*k);
    const std::string left = std::string("matrix left: left ") + name + " 8x8";
    EXPECT_NE(print(*k).find(left), std::string::npos) << print(*k);
  }
}

/// What a kernel loads from a shared array of BF16 to which it stored `value`.
Result<float> through_bfloats(float value) {
  Builder b("bfloats");
  b.set_workgroup(1);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int cells = b.shared("cells", Ty::BF16, 2);
  const Val loaded = b.load(x, b.i32(0));
  b.shared_store(cells, b.i32(0), b.compose({loaded, loaded}));
  b.store(y, b.i32(0), b.shared_load(cells, b.i32(1)));
  RP_ASSIGN(const Kernel k, b.finish());
  float from[1] = {value}, to[1] = {0};
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  RP_TRY(interpret(k, {{1, 1, 1}, {bytes(from), bytes(to)}, {}}).status());
  return to[0];
}

TEST(Matrix, SharedArraysOfBfloatsTakeTheirValuesOnly) {
  for (const float v : {0.0F, -1.5F, 0x1p-133F, 0x1.fep127F, INFINITY}) {
    const auto got = through_bfloats(v);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(*got, v);
  }
  const auto nan = through_bfloats(std::bit_cast<float>(0x7fffffffU));
  ASSERT_TRUE(nan.ok()) << nan.status().message();
  EXPECT_TRUE(std::isnan(*nan));
  for (const float v : {1.001F, 0x1p-134F}) {
    const auto got = through_bfloats(v);
    ASSERT_FALSE(got.ok()) << v;
    EXPECT_NE(got.status().message().find("stores to cells what is no value of BF16"),
              std::string::npos)
        << got.status().message();
  }
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
      {"matrix 'odd' of bf16 8x8",
       [](Products& p) { p.b.matrix("odd", MatrixUse::Right, Ty::BF16, 8, 8); }},
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

/// A workgroup of two subgroups holds matrices together and computes y = a * b + 1, where a has 8
/// lines of 8 and b, stored by columns, has 16.
struct WorkgroupProduct {
  static constexpr uint32_t kColumns = 16;
  Builder b{"product"};
  int y = 0, halves = 0, sums = 0, left = 0, right = 0, sum = 0;
  Val local;

  WorkgroupProduct() {
    b.set_workgroup(2 * kLanes);
    b.require_subgroup_size(kLanes);
    const int a = b.buffer("a", Ty::F16, Access::Read), w = b.buffer("w", Ty::F16, Access::Read);
    y = b.buffer("y", Ty::F32, Access::Write);
    halves = b.shared("halves", Ty::F16, (kSize + kColumns) * kLine);
    sums = b.shared("sums", Ty::F32, kSize * kColumns);
    const auto matrix = [&](const char* name, MatrixUse use, Ty type, uint32_t rows,
                            uint32_t columns) {
      return b.matrix(name, use, type, rows, columns, MmaScope::Workgroup);
    };
    left = matrix("left", MatrixUse::Left, Ty::F16, kSize, kSize);
    right = matrix("right", MatrixUse::Right, Ty::F16, kSize, kColumns);
    sum = matrix("sum", MatrixUse::Sum, Ty::F32, kSize, kColumns);
    local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.for_loop(b.i32(0), b.i32(kSize), b.i32(1), [&](Val c) {
      const Val from = b.add(b.mul(local, b.i32(kSize)), c);
      const Val to = b.add(b.mul(local, b.i32(kLine)), c);
      b.if_then(b.lt(local, b.i32(kSize)), [&] { b.shared_store(halves, to, b.load(a, from)); });
      b.shared_store(halves, b.add(to, b.i32(kSize * kLine)), b.load(w, from));
      b.shared_store(sums, from, b.f32(1));
    });
  }
  void multiply() {
    b.matrix_load(sum, sums, b.i32(0), kColumns);
    b.matrix_load(left, halves, b.i32(0), kLine);
    b.matrix_load(right, halves, b.i32(kSize * kLine), kLine, true);
    b.matrix_mul_add(sum, left, right);
    b.matrix_store(sum, sums, b.i32(0), kColumns);
  }
  void read_back() {
    b.for_loop(b.i32(0), b.i32(kSize), b.i32(1), [&](Val c) {
      const Val at = b.add(b.mul(local, b.i32(kSize)), c);
      b.store(y, at, b.shared_load(sums, at));
    });
  }
};

TEST(Matrix, OfAWorkgroupMultiply) {
  WorkgroupProduct p;
  p.b.barrier();
  p.multiply();
  p.b.barrier();
  p.read_back();
  const auto k = p.b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const MmaConfig matrix{kSize,    WorkgroupProduct::kColumns, kSize,
                         kHalfMma, MmaScope::Workgroup,        2 * kLanes};
  EXPECT_EQ(requirements(*k).matrix, matrix);
  EXPECT_EQ(matrix.str(), "8x16x8 in fp16 with fp32 sums of a workgroup of 16");
  EXPECT_NE(print(*k).find("matrix sum: sum f32 8x16 of a workgroup\n"), std::string::npos)
      << print(*k);
  const auto y = run(*k);
  ASSERT_TRUE(y.ok()) << y.status().message();
  for (size_t i = 0; i < y->size(); ++i) {
    const size_t r = i / WorkgroupProduct::kColumns, c = i % WorkgroupProduct::kColumns;
    float expected = 1;
    for (size_t d = 0; d < kSize; ++d)
      expected += number_at(r * kSize + d, 5) * number_at(c * kSize + d, 3);
    EXPECT_EQ((*y)[i], expected) << i;
  }
}

TEST(Matrix, OfAWorkgroupNeedAllOfIt) {
  const struct {
    const char* message;
    std::function<void(WorkgroupProduct&)> write;
  } cases[] = {
      {"a matrix that may differ within a workgroup",
       [](WorkgroupProduct& p) {
         const Val subgroup = p.b.convert(p.b.builtin(Builtin::SubgroupIndex), Ty::I32);
         p.b.if_then(p.b.lt(subgroup, p.b.i32(1)), [&] { p.b.matrix_zero(p.sum); });
       }},
      {"a matrix that may differ within a workgroup",
       [](WorkgroupProduct& p) {
         p.b.matrix_load(p.sum, p.sums, p.b.convert(p.b.builtin(Builtin::SubgroupIndex), Ty::I32),
                         WorkgroupProduct::kColumns);
       }},
      {"matrix 'other' of another scope",
       [](WorkgroupProduct& p) { p.b.matrix("other", MatrixUse::Left, Ty::F16, kSize, kSize); }},
  };
  for (const auto& c : cases) {
    WorkgroupProduct p;
    c.write(p);
    const auto k = verified(p.b);
    ASSERT_FALSE(k.ok()) << c.message;
    EXPECT_NE(k.status().message().find(c.message), std::string::npos) << k.status().message();
  }
  // Without a barrier, the workgroup reads what its invocations have just written.
  WorkgroupProduct p;
  p.multiply();
  const auto k = p.b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const auto y = run(*k);
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.status().message().find("races with another invocation on sums[0]"),
            std::string::npos)
      << y.status().message();
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
