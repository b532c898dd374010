// What a workgroup takes, counted in kernels by hand.
#include <gtest/gtest.h>

#include "tests/device_model/kernels.h"

namespace reprise::test {
namespace {

using device_model::Work;

Work work_of(const std::string& body, std::array<uint32_t, 3> workgroup = {32, 1, 1}) {
  const Result<Work> work = walk_text(ptx_kernel(body), workgroup);
  EXPECT_TRUE(work.ok()) << work.status().message();
  return work.ok() ? *work : Work();
}

/// The address of the lane's element of %in: `stride` bytes apart.
std::string lane_address(int stride) {
  return "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, " + std::to_string(stride) +
         ";\nadd.s64 %rd2, %in, %rd1;\n";
}

TEST(DeviceModelWalk, LoopsRunAsOftenAsTheySay) {
  const auto loop = [](int count) {
    return "mov.u32 %r1, 0;\nL1:\nfma.rn.f32 %f1, %f1, %f1, %f1;\nadd.s32 %r1, %r1, 3;\n"
           "setp.lt.s32 %p1, %r1, " +
           std::to_string(3 * count) + ";\n@%p1 bra L1;";
  };
  const Work one = work_of(loop(1)), many = work_of(loop(101));
  EXPECT_EQ(many.instructions - one.instructions, 100 * 4);  // fma, add, setp, bra
  EXPECT_EQ(many.integer - one.integer, 100 * 2);
  EXPECT_FALSE(many.guessed);
}

TEST(DeviceModelWalk, WarpsAndLanesOfAWorkgroup) {
  const std::string body = lane_address(4) + "ld.global.f32 %f1, [%rd2];";
  EXPECT_EQ(work_of(body, {256, 1, 1}).warps, 8);
  EXPECT_EQ(work_of(body, {256, 1, 1}).sectors, 8 * 4);
  EXPECT_EQ(work_of(body, {40, 1, 1}).sectors, 5);  // 8 lanes in the second warp
  EXPECT_EQ(work_of(body, {16, 4, 1}).sectors, 2);  // %tid.x is below 16
}

TEST(DeviceModelWalk, SectorsAndLinesOfAccesses) {
  const auto loads = [](int stride, const std::string& type = "f32 %f1") {
    return work_of(lane_address(stride) + "ld.global." + type + ", [%rd2];");
  };
  EXPECT_EQ(loads(4).sectors, 4);
  EXPECT_EQ(loads(4).global_lines, 1);
  EXPECT_EQ(loads(32).sectors, 32);
  EXPECT_EQ(loads(32).global_lines, 8);
  EXPECT_EQ(loads(0).sectors, 1);
  EXPECT_EQ(loads(16, "v4.f32 {%f1, %f2, %f3, %f4}").sectors, 16);
  EXPECT_EQ(loads(2, "u16 %rs1").sectors, 2);
}

TEST(DeviceModelWalk, SectorsAreReadOnceAndWrittenEachTime) {
  const std::string twice =
      lane_address(4) + "ld.global.f32 %f1, [%rd2];\nld.global.f32 %f2, [%rd2];";
  EXPECT_EQ(work_of(twice).sectors, 4);
  EXPECT_EQ(work_of(twice).global_lines, 2);
  const std::string stores =
      lane_address(4) + "st.global.f32 [%rd2], %f1;\nst.global.f32 [%rd2], %f1;";
  EXPECT_EQ(work_of(stores).sectors, 8);
}

TEST(DeviceModelWalk, OffsetsOfAddressesCount) {
  const std::string body = lane_address(4) + "ld.global.f32 %f1, [%rd2+16];";
  EXPECT_EQ(work_of(body).sectors, 5);
}

TEST(DeviceModelWalk, BankConflicts) {
  const auto passes = [](int stride, const std::string& access) {
    return work_of("mov.u32 %r1, %tid.x;\nmov.u32 %r2, rp_shared;\nmad.lo.s32 %r3, %r1, " +
                   std::to_string(stride) + ", %r2;\n" + access)
        .shared_passes;
  };
  const std::string word = "ld.shared.f32 %f1, [%r3];";
  EXPECT_EQ(passes(4, word), 1);
  EXPECT_EQ(passes(8, word), 2);
  EXPECT_EQ(passes(128, word), 32);
  EXPECT_EQ(passes(132, word), 1);
  EXPECT_EQ(passes(0, word), 1);
  EXPECT_EQ(passes(16, "st.shared.v4.f32 [%r3], {%f1, %f2, %f3, %f4};"), 4);
  EXPECT_EQ(passes(8, "st.shared.v2.f32 [%r3], {%f1, %f2};"), 2);
  const std::string matrix =
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];";
  EXPECT_EQ(passes(16, matrix), 4);
  EXPECT_EQ(passes(80, matrix), 4);
  EXPECT_EQ(passes(128, matrix), 32);
}

TEST(DeviceModelWalk, UnitsOfInstructions) {
  const Work w = work_of(
      "ex2.approx.ftz.f32 %f1, %f2;\ncvt.rn.f16.f32 %rs1, %f1;\nfma.rn.f64 %fd1, %fd2, %fd3, "
      "%fd4;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};");
  EXPECT_EQ(w.special, 1);
  EXPECT_EQ(w.conversion, 1);
  EXPECT_EQ(w.doubles, 1);
  EXPECT_EQ(w.products, 16 * 8 * 16 + 2 * 16 * 8 * 8);  // of TF32 twice the time
}

/// wgmma is of four warps, each of which executes it.
TEST(DeviceModelWalk, ProductsOfWarpgroups) {
  const Work w = work_of(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1, %f2}, %rd1, %rd2, 1, 1, 1, 0, "
      "0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
      {128, 1, 1});
  EXPECT_EQ(w.warpgroup_products, 64 * 128 * 16);
  EXPECT_GT(w.near_chain, 64 * 128 * 16 / 4 / 512 - 1);
}

