// mbarriers, named barriers, registers that change hands, and what else warps with roles of their
// own do.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/ptx/edits.h"
#include "tests/ptx/hopper.h"

namespace reprise::test {
namespace {

/// Runs it on 128 threads; each has %q4 = the address of a word of the second buffer.
std::string problem_of_warps(const std::string& body, std::vector<uint32_t>* out = nullptr,
                             uint32_t threads = 128, const ptx::Options& options = {}) {
  HopperMemory m;
  m.threads = threads;
  m.options = options;
  m.in.resize(65536);
  for (size_t n = 0; n < m.in.size(); ++n) m.in[n] = static_cast<std::byte>(n / 4 * 7 + n % 4);
  m.out.resize(65536);
  const Status s = run_hopper(
      "mov.u32 %r0, smem;\nmul.wide.u32 %q4, %t, 4;\nadd.s64 %q4, %out, %q4;\n"
      "setp.ne.u32 %p0, %t, 0;\nshr.u32 %r9, %t, 5;\n" +
          body,
      m);
  if (out != nullptr) {
    out->resize(m.out.size() / 4);
    std::memcpy(out->data(), m.out.data(), m.out.size());
  }
  return s.message();
}

void expect_in_warps(const std::string& body, const std::string& part, uint32_t threads = 128) {
  const std::string problem = problem_of_warps(body, nullptr, threads);
  EXPECT_NE(problem, "") << body;
  EXPECT_NE(problem.find(part), std::string::npos) << problem << "\n" << body;
}

std::string made(const std::string& count) {
  return "@%p0 bra READY;\nmbarrier.init.shared::cta.b64 [%r0], " + count +
         ";\nREADY:\nbar.sync 0;\n";
}

const std::string kStoreOwn =
    "add.s32 %r10, %r0, 64;\nshl.b32 %r11, %t, 2;\nadd.s32 %r10, %r10, %r11;\n"
    "st.shared.u32 [%r10], %t;\n";
/// Reads what the thread 32 further on wrote.
const std::string kLoadOther =
    "add.s32 %r12, %t, 32;\nand.b32 %r12, %r12, 127;\nshl.b32 %r12, %r12, 2;\n"
    "add.s32 %r12, %r12, %r0;\nld.shared.u32 %r13, [%r12+64];\nst.global.u32 [%q4], %r13;\n";

TEST(PtxSignals, OrderWhatThreadsDo) {
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r0];\n";
  const std::string wait = wait_for("%r0", "0");
  std::vector<uint32_t> out;
  EXPECT_EQ(problem_of_warps(made("128") + kStoreOwn + arrive + wait + kLoadOther, &out), "");
  for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(out[t], (t + 32) % 128);
  // One arrival of each warp, once its lanes have met.
  EXPECT_EQ(
      problem_of_warps(made("4") + kStoreOwn + "bar.warp.sync -1;\nelect.sync _|%p1, -1;\n@%p1 " +
                       arrive + wait + kLoadOther),
      "");
  expect_in_warps(
      made("4") + kStoreOwn + "elect.sync _|%p1, -1;\n@%p1 " + arrive + wait + kLoadOther, "race");
  EXPECT_NE(problem_of_warps(made("128") + kStoreOwn + arrive + kLoadOther), "");
  EXPECT_NE(problem_of_warps(made("128") + kStoreOwn + arrive + wait_for("%r0", "1") + kLoadOther),
            "");
  expect_in_warps(made("128") + kStoreOwn +
                      "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r0];\n" + wait + kLoadOther,
                  "race");
  expect_in_warps(made("129") + arrive + wait, "1 of 129 arrivals");
  expect_in_warps(made("127") + arrive + wait, "");
}

TEST(PtxSignals, HaveStatesAndCounts) {
  std::vector<uint32_t> out;
  const std::string body =
      made("3") +
      "@%p0 bra END;\nmbarrier.arrive.noComplete.shared.b64 %q8, [%r0], 2;\n"
      "mbarrier.pending_count.b64 %r20, %q8;\nst.global.u32 [%out], %r20;\n"
      "mbarrier.test_wait.shared.b64 %p1, [%r0], %q8;\nselp.u32 %r21, 1, 0, %p1;\n"
      "st.global.u32 [%out+4], %r21;\nmbarrier.arrive_drop.shared.b64 %q9, [%r0];\n"
      "mbarrier.pending_count.b64 %r20, %q9;\nst.global.u32 [%out+8], %r20;\n"
      "mbarrier.test_wait.shared.b64 %p1, [%r0], %q8;\nselp.u32 %r21, 1, 0, %p1;\n"
      "st.global.u32 [%out+12], %r21;\nmbarrier.arrive.shared.b64 %q9, [%r0];\n"
      "mbarrier.pending_count.b64 %r20, %q9;\nst.global.u32 [%out+16], %r20;\n"
      "mbarrier.inval.shared.b64 [%r0];\nst.shared.u64 [%r0], 7;\nEND:\n";
  EXPECT_EQ(problem_of_warps(body, &out), "");
  EXPECT_EQ(std::vector<uint32_t>(out.begin(), out.begin() + 5),
            (std::vector<uint32_t>{3, 0, 1, 1, 2}));
}

TEST(PtxSignals, MistakesAreFound) {
  const std::string one = "@%p0 bra END;\n", end = "END:\n";
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 _, [%r0];\n";
  expect_in_warps(one + arrive + end, "not initialised");
  expect_in_warps(one + wait_for("%r0", "0") + end, "not initialised");
  expect_in_warps(made("1") + one + "mbarrier.init.shared::cta.b64 [%r0], 1;\n" + end, "in use");
  expect_in_warps(made("0"), "0 arrivals");
  expect_in_warps(made("1048576"), "1048576 arrivals");
  expect_in_warps(made("2") + one + "mbarrier.arrive.shared::cta.b64 _, [%r0], 3;\n" + end,
                  "one arrival more");
  expect_in_warps(made("1") + one + arrive + arrive + end, "before anybody awaited");
  EXPECT_EQ(problem_of_warps(made("1") + one + arrive + wait_for("%r0", "0") + arrive + end), "");
  expect_in_warps(made("2") + one + "mbarrier.arrive.noComplete.shared.b64 _, [%r0], 2;\n" + end,
                  "must not complete");
  expect_in_warps(made("1") + one + "mbarrier.arrive.shared.b64 _, [%r0+4];\n" + end, "8 bytes");
  expect_in_warps(made("1") + one + "ld.shared.u32 %r1, [%r0+4];\n" + end, "mbarrier");
  expect_in_warps(made("1") + one + "mbarrier.inval.shared.b64 [%r0];\n" + arrive + end,
                  "not initialised");
  expect_in_warps(made("1") + wait_for("%r0", "2"), "parity of 2");
  expect_in_warps("mbarrier.init.shared::cta.b64 [%r0], 1;\n", "", 1 + 1);
  // Another thread uses it, and no barrier lies between.
  const std::string unordered =
      "setp.eq.u32 %p1, %t, 64;\n@!%p0 mbarrier.init.shared::cta.b64 [%r0], 1;\n"
      "bar.warp.sync -1;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r0];\n";
  EXPECT_NE(problem_of_warps(unordered), "");
  const std::string expect_too_much =
      made("1") + one +
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1048575;\n"
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1;\n" +
      end;
  expect_in_warps(expect_too_much, "too many bytes");
  EXPECT_EQ(problem_of_warps(made("1") + one +
                             "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 64;\n"
                             "mbarrier.complete_tx.shared::cta.b64 [%r0], 64;\n" +
                             wait_for("%r0", "0") + end),
            "");
}

/// A report names who waits for what.
TEST(PtxSignals, DeadlocksAreExplained) {
  const std::string problem =
      problem_of_warps(made("2") +
                       "setp.lt.u32 %p1, %t, 64;\n@%p1 bra FIRST;\nbar.sync 3, 96;\nFIRST:\n"
                       "@!%p1 bra END;\n" +
                       wait_for("%r0", "0") + "END:\n");
  for (const char* part : {"warp 0 at line", "phase 0 of the mbarrier at 0", "warp 3 at line",
                           "barrier 3", "2 of 2 arrivals", "only some warps"}) {
    EXPECT_NE(problem.find(part), std::string::npos) << part << " in " << problem;
  }
}

/// cp.async with an arrival once its copies have landed.
TEST(PtxSignals, AwaitCopiesOfThreads) {
  const std::string copy =
      "mul.wide.u32 %q5, %t, 16;\nadd.s64 %q5, %in, %q5;\nshl.b32 %r11, %t, 4;\n"
      "add.s32 %r11, %r11, %r0;\ncp.async.cg.shared.global [%r11+64], [%q5], 16;\n";
  const std::string arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r0];\n";
  const std::string load =
      "xor.b32 %r12, %t, 33;\nshl.b32 %r12, %r12, 4;\nadd.s32 %r12, %r12, %r0;\n"
      "ld.shared.u32 %r13, [%r12+64];\nst.global.u32 [%q4], %r13;\n";
  const std::string begin = made("128"), wait = wait_for("%r0", "0");
  const std::string other_arrive = "mbarrier.arrive.shared::cta.b64 _, [%r0];\n";
  const std::string good = begin + copy + arrive + wait + load;
  // With an increase, the arrivals of the copies are none of those that are expected.
  const std::string increased =
      replaced(good, arrive, replaced(arrive, ".noinc", "") + other_arrive);
  const std::string mistakes[] = {replaced(good, copy + arrive, arrive + copy),
                                  replaced(good, wait, ""), replaced(good, arrive, other_arrive)};
  for (const ptx::Completion order : kOrders) {
    std::vector<uint32_t> out;
    EXPECT_EQ(problem_of_warps(good, &out, 128, {order, 4}), "");
    for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(out[t] & 255, (t ^ 33) * 28 & 255) << t;
    EXPECT_EQ(problem_of_warps(increased, nullptr, 128, {order, 4}), "");
    for (const std::string& mistake : mistakes)
      EXPECT_NE(problem_of_warps(mistake, nullptr, 128, {order, 4}), "") << mistake;
  }
}

