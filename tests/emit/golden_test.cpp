// What the emitters print, as text: golden/NAME.txt holds the kernel, golden/NAME.cu and
// golden/NAME.spvasm what becomes of it. After a wanted change, REPRISE_REWRITE_CASES=1 rewrites
// them, for review with git diff.
#include <gtest/gtest.h>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/kernel/build/builder.h"
#include "tests/emit/spirv_tools.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Kernel;
using kernel::Ty;
using kernel::Val;

void expect_file(const std::string& name, const std::string& actual) {
  const std::filesystem::path file = source_dir() / "tests" / "emit" / "golden" / name;
  if (rewriting()) write_file(file, actual);
  EXPECT_EQ(actual, read_file(file));
}

void expect_golden_cuda(const Kernel& k) {
  expect_file(k.name + ".txt", kernel::print(k));
  const auto text = emit::cuda(k);
  ASSERT_TRUE(text.ok()) << text.status().message();
  expect_file(k.name + ".cu", *text);
}

void expect_golden(const Kernel& k, const emit::SpirvOptions& options = {}) {
  expect_golden_cuda(k);
  const auto words = emit_valid(k, options);
  ASSERT_TRUE(words.ok()) << words.status().message();
  expect_file(k.name + ".spvasm", disassemble(*words));
}

/// Vectors, and a scalar tail.
TEST(Golden, ScaleTail) {
  Builder b("scale_tail");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n")), scale = b.param(b.scalar("scale", Ty::F32));
  const Val i = b.mul(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.i32(4));
  b.if_else(
      b.le(b.add(i, b.i32(4)), n),
      [&] { b.store(y, i, b.mul(b.load(x, i, 4, 4), b.splat(scale, 4)), 4); },
      [&] {
        b.for_loop(i, n, b.i32(1), [&](Val j) { b.store(y, j, b.mul(b.load(x, j), scale)); });
      });
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  expect_golden(*k);
}

/// Shared memory, a barrier, a subgroup operation, a local, narrow storage, the error flag.
TEST(Golden, Everything) {
  Builder b("everything");
  b.set_workgroup(32);
  const int x = b.buffer("x", Ty::U8, Access::Read), y = b.buffer("y", Ty::BF16, Access::ReadWrite);
  const int tile = b.shared("tile", Ty::F32, 32), sum = b.local("sum", kernel::kF32);
  const Val lane = b.convert(b.builtin(Builtin::LocalId), Ty::I32);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Val v = b.convert(b.load(x, i), Ty::F32);
  b.shared_store(tile, lane, v);
  b.barrier();
  b.local_store(sum, b.shared_load(tile, b.sub(b.i32(31), lane)));
  b.for_loop(b.i32(0), lane, b.i32(2), [&](Val n) {
    const Val more = b.shared_load(tile, n);
    b.local_store(sum, b.fma(b.local_load(sum), b.f32(0.5F), more));
  });
  const Val total = b.subgroup(kernel::SubgroupOp::Add, b.local_load(sum));
  b.set_error(b.lt(total, b.f32(-1.0F)), kernel::ErrorCode::IndexOutOfRange);
  b.store(y, i, b.add(b.load(y, i), total));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  expect_golden(*k);
}

/// A launch that may begin early computes addresses before it waits. SPIR-V has nothing like it.
TEST(Golden, Early) {
  Builder b("early");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n"));
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.if_then(b.lt(i, n), [&] { b.store(y, i, b.add(b.load(x, i), b.f32(1.0F))); });
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  kernel::begin_early(*k);
  expect_golden_cuda(*k);
  EXPECT_EQ(emit::spirv(*k, {}).status().code(), Code::Unsupported);
}