TEST(DeviceModelWalk, BulkCopiesByTheBytesThatABarrierExpects) {
  const Work w = work_of(
      "mov.u32 %r1, %tid.x;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra L1;\n"
      "mov.u32 %r3, 8192;\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], %r3;\nL1:\n"
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 done, [%r2], 0;\n"
      "@!done bra WAIT;\n}");
  EXPECT_EQ(w.bulk_bytes, 8192);
  EXPECT_FALSE(w.guessed);
}

TEST(DeviceModelWalk, ChainsOfInstructionsThatWait) {
  const device_model::Latencies l;
  const std::string load = lane_address(4) + "ld.global.f32 %f1, [%rd2];\n";
  const std::string use = "fma.rn.f32 %f3, %f1, %f1, %f1;\n";
  const Work alone = work_of(load), used = work_of(load + use);
  EXPECT_EQ(used.near_chain - alone.near_chain, l.cache);
  EXPECT_EQ(used.far_chain - alone.far_chain, l.memory);
  // Two loads are under way together, a load whose address was loaded is not.
  const Work two = work_of(load + "ld.global.f32 %f2, [%rd2+512];\nfma.rn.f32 %f3, %f1, %f2, %f1;");
  EXPECT_EQ(two.near_chain, used.near_chain);
  const Work next =
      work_of(lane_address(8) + "ld.global.u64 %rd3, [%rd2];\nld.global.f32 %f1, [%rd3];\n" + use);
  EXPECT_EQ(next.near_chain - used.near_chain, l.cache);
  EXPECT_TRUE(next.guessed);  // the second address is not known
  EXPECT_EQ(next.sectors, 8 + 32);
}

TEST(DeviceModelWalk, BarriersEndWhatMayOverlap) {
  const device_model::Latencies l;
  const std::string load = lane_address(4) + "ld.global.f32 %f1, [%rd2];\n";
  const std::string store = "st.shared.f32 [%r1], %f1;\n";
  const Work apart = work_of(load + store), w = work_of(load + store + "bar.sync 0;");
  EXPECT_EQ(w.barriers, 1);
  EXPECT_GE(w.near_chain - apart.near_chain, l.barrier);
}

/// Copies that were committed are waited for, all but the last ones.
TEST(DeviceModelWalk, AsynchronousCopies) {
  const device_model::Latencies l;
  const auto copies = [](const std::string& end) {
    return work_of(lane_address(16) +
                   "cp.async.cg.shared.global [%r1], [%rd2], 16;\ncp.async.commit_group;\n" + end);
  };
  const double none = copies("").near_chain;
  EXPECT_GE(copies("cp.async.wait_group 0;").near_chain - none, l.cache - 10);
  EXPECT_LT(copies("cp.async.wait_group 1;").near_chain - none, 10);
  EXPECT_EQ(copies("").sectors, 16);
}

TEST(DeviceModelWalk, LanesPartAndMeet) {
  const auto both = [](const std::string& condition) {
    return work_of("mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, " + condition +
                   ";\n@%p1 bra L1;\nex2.approx.ftz.f32 %f1, %f1;\nbra.uni L2;\nL1:\n"
                   "lg2.approx.ftz.f32 %f1, %f1;\nL2:\nrcp.approx.ftz.f32 %f1, %f1;")
        .special;
  };
  EXPECT_EQ(both("16"), 3);  // both ways, then together
  EXPECT_EQ(both("32"), 2);
  EXPECT_EQ(both("0"), 2);
}