TEST(PtxBarriers, HaveNamesAndCounts) {
  // Two warps tell the other two.
  const std::string body =
      "setp.lt.u32 %p1, %t, 64;\n@!%p1 bra READERS;\n" + kStoreOwn +
      "bar.arrive 1, 128;\nbra END;\nREADERS:\nbar.sync 1, 128;\n"
      "sub.u32 %r12, %t, 64;\nshl.b32 %r12, %r12, 2;\nadd.s32 %r12, %r12, %r0;\n"
      "ld.shared.u32 %r13, [%r12+64];\nst.global.u32 [%q4], %r13;\nEND:\n";
  std::vector<uint32_t> out;
  EXPECT_EQ(problem_of_warps(body, &out), "");
  for (uint32_t t = 64; t < 128; ++t) EXPECT_EQ(out[t], t - 64);
  const auto changed = [&](const std::string& from, const std::string& to) {
    EXPECT_NE(replaced(body, from, to), "");
    return replaced(body, from, to);
  };
  EXPECT_NE(problem_of_warps(changed("bar.arrive 1, 128;\n", "")), "");
  EXPECT_NE(problem_of_warps(changed("bar.sync 1, 128;\n", "")), "");
  EXPECT_NE(problem_of_warps(changed("bar.sync 1,", "bar.sync 2,")), "");
  expect_in_warps(changed("bar.arrive 1, 128", "bar.arrive 1, 96"), "that said");
  expect_in_warps(changed("bar.arrive 1, 128", "bar.arrive 1, 120"), "120 threads");
  expect_in_warps("bar.sync 16;\n", "no barrier 16");
  // The others do not wait for a barrier of two warps.
  EXPECT_EQ(problem_of_warps("setp.lt.u32 %p1, %t, 64;\n@!%p1 bra END;\nbar.sync 1, 64;\nEND:\n"),
            "");
}