/// Roles, of which one copies boxes and the other multiplies them. SPIR-V has nothing like them.
TEST(Golden, Roles) {
  Builder b("roles");
  b.set_workgroup(256);
  b.require_subgroup_size(32);
  b.buffer("a", Ty::F16, Access::Read);
  b.buffer("w", Ty::F16, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  for (const char* name : {"zero", "m", "n", "k", "stride"}) b.scalar(name);
  const int left = b.view("left", {0, 2, Swizzle::B128, {64, 64}, 0, {3, 1}, {4}});
  const int right = b.view("right", {1, 2, Swizzle::B128, {64, 8}, 0, {3, 2}, {4}});
  const int lefts = b.shared("lefts", Ty::F16, 2 * 64 * 64, Swizzle::B128);
  const int rights = b.shared("rights", Ty::F16, 2 * 8 * 64, Swizzle::B128);
  const int sums = b.shared("sums", Ty::F32, 64 * 8);
  const int full = b.signal("full", 2, 1), empty = b.signal("empty", 2, kernel::kTeamSubgroups);
  const int sum = b.matrix("sum", kernel::MatrixUse::Sum, Ty::F32, 64, 8, MmaScope::Team);
  b.role({"multiply", 1, kernel::kTeamSubgroups, 232});
  b.role({"copy", 1, 1, 40});
  const kernel::Value steps(b, b.param(3));
  const std::function<void()> bodies[] = {
      [&] {
        b.matrix_zero(sum);
        b.for_loop(b.i32(0), steps, b.i32(1), [&](kernel::Value i) {
          const kernel::Value stage = i % 2;
          b.await(full, stage, i / 2 % 2);
          b.team_mul_add({static_cast<uint16_t>(sum),
                          1,
                          {static_cast<uint16_t>(lefts), true, 0},
                          {static_cast<uint16_t>(rights), true, 0}},
                         stage * 4096, stage * 512);
          b.matrix_commit();
          b.matrix_await(0);
          b.arrive(empty, stage);
        });
        b.matrix_store(sum, sums, b.i32(0), 8, false, 2);
        b.barrier(kernel::BarrierScope::Team);
        const Val local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
        b.store(y, b.mul(local, b.i32(4)), b.shared_load(sums, b.mul(local, b.i32(4)), 4), 4);
      },
      [&] {
        b.for_loop(b.i32(0), steps, b.i32(1), [&](kernel::Value i) {
          const kernel::Value stage = i % 2;
          b.await(empty, stage, 1 - i / 2 % 2);
          b.box_copy(kernel::box_access(left, lefts, full), b.compose({i * 64, b.i32(0)}),
                     stage * 4096, stage, 512);
          b.box_copy(kernel::box_access(right, rights, full), b.compose({i * 64, b.i32(0)}),
                     stage * 512, stage, 512);
          b.arrive(full, stage);
        });
      }};
  b.run_roles(bodies);
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  ASSERT_TRUE(kernel::legalize(*k, {}).ok());
  expect_golden_cuda(*k);
  EXPECT_EQ(emit::spirv(*k, {}).status().code(), Code::Unsupported);
}

/// Two workgroups that get the same box, and read each other's arrays.
TEST(Golden, Cluster) {
  Builder b("cluster");
  b.set_workgroup(128);
  b.set_cluster(2);
  b.require_subgroup_size(32);
  b.buffer("x", Ty::F32, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  for (const char* name : {"zero", "columns", "rows"}) b.scalar(name);
  const int box = b.view("box", {0, 4, Swizzle::None, {32, 4}, 0, {1, 2}, {1}});
  const int pair = b.shared("pair", Ty::F32, 256), sums = b.shared("sums", Ty::F32, 512);
  const int full = b.signal("full", 1, 2), ready = b.signal("ready", 1, 1);
  b.role({"all", 1, 1, 0});
  const std::function<void()> bodies[] = {[&] {
    const kernel::Value rank = b.convert(b.builtin(Builtin::ClusterRank), Ty::I32);
    const kernel::Value lane = b.convert(b.builtin(Builtin::SubgroupLane), Ty::I32);
    b.box_copy(kernel::box_access(box, pair, full, 3), b.compose({b.i32(0), rank * 4}), rank * 128,
               b.i32(0), 32);
    for (const int r : {0, 1}) b.arrive(full, b.i32(0), b.i32(r));
    b.await(full, b.i32(0), b.i32(0));
    b.shared_store(sums, lane * 4, b.shared_load(pair, lane * 4, 4));
    b.arrive(ready, b.i32(0), 1 - rank);
    b.await(ready, b.i32(0), b.i32(0));
    const kernel::Value four = b.shared_load(sums, lane * 4, 4, 1 - rank);
    const kernel::Value one = b.shared_load(sums, lane, 1, b.i32(0));
    b.store(y, lane * 4, four + b.splat(one, 4), 4);
    b.barrier(kernel::BarrierScope::Cluster);
  }};
  b.run_roles(bodies);
  auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  ASSERT_TRUE(kernel::legalize(*k, {}).ok());
  expect_golden_cuda(*k);
  EXPECT_EQ(emit::spirv(*k, {}).status().code(), Code::Unsupported);
}

/// Loads of u64 x2 in place of float x4.
TEST(Golden, Wide) {
  Builder b("wide");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val i = b.mul(b.convert(b.builtin(Builtin::GlobalId), Ty::I32), b.i32(4));
  const Val v = b.load(x, i, 4, 4);
  b.store(
      y, i,
      b.select(b.lt(v, b.constant({Ty::F32, 4}, 0)), b.scalar_op(kernel::ScalarOp::Neg, {v}), v),
      4);
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  expect_golden(*k, {.version = 0x00010600, .loads_64_bits = true});
}

/// Loads of one u64 in place of float x2, of a buffer whose vectors have four elements and of one
/// whose vectors have two.
TEST(Golden, WidePairs) {
  Builder b("wide_pairs");
  b.set_workgroup(8);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val at = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  const Val i = b.mul(at, b.i32(4)), n = b.mul(at, b.i32(2));
  const Val four = b.load(x, i, 4, 4), two = b.load(x, n, 2, 2);
  b.store(y, n, b.add(two, b.compose({b.extract(four, 0), b.extract(four, 3)})), 2);
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  expect_golden(*k, {.version = 0x00010600, .loads_64_bits = true});
}

TEST(Golden, PreludeNeedsNoHeader) {
  EXPECT_EQ(emit::cuda_prelude().find("#include"), std::string::npos);
}

TEST(Refused, SubgroupsThatCudaDoesNotHave) {
  Builder b("eight_lanes");
  b.set_workgroup(32);
  b.require_subgroup_size(8);
  const int y = b.buffer("y", Ty::U32, Access::Write);
  b.store(y, b.builtin(Builtin::GlobalId), b.builtin(Builtin::SubgroupSize));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const auto text = emit::cuda(*k);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::Unsupported);
  EXPECT_NE(text.status().message().find("eight_lanes"), std::string::npos);
}

/// Matrices of F32 are products of TF32, of which SPIR-V has none, and CUDA one shape.
TEST(Refused, MatricesOfSingles) {
  for (const uint32_t depth : {8U, 16U}) {
    Builder b("singles");
    b.set_workgroup(32);
    b.require_subgroup_size(32);
    const int y = b.buffer("y", Ty::F32, Access::Write);
    const int cells = b.shared("cells", Ty::F32, 256);
    const int left = b.matrix("left", kernel::MatrixUse::Left, Ty::F32, 16, depth);
    const int right = b.matrix("right", kernel::MatrixUse::Right, Ty::F32, depth, 16);
    const int sum = b.matrix("sum", kernel::MatrixUse::Sum, Ty::F32, 16, 16);
    for (const int m : {left, right, sum}) b.matrix_zero(m);
    b.matrix_mul_add(sum, left, right);
    b.matrix_store(sum, cells, b.i32(0), 16);
    b.barrier();
    const Val i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
    b.store(y, i, b.shared_load(cells, i));
    const auto k = b.finish();
    ASSERT_TRUE(k.ok()) << k.status().message();
    const auto words = emit::spirv(*k, {});
    EXPECT_EQ(words.status().code(), Code::Unsupported);
    EXPECT_NE(words.status().message().find("multiplies matrices of F32"), std::string::npos);
    EXPECT_EQ(emit::cuda(*k).ok(), depth == 8);
  }
}

TEST(Refused, PartialWarps) {
  Builder b("partial");
  b.set_workgroup(48);
  const int y = b.buffer("y", Ty::U32, Access::ReadWrite);
  const Val i = b.builtin(Builtin::GlobalId);
  b.store(y, i, b.subgroup(kernel::SubgroupOp::Add, b.load(y, i)));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  const auto text = emit::cuda(*k);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), Code::Unsupported);
}

