// What the executor forbids, and copies that land late.
#include <gtest/gtest.h>

#include "tests/ptx/assembly.h"

namespace reprise::test {
namespace {

const std::string kThread =
    "mov.u32 %r60, %tid.x;\nmul.wide.u32 %q15, %r60, 4;\nshl.b32 %r61, %r60, 2;\n"
    "mov.u32 %r50, tile;\nadd.s32 %r51, %r50, %r61;\nadd.s64 %q14, %in, %q15;\n"
    "add.s64 %q13, %out, %q15;\n";

std::string problem_of(const std::string& body, uint32_t threads = 64) {
  std::vector<uint32_t> in(64, 1), out(64);
  const std::string text = assembly(".shared .align 16 .b8 tile[256];\n" + kThread + body);
  return run_assembly(text, threads, in, out).message();
}

void expect_problem(const std::string& body, const std::string& part, uint32_t threads = 64) {
  const std::string problem = problem_of(body, threads);
  EXPECT_NE(problem.find(part), std::string::npos) << problem << "\n" << body;
}

TEST(PtxMemory, AccessesOutsideAreFound) {
  EXPECT_EQ(problem_of("ld.global.u32 %r0, [%q14];\nst.global.u32 [%q13], %r0;"), "");
  expect_problem("ld.global.u32 %r0, [%q14+4];", "outside of all buffers");
  expect_problem("ld.global.u32 %r0, [%in+-4];", "outside of all buffers");
  expect_problem("st.global.u32 [%q13+4], 1;", "outside of all buffers");
  expect_problem("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%in+4];", "not aligned");
  expect_problem("st.shared.u32 [%r50+256], 1;", "shared memory");
  expect_problem("st.shared.v2.u32 [%r50+4], {1, 2};", "not aligned");
}

/// The compiler reads four elements where the program uses three of them.
TEST(PtxMemory, BytesThatAreNotUsedMayLieOutside) {
  const std::string load = "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%in+240];\n";
  EXPECT_EQ(problem_of(load, 1), "");
  const auto shorter = [&](const std::string& pragma) {
    std::vector<uint32_t> in(63, 1), out(64);
    const std::string text = assembly(pragma + load);
    return run_assembly(text, 1, in, out).message();
  };
  EXPECT_NE(shorter(""), "");
  EXPECT_NE(shorter(".pragma \"used_bytes_mask 65535\";\n"), "");
  EXPECT_EQ(shorter(".pragma \"used_bytes_mask 4095\";\n"), "");
}

TEST(PtxMemory, WhatNobodyWroteIsFound) {
  expect_problem("ld.shared.u32 %r0, [%r51];", "nobody wrote");
  expect_problem("add.s32 %r0, %r1, 1;", "without a value");
  expect_problem("@%p0 add.s32 %r0, 2, 1;", "without a value");
}

TEST(PtxMemory, RacesAreFound) {
  const std::string neighbour = "xor.b32 %r52, %r51, 4;\n";
  const std::string store = "st.shared.u32 [%r51], %r60;\n", barrier = "bar.sync 0;\n";
  const std::string load = "ld.shared.u32 %r0, [%r52];\n";
  EXPECT_EQ(problem_of(neighbour + store + barrier + load), "");
  EXPECT_NE(problem_of(neighbour + store + load), "");
  expect_problem(neighbour + store + barrier + load + store, "a race of a write with a read");
  EXPECT_EQ(problem_of(neighbour + store + barrier + load + barrier + store), "");
  // A barrier of the warp orders lanes of a warp only.
  EXPECT_EQ(problem_of(neighbour + store + "bar.warp.sync -1;\n" + load), "");
  EXPECT_NE(problem_of("xor.b32 %r52, %r51, 128;\n" + store + "bar.warp.sync -1;\n" + load), "");
  expect_problem("st.shared.u32 [%r50], %r60;\n", "a race with a write");
}

TEST(PtxMemory, LanesThatDoNotComeAreFound) {
  const std::string half = "setp.lt.u32 %p0, %r60, 16;\nsetp.lt.u32 %p1, %r60, 32;\n";
  expect_problem(half + "@%p0 bra L;\nbar.sync 0;\nL:", "lanes");
  expect_problem(half + "@%p1 bra L;\nbar.sync 0;\nL:", "only some warps");
  expect_problem(half + "@%p0 bra L;\nshfl.sync.idx.b32 %r0, %r60, 0, 31, -1;\nL:", "lanes");
  EXPECT_EQ(
      problem_of(half + "@%p0 bra L;\nshfl.sync.idx.b32 %r0, %r60, 16, 31, 0xFFFF0000;\nL:", 32),
      "");
  expect_problem("shfl.sync.idx.b32 %r0, %r60, 0, 31, 0xFFFF;", "does not name");
  expect_problem(half + "@%p0 bra L;\nshfl.sync.idx.b32 %r0, %r60, 3, 31, 0xFFFF0000;\nL:",
                 "does not take part", 32);
  expect_problem("LOOP:\nbra LOOP;", "does not end", 1);
}

/// The lanes of a warp go through a loop different times, and meet after it.
TEST(PtxMemory, LanesMeetAgainAfterALoop) {
  std::vector<uint32_t> out(32);
  const Status s = run_assembly(
      assembly(".shared .align 16 .b8 tile[256];\n" + kThread +
               "mov.u32 %r0, 0;\nmov.u32 %r2, 0;\nLOOP:\nsetp.ge.u32 %p0, %r2, %r60;\n"
               "@%p0 bra END;\nadd.s32 %r2, %r2, 1;\nadd.s32 %r0, %r0, %r2;\nbra.uni LOOP;\nEND:\n"
               "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nst.global.u32 [%q13], %r1;"),
      32, {0}, out);
  ASSERT_TRUE(s.ok()) << s.message();
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(out[l], (l ^ 1) * ((l ^ 1) + 1) / 2);
}

// --- copies ---

constexpr uint32_t kSteps = 6, kThreads = 64;

struct Ring {
  std::string ahead = "1";  // groups that may be in flight at a step
  std::string wait = "cp.async.wait_group 1;\n", commit = "cp.async.commit_group;\n";
  std::string first_barrier = "bar.sync 0;\n", second_barrier = "bar.sync 0;\n";
  uint32_t stages = 2;
};

/// Sums kSteps blocks of 1 KB, of which each thread copies 16 bytes; each reads what its neighbour
/// copied.
std::string ring_text(const Ring& ring) {
  std::string body = ".shared .align 16 .b8 ring[" + std::to_string(1024 * ring.stages) +
                     "];\nmov.u32 %r60, %tid.x;\nshl.b32 %r1, %r60, 4;\nmov.u32 %r2, ring;\n"
                     "mul.wide.u32 %q1, %r60, 16;\nadd.s64 %q2, %in, %q1;\nmov.u32 %r0, 0;\n"
                     "xor.b32 %r3, %r1, 16;\n";
  const auto copy = [&](uint32_t step) {
    const std::string stage = std::to_string(1024 * (step % ring.stages));
    if (step < kSteps) {
      body += "add.s32 %r4, %r2, %r1;\ncp.async.cg.shared.global [%r4+" + stage + "], [%q2+" +
              std::to_string(1024 * step) + "], 16;\n";
    }
    body += ring.commit;
  };
  copy(0);
  for (uint32_t step = 0; step < kSteps; ++step) {
    const std::string stage = std::to_string(1024 * (step % ring.stages));
    copy(step + 1);
    body += ring.wait + ring.first_barrier +
            "add.s32 %r5, %r2, %r3;\nld.shared.v4.u32 {%r6, %r7, "
            "%r8, %r9}, [%r5+" +
            stage + "];\nadd.s32 %r0, %r0, %r6;\nadd.s32 %r0, %r0, %r9;\n" + ring.second_barrier;
  }
  body += "mul.wide.u32 %q3, %r60, 4;\nadd.s64 %q3, %out, %q3;\nst.global.u32 [%q3], %r0;";
  return assembly(body);
}

/// The problem, or that the sums are wrong; empty if neither.
std::string run_ring(const Ring& ring, const ptx::Options& options) {
  std::vector<uint32_t> in(kSteps * kThreads * 4), out(kThreads);
  for (uint32_t n = 0; n < in.size(); ++n) in[n] = n * n;
  const Status s = run_assembly(ring_text(ring), kThreads, in, out, options);
  if (!s.ok()) return s.message();
  for (uint32_t t = 0; t < kThreads; ++t) {
    uint32_t sum = 0;
    for (uint32_t step = 0; step < kSteps; ++step) {
      const uint32_t at = (step * kThreads + (t ^ 1)) * 4;
      sum += in[at] + in[at + 3];
    }
    if (sum != out[t]) return "another sum";
  }
  return "";
}

TEST(PtxCopies, ARingInEveryOrder) {
  for (const ptx::Completion order : kOrders) {
    for (uint64_t seed = 1; seed < 8; ++seed) EXPECT_EQ(run_ring({}, {order, seed}), "");
  }
  Ring three;
  three.stages = 3;
  three.second_barrier = "";
  EXPECT_EQ(run_ring(three, {}), "");
}

/// Each is found whenever the copies land, so also where the sums happen to be right.
TEST(PtxCopies, MutationsOfARingAreFound) {
  std::vector<std::pair<std::string, Ring>> mutations(7);
  mutations[0] = {"no wait", {}};
  mutations[0].second.wait = "";
  mutations[1] = {"waits for one group less", {}};
  mutations[1].second.wait = "cp.async.wait_group 2;\n";
  mutations[2] = {"no commit", {}};
  mutations[2].second.commit = "";
  mutations[3] = {"no barrier before the reads", {}};
  mutations[3].second.first_barrier = "";
  mutations[4] = {"no barrier after the reads", {}};
  mutations[4].second.second_barrier = "";
  mutations[5] = {"a barrier of the warp", {}};
  mutations[5].second.first_barrier = "bar.warp.sync -1;\n";
  mutations[5].second.second_barrier = "";
  mutations[6] = {"a ring that is too small", {}};
  mutations[6].second.stages = 1;
  for (const auto& [name, ring] : mutations) {
    for (const ptx::Completion order : kOrders) EXPECT_NE(run_ring(ring, {order, 5}), "") << name;
  }
}

TEST(PtxCopies, WhatIsNotTakenIsZero) {
  std::vector<uint32_t> in(8, 7), out(8, 9);
  const Status s = run_assembly(
      assembly(".shared .align 16 .b8 tile[32];\nmov.u32 %r1, tile;\n"
               "cp.async.ca.shared.global [%r1], [%in], 16, 8;\n"
               "cp.async.ca.shared.global [%r1+16], [%in+16], 16, 0;\ncp.async.wait_all;\n"
               "ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];\n"
               "st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};\n"
               "ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1+16];\n"
               "st.global.v4.u32 [%out+16], {%r2, %r3, %r4, %r5};"),
      1, in, out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out, (std::vector<uint32_t>{7, 7, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace reprise::test