TEST(PtxRoles, RegistersChangeHands) {
  const auto roles = [](const std::string& less, const std::string& more) {
    return "setp.lt.u32 %p1, %t, 128;\n@%p1 bra FIRST;\nsetmaxnreg.inc.sync.aligned.u32 " + more +
           ";\nbra END;\nFIRST:\nsetmaxnreg.dec.sync.aligned.u32 " + less + ";\nEND:\n";
  };
  // 512 threads have 128 registers each at the start.
  EXPECT_EQ(problem_of_warps(roles("32", "160"), nullptr, 512), "");
  expect_in_warps(roles("32", "168"), "registers of the workgroup", 512);
  expect_in_warps(roles("40", "160"), "registers of the workgroup", 512);
  expect_in_warps(roles("28", "160"), "28 registers", 512);
  expect_in_warps(roles("16", "160"), "16 registers", 512);
  expect_in_warps(roles("32", "264"), "264 registers", 512);
  expect_in_warps(roles("136", "160"), "other direction", 512);
  expect_in_warps(roles("32", "120"), "other direction", 512);
  expect_in_warps(
      "setp.lt.u32 %p1, %t, 96;\n@!%p1 bra END;\n"
      "setmaxnreg.dec.sync.aligned.u32 40;\nEND:\n",
      "only some warps of a warpgroup");
  expect_in_warps(
      "setp.lt.u32 %p1, %t, 100;\n@!%p1 bra END;\n"
      "setmaxnreg.dec.sync.aligned.u32 40;\nEND:\n",
      "lanes");
}