TEST(Refused, RowsThatWereNotExpanded) {
  Builder b("raw_tanh");
  const int y = b.buffer("y", Ty::F32, Access::ReadWrite);
  const Val i = b.builtin(Builtin::GlobalId);
  b.store(y, i, b.scalar_op(kernel::ScalarOp::Tanh, {b.load(y, i)}));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_NE(emit::cuda(*k).status().message().find("Tanh"), std::string::npos);
  EXPECT_NE(emit::spirv(*k, {}).status().message().find("Tanh"), std::string::npos);
}

TEST(Refused, ConversionsThatWereNotExpanded) {
  Builder b("raw_convert");
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::I32, Access::Write);
  const Val i = b.builtin(Builtin::GlobalId);
  b.store(y, i, b.convert(b.load(x, i), Ty::I32));
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_NE(emit::cuda(*k).status().message().find("expanded"), std::string::npos);
  EXPECT_NE(emit::spirv(*k, {}).status().message().find("expanded"), std::string::npos);
}

TEST(Refused, UnknownSpirvVersion) {
  Builder b("empty");
  const auto k = b.finish();
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_EQ(emit::spirv(*k, {.version = 0x00010200}).status().code(), Code::Unsupported);
  EXPECT_EQ(emit::spirv(*k, {.version = 0x00010700}).status().code(), Code::Unsupported);
}