TEST(DeviceModelWalk, WhereDataDecideTheShorterWayCounts) {
  const Work w = work_of(lane_address(4) +
                         "ld.global.u32 %r2, [%rd2];\nsetp.gt.s32 %p1, %r2, 7;\n@!%p1 bra L1;\n"
                         "ex2.approx.ftz.f32 %f1, %f1;\nex2.approx.ftz.f32 %f1, %f1;\nL1:\n"
                         "rcp.approx.ftz.f32 %f1, %f1;");
  EXPECT_EQ(w.special, 1);
  EXPECT_TRUE(w.guessed);
}

TEST(DeviceModelWalk, IntegersAsTheDeviceComputesThem) {
  // Each line leaves the number of turns of a loop in %r9.
  const auto turns = [](const std::string& line) {
    return work_of("mov.u32 %r1, -7;\nmov.u32 %r2, 3;\n" + line +
                   "\nmov.u32 %r8, 0;\nL1:\nex2.approx.ftz.f32 %f1, %f1;\nadd.s32 %r8, %r8, 1;\n"
                   "setp.lt.s32 %p1, %r8, %r9;\n@%p1 bra L1;")
        .special;
  };
  EXPECT_EQ(turns("sub.s32 %r9, %r2, %r1;"), 10);
  EXPECT_EQ(turns("neg.s32 %r9, %r1;"), 7);
  EXPECT_EQ(turns("abs.s32 %r9, %r1;"), 7);
  EXPECT_EQ(turns("min.s32 %r3, %r1, %r2;\nneg.s32 %r9, %r3;"), 7);
  EXPECT_EQ(turns("max.s32 %r9, %r1, %r2;"), 3);
  EXPECT_EQ(turns("min.u32 %r9, %r1, %r2;"), 3);
  EXPECT_EQ(turns("shl.b32 %r9, %r2, 2;"), 12);
  EXPECT_EQ(turns("shr.s32 %r3, %r1, 1;\nneg.s32 %r9, %r3;"), 4);
  EXPECT_EQ(turns("shr.u32 %r9, %r1, 29;"), 7);
  EXPECT_EQ(turns("and.b32 %r9, %r1, 12;"), 8);
  EXPECT_EQ(turns("or.b32 %r9, %r2, 8;"), 11);
  EXPECT_EQ(turns("xor.b32 %r9, %r2, 9;"), 10);
  EXPECT_EQ(turns("not.b32 %r9, %r1;"), 6);
  EXPECT_EQ(turns("div.s32 %r3, %r1, %r2;\nneg.s32 %r9, %r3;"), 2);
  EXPECT_EQ(turns("rem.u32 %r9, 17, %r2;"), 2);
  EXPECT_EQ(turns("mul.hi.u32 %r9, %r1, 5;"), 4);
  EXPECT_EQ(turns("mad.lo.s32 %r9, %r1, %r1, -40;"), 9);
  EXPECT_EQ(turns("mul.wide.s32 %rd1, %r1, -2;\ncvt.u32.u64 %r9, %rd1;"), 14);
  EXPECT_EQ(turns("setp.lt.u32 %p2, %r1, %r2;\nselp.b32 %r9, 5, 6, %p2;"), 6);
  EXPECT_EQ(turns("setp.lt.s32 %p2, %r1, %r2;\nselp.b32 %r9, 5, 6, %p2;"), 5);
  EXPECT_EQ(turns("lop3.b32 %r9, %r2, 8, 4, 0xFE;"), 15);
  EXPECT_EQ(turns("mov.b64 %rd1, {%r2, 5};\nmov.b64 {%r3, %r9}, %rd1;"), 5);
  EXPECT_EQ(turns("mov.u32 %r9, %nctaid.x;"), 8);
  EXPECT_EQ(turns("mov.u32 %r9, %ctaid.x;"), 4);  // one in the middle
}

TEST(DeviceModelWalk, UnknownInstructionsAreOneInstruction) {
  EXPECT_EQ(work_of("frobnicate.u32 %r1, %r2;").instructions - work_of("").instructions, 1);
}

TEST(DeviceModelWalk, WhatIsNoKernelIsAnError) {
  const auto problem = [](const std::string& text) { return walk_text(text).status().message(); };
  EXPECT_NE(problem("").find("PTX has no kernel"), std::string::npos) << problem("");
  const std::string nowhere = problem(ptx_kernel("bra NOWHERE;"));
  EXPECT_NE(nowhere.find("the label 'NOWHERE'"), std::string::npos) << nowhere;
  const std::string endless =
      walk_text(ptx_kernel("L1:\nadd.s32 %r1, %r1, 1;\nbra L1;"), {32, 1, 1}, {1, 1, 1}, 1000)
          .status()
          .message();
  EXPECT_NE(endless.find("'k_test' is too long"), std::string::npos) << endless;
}

}  // namespace
}  // namespace reprise::test