TEST(PtxRoles, OneLaneIsElected) {
  std::vector<uint32_t> out;
  EXPECT_EQ(problem_of_warps("elect.sync %r1|%p1, -1;\nselp.u32 %r2, 100, 0, %p1;\n"
                             "add.u32 %r1, %r1, %r2;\nst.global.u32 [%q4], %r1;\n",
                             &out),
            "");
  for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(out[t], t % 32 == 0 ? 100U : 0U);
  EXPECT_EQ(
      problem_of_warps("setp.lt.u32 %p2, %t, 8;\n@%p2 bra END;\nsetp.gt.u32 %p2, %t, 31;\n"
                       "@%p2 bra END;\nelect.sync %r1|%p1, 0xFFFFFF00;\nst.global.u32 [%q4], %r1;\n"
                       "END:\n",
                       &out),
      "");
  EXPECT_EQ(out[9], 8U);
  expect_in_warps("setp.lt.u32 %p2, %t, 8;\n@%p2 bra END;\nelect.sync _|%p1, -1;\nEND:\n", "");
}

/// Lane 8 * m + r has the address of row r of block m, as ldmatrix has it.
TEST(PtxRoles, BlocksAreStored) {
  for (const bool transposed : {false, true}) {
    const std::string kind = transposed ? ".x4.trans" : ".x4";
    std::vector<uint32_t> out;
    std::string body =
        "setp.gt.u32 %p1, %t, 31;\n@%p1 bra END;\nshl.b32 %r10, %t, 4;\nadd.s32 %r10, %r10, %r0;\n"
        "mul.lo.u32 %r1, %t, 65538;\nadd.u32 %r1, %r1, 65536;\nadd.u32 %r2, %r1, 6553700;\n"
        "add.u32 %r3, %r2, 6553700;\nadd.u32 %r4, %r3, 6553700;\nstmatrix.sync.aligned.m8n8";
    body += kind + ".shared.b16 [%r10], {%r1, %r2, %r3, %r4};\nbar.warp.sync -1;\n";
    body += "ldmatrix.sync.aligned.m8n8" + kind + ".shared.b16 {%r5, %r6, %r7, %r8}, [%r10];\n";
    body +=
        "xor.b32 %r5, %r5, %r1;\nxor.b32 %r6, %r6, %r2;\nxor.b32 %r7, %r7, %r3;\n"
        "xor.b32 %r8, %r8, %r4;\nor.b32 %r5, %r5, %r6;\nor.b32 %r7, %r7, %r8;\n"
        "or.b32 %r5, %r5, %r7;\nst.global.u32 [%q4], %r5;\nld.shared.u32 %r6, [%r10];\n"
        "st.global.u32 [%q4+128], %r6;\nEND:\n";
    EXPECT_EQ(problem_of_warps(body, &out), "");
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], 0U) << t;
    // The first two elements of row 1 of the first block: of lane 4 (transposed: of lanes 0 and 4).
    const uint32_t lane4 = 4 * 65538 + 65536, lane0 = 65536;
    EXPECT_EQ(out[32 + 1], transposed ? (lane0 >> 16 | (4 * 65538 + 65536) / 65536 << 16) : lane4);
  }
}

TEST(PtxRoles, FencesAreRead) {
  EXPECT_EQ(problem_of_warps("fence.proxy.async;\nfence.proxy.async.global;\n"
                             "fence.proxy.async.shared::cluster;\nfence.proxy.alias;\n"
                             "fence.proxy.tensormap::generic.acquire.gpu [%map0], 128;\n"
                             "fence.proxy.tensormap::generic.release.gpu;\n"
                             "fence.mbarrier_init.release.cluster;\nfence.acq_rel.cluster;\n"
                             "cp.async.bulk.prefetch.L2.global [%in], 64;\n"),
            "");
}

TEST(PtxRoles, HintsChangeNothing) {
  EXPECT_EQ(problem_of_warps("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"
                             "nanosleep.u32 20;\n"),
            "");
}

}  // namespace
}  // namespace reprise::test