TEST(Refused, MalformedKernels) {
  kernel::Kernel k;
  k.name = "broken";
  k.blocks.resize(1);
  k.insts.push_back({kernel::Op::Load, kernel::kF32, 7, {{3}}, {}, 1});
  k.blocks[0].insts = {0};
  EXPECT_FALSE(emit::spirv(k, {}).ok());
  EXPECT_FALSE(emit::cuda(k).ok());
}

/// How many loops a driver is asked not to unroll, of a kernel with one loop of `count` iterations.
size_t kept_loops(int count, bool chooses, bool keeps_loops) {
  Builder b("loops");
  b.set_workgroup(32);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int parts = b.local("parts", {Ty::F32, 1}, 32);
  const Val i = b.convert(b.builtin(Builtin::GlobalId), Ty::I32);
  b.for_loop(b.i32(0), b.i32(count), b.i32(1), [&](Val n) {
    const Val v = b.load(x, b.add(b.mul(i, b.i32(32)), n));
    if (chooses) {
      b.local_store(parts, v, n);
    } else {
      b.local_store(parts, b.add(b.local_load(parts, b.i32(0)), v), b.i32(0));
    }
  });
  b.store(y, i, b.local_load(parts, b.i32(0)));
  const auto k = b.finish();
  EXPECT_TRUE(k.ok());
  const auto words = emit_valid(*k, {.keeps_loops = keeps_loops});
  EXPECT_TRUE(words.ok());
  const std::string text = disassemble(*words);
  size_t found = 0;
  for (size_t at = 0; (at = text.find(" DontUnroll", at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(Loops, CpuDevicesKeepLongOnes) {
  EXPECT_EQ(kept_loops(32, false, true), 1U);
  EXPECT_EQ(kept_loops(4, false, true), 0U);  // its copies are short
  EXPECT_EQ(kept_loops(32, true, true), 0U);  // an array that stays in registers
  EXPECT_EQ(kept_loops(32, false, false), 0U);
}

}  // namespace
}  // namespace reprise::test
