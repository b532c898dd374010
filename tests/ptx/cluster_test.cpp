// Workgroups of a cluster: where they are, their barrier, shared memory of each other, and copies
// that land in several of them.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/ptx/edits.h"
#include "tests/ptx/hopper.h"

namespace reprise::test {
namespace {

using GroupCounts = std::array<uint32_t, 3>;

/// Runs it with workgroups of 64 threads. Each has its rank in %r1, that of the next workgroup of
/// the cluster in %r2, the address of the shared array in %r0 and of the next one's in %r3, and a
/// word of the second buffer for itself at %q4. %p0: not the first thread.
struct ClusterRun {
  GroupCounts grid{2, 1, 1}, cluster{2, 1, 1};
  ptx::Options options;
  std::vector<uint32_t> out;

  std::string problem(const std::string& body, const TensorMap& map = {}) {
    HopperMemory m;
    m.threads = 64;
    m.grid = grid;
    m.cluster = cluster;
    m.options = options;
    m.in.resize(65536);
    for (size_t n = 0; n < m.in.size(); ++n) m.in[n] = static_cast<std::byte>(n / 4 * 7 + n % 4);
    m.out.resize(65536);
    m.maps[0] = map;
    const Status s = run_hopper(
        "mov.u32 %r0, smem;\nmov.u32 %r1, %cluster_ctarank;\nmov.u32 %r4, %cluster_nctarank;\n"
        "add.u32 %r2, %r1, 1;\nrem.u32 %r2, %r2, %r4;\nmapa.shared::cluster.u32 %r3, %r0, %r2;\n"
        "mov.u32 %r5, %ctaid.x;\nmov.u32 %r6, %ntid.x;\nmad.lo.u32 %r5, %r5, %r6, %t;\n"
        "mul.wide.u32 %q4, %r5, 4;\nadd.s64 %q4, %out, %q4;\nsetp.ne.u32 %p0, %t, 0;\n"
        "shl.b32 %r7, %t, 2;\nadd.u32 %r8, %r0, %r7;\nadd.u32 %r9, %r3, %r7;\n" +
            body,
        m);
    out.resize(m.out.size() / 4);
    std::memcpy(out.data(), m.out.data(), m.out.size());
    return s.message();
  }
};

std::string barrier_of_cluster(const std::string& arrive = ".release") {
  return "barrier.cluster.arrive" + arrive + ".aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
}

/// Each of these mistakes is found whenever copies land and in whatever order warps run.
struct ClusterMistake {
  std::string text, said;
};
void expect_found_in_clusters(const std::vector<ClusterMistake>& mistakes,
                              const TensorMap& map = {}) {
  for (const auto& [text, said] : mistakes) {
    ASSERT_NE(text, "") << said;
    for (uint64_t seed = 0; seed < 9; ++seed) {
      ClusterRun r;
      r.options = {kOrders[seed % 3], seed};
      const std::string problem = r.problem(text, map);
      ASSERT_NE(problem, "") << text;
      EXPECT_NE(problem.find(said), std::string::npos) << problem << "\nnot " << said;
    }
  }
}
void expect_right_in_clusters(const std::string& text, const TensorMap& map = {}) {
  for (uint64_t seed = 0; seed < 9; ++seed) {
    ClusterRun r;
    r.options = {kOrders[seed % 3], seed};
    EXPECT_EQ(r.problem(text, map), "") << text;
  }
}

TEST(PtxClusters, WorkgroupsKnowTheirPlaces) {
  const char* names[] = {"%ctaid.x",          "%ctaid.y",          "%ctaid.z",
                         "%clusterid.x",      "%clusterid.y",      "%clusterid.z",
                         "%nclusterid.x",     "%nclusterid.y",     "%nclusterid.z",
                         "%cluster_ctaid.x",  "%cluster_ctaid.y",  "%cluster_ctaid.z",
                         "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z",
                         "%cluster_ctarank",  "%cluster_nctarank"};
  constexpr uint32_t kWords = 32;
  std::string body =
      "@%p0 bra END;\nmov.u32 %r10, %ctaid.z;\nmov.u32 %r11, %nctaid.y;\nmov.u32 %r12, %ctaid.y;\n"
      "mad.lo.u32 %r10, %r10, %r11, %r12;\nmov.u32 %r11, %nctaid.x;\nmov.u32 %r12, %ctaid.x;\n"
      "mad.lo.u32 %r10, %r10, %r11, %r12;\nmul.wide.u32 %q5, %r10, 128;\nadd.s64 %q5, %out, %q5;\n";
  for (size_t n = 0; n < std::size(names); ++n)
    body += std::string("mov.u32 %r13, ") + names[n] + ";\nst.global.u32 [%q5+" +
            std::to_string(4 * n) + "], %r13;\n";
  ClusterRun r;
  r.grid = {4, 3, 2};
  r.cluster = {2, 1, 2};
  ASSERT_EQ(r.problem(body + "END:\n"), "");
  for (uint32_t group = 0; group < 24; ++group) {
    const GroupCounts id{group % 4, group / 4 % 3, group / 12};
    const GroupCounts place{id[0] % 2, 0, id[2] % 2};
    const std::vector<uint32_t> expected{
        id[0], id[1],    id[2],    id[0] / 2, id[1], id[2] / 2, 2, 3,
        1,     place[0], place[1], place[2],  2,     1,         2, place[0] + 2 * place[2],
        4};
    const auto* at = &r.out[size_t{kWords} * group];
    EXPECT_EQ(std::vector<uint32_t>(at, at + std::size(names)), expected) << group;
  }
}

TEST(PtxClusters, TextAndLaunchSayHowLargeTheyAre) {
  const auto problem_of = [](const std::string& directive, GroupCounts grid,
                             GroupCounts cluster) -> std::string {
    const std::string text =
        replaced(hopper_text("mov.u32 %r1, %cluster_nctarank;\nst.global.u32 [%out], %r1;\n"
                             "mov.pred %p1, %is_explicit_cluster;\nselp.u32 %r2, 1, 0, %p1;\n"
                             "st.global.u32 [%out+4], %r2;\n"),
                 ".maxntid 512, 1, 1", ".maxntid 512, 1, 1\n" + directive);
    const auto program = ptx::parse(text);
    if (!program.ok()) return program.status().message();
    std::vector<uint32_t> out(2);
    const std::vector<ptx::Buffer> buffers{
        {HopperMemory::kOut, std::as_writable_bytes(std::span(out))}};
    std::array<std::byte, 128 + 256> params{};
    std::memcpy(params.data() + 8, &HopperMemory::kOut, 8);
    ptx::Launch launch{"k", grid, {1, 1, 1}, 0, params, buffers};
    launch.cluster = cluster;
    const Status s = ptx::run(*program, launch);
    return s.ok() ? std::to_string(out[0]) + (out[1] != 0 ? " named" : "") : s.message();
  };
  const auto expect_part = [&](const std::string& problem, const std::string& part) {
    EXPECT_NE(problem.find(part), std::string::npos) << problem;
  };
  const std::string four = ".explicitcluster\n.reqnctapercluster 2, 2";
  EXPECT_EQ(problem_of("", {1, 1, 1}, {}), "1");
  EXPECT_EQ(problem_of("", {4, 1, 1}, {4, 1, 1}), "4");
  EXPECT_EQ(problem_of(four, {2, 2, 3}, {}), "4 named");
  EXPECT_EQ(problem_of(four, {2, 2, 3}, {2, 2, 1}), "4 named");
  EXPECT_EQ(problem_of(".maxclusterrank 4\n.minnctapersm 1\n.maxnreg 168", {4, 1, 1}, {4, 1, 1}),
            "4");
  expect_part(problem_of(four, {2, 2, 3}, {4, 1, 1}), "text requires 2 x 2 x 1");
  expect_part(problem_of(four, {2, 3, 1}, {}), "do not fill");
  expect_part(problem_of(".maxclusterrank 2", {4, 1, 1}, {4, 1, 1}), "not of 1 to 2");
  expect_part(problem_of(".reqnctapercluster 16", {16, 1, 1}, {}), "not of 1 to 8");
  expect_part(problem_of(".reqnctapercluster 0", {16, 1, 1}, {}), "no workgroups");
  expect_part(problem_of(".reqnctapercluster 1, 1, 1, 2", {1, 1, 1}, {}), "one to three");
  expect_part(problem_of(".another 1", {1, 1, 1}, {}), ".another");
}

const std::string kStoreRank = "mad.lo.u32 %r10, %r1, 1000, %t;\nst.shared.u32 [%r8], %r10;\n";
const std::string kLoadNext = "ld.shared::cluster.u32 %r11, [%r9];\nst.global.u32 [%q4], %r11;\n";
const std::string kExchange =
    kStoreRank + barrier_of_cluster() + kLoadNext + barrier_of_cluster(".relaxed");

TEST(PtxClusters, ReadMemoryOfEachOther) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    ClusterRun r;
    r.grid = {8, 1, 1};
    r.cluster = {4, 1, 1};
    r.options.seed = seed;
    ASSERT_EQ(r.problem(kExchange), "");
    for (uint32_t n = 0; n < 8 * 64; ++n)
      EXPECT_EQ(r.out[n], (n / 64 + 1) % 4 * 1000 + n % 64) << n;
  }
  // By generic addresses, whose rank can be asked for.
  const std::string generic =
      "cvta.shared.u64 %q5, %q6;\nmapa.u64 %q5, %q5, %r2;\nld.u32 %r11, [%q5];\n"
      "getctarank.u64 %r12, %q5;\nmad.lo.u32 %r11, %r12, 100000, %r11;\n";
  const std::string text = "cvt.u64.u32 %q6, %r8;\n" +
                           replaced(kExchange, "ld.shared::cluster.u32 %r11, [%r9];\n", generic);
  ClusterRun r;
  EXPECT_EQ(r.problem(text), "");
  EXPECT_EQ(r.out[5], 101005U);
  EXPECT_EQ(r.out[64 + 5], 5U);
  expect_right_in_clusters(replaced(kExchange, barrier_of_cluster(),
                                    "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait;\n"));
}

TEST(PtxClusters, MistakesWithTheirMemoryAreFound) {
  const std::string first = barrier_of_cluster(), last = barrier_of_cluster(".relaxed");
  const std::string load = "ld.shared::cluster.u32 %r11, [%r9];\n";
  expect_right_in_clusters(kExchange);
  expect_found_in_clusters({
      {replaced(kExchange, first, ""), "may not have begun"},
      {replaced(kExchange, first, "bar.sync 0;\n"), "may not have begun"},
      {replaced(kExchange, first, last), "race"},
      {replaced(kExchange, first, "barrier.cluster.arrive.release.aligned;\n"), ""},
      {replaced(kExchange, "barrier.cluster.arrive.release.aligned;\n", ""), "without an arrival"},
      {replaced(kExchange, first, first + "barrier.cluster.arrive.aligned;\n"), "second arrival"},
      {replaced(kExchange, last, ""), "ended"},
      {replaced(kExchange, last, "bar.sync 0;\n"), "ended"},
      {replaced(kExchange, kStoreRank, ""), "nobody wrote"},
      {replaced(kExchange, load, "ld.shared.u32 %r11, [%r9];\n"), "without .shared::cluster"},
      {replaced(kExchange, load, "ld.shared::cluster.u32 %r11, [%r9+65536];\n"), "65536"},
      {replaced(kExchange, load, "mapa.shared::cluster.u32 %r9, %r8, 2;\n" + load), "rank 2"},
      {replaced(kExchange, load, "mapa.shared::cluster.u32 %r9, %r9, 0;\n" + load), "mapped"},
      {replaced(kExchange, load, load + "st.shared.u32 [%r8], %t;\n"), "race"},
  });
  // Only one of them passes the last barrier, and the other one is over by then.
  const std::string half =
      replaced(kExchange, last, "setp.eq.u32 %p3, %r1, 1;\n@%p3 bra END;\n" + last + "END:\n");
  expect_found_in_clusters({{half, "ended"}});
}

/// A thread that has ended is none that a barrier awaits.
TEST(PtxClusters, TheirBarrierAwaitsThreadsThatRun) {
  const std::string body = "setp.gt.u32 %p1, %t, 31;\n@%p1 bra END;\n" + kExchange + "END:\n";
  expect_right_in_clusters(body);
  const std::string never = "setp.gt.u32 %p1, %t, 31;\n@%p1 bra FOREVER;\n" + kExchange +
                            "bra END;\nFOREVER:\nbar.sync 3;\nEND:\n";
  expect_found_in_clusters({{never, "barrier 3"}, {never, "warp 0 of rank 1"}});
  // What ended before it told nobody of its values.
  const std::string silent =
      "setp.gt.u32 %p1, %t, 31;\n@!%p1 bra OTHER;\n" + kStoreRank + "bra END;\nOTHER:\n" +
      kStoreRank + barrier_of_cluster() +
      "ld.shared::cluster.u32 %r11, [%r9+128];\nst.global.u32 [%q4], %r11;\n" +
      barrier_of_cluster() + "END:\n";
  expect_found_in_clusters({{silent, "race"}});
}

std::string made_signals(const std::string& count, const std::string& barrier) {
  return "add.u32 %r20, %r0, 32768;\nadd.u32 %r21, %r3, 32768;\n@%p0 bra READY;\n"
         "mbarrier.init.shared::cta.b64 [%r20], " +
         count + ";\nfence.mbarrier_init.release.cluster;\nREADY:\n" + barrier;
}
std::string wait_of(const std::string& scope) {
  return "{ .reg .pred p;\nW: mbarrier.try_wait.parity" + scope +
         ".shared::cta.b64 p, [%r20], 0;\n@p bra D;\nbra W;\nD: }\n";
}

/// Each thread writes a word of the next workgroup, and tells it so.
TEST(PtxClusters, ArriveAtSignalsOfEachOther) {
  const std::string ready = barrier_of_cluster(".relaxed");
  const std::string arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];\n";
  const std::string store = "add.u32 %r10, %t, 7;\nst.shared::cluster.u32 [%r9], %r10;\n";
  const std::string load =
      "xor.b32 %r12, %r7, 128;\nadd.u32 %r12, %r12, %r0;\nld.shared.u32 %r11, [%r12];\n"
      "st.global.u32 [%q4], %r11;\n";
  const std::string wait = wait_of(".acquire.cluster");
  const std::string good = made_signals("64", ready) + store + arrive + wait + load;
  expect_right_in_clusters(good);
  ClusterRun r;
  ASSERT_EQ(r.problem(good), "");
  for (uint32_t n = 0; n < 128; ++n) EXPECT_EQ(r.out[n], (n % 64 ^ 32) + 7) << n;
  const auto changed = [&](const std::string& from, const std::string& to) {
    return replaced(good, from, to);
  };
  // A count is no state, and a generic address will do.
  expect_right_in_clusters(replaced(made_signals("128", ready) + store + arrive + wait + load,
                                    "_, [%r21]", "_, [%r21], 2"));
  expect_right_in_clusters(changed(arrive,
                                   "cvt.u64.u32 %q6, %r20;\ncvta.shared.u64 %q6, %q6;\n"
                                   "mapa.u64 %q6, %q6, %r2;\n"
                                   "mbarrier.arrive.release.cluster.b64 _, [%q6];\n"));
  expect_found_in_clusters({
      {changed(".release.cluster.shared::cluster.b64 _, [%r21]", ".shared::cluster.b64 _, [%r21]"),
       "race"},
      {changed(".release.cluster.shared::cluster.b64 _", ".relaxed.cluster.shared::cluster.b64 _"),
       "race"},
      {changed(".acquire.cluster", ""), "race"},
      {changed(".acquire.cluster", ".acquire.cta"), "race"},
      {changed(".acquire.cluster", ".relaxed.cluster"), "race"},
      // Nobody has read what is written again.
      {replaced(changed(".acquire.cluster", ""), "ld.shared.u32 %r11, [%r12]",
                "st.shared.u32 [%r12], %t"),
       "race"},
      {changed(wait, ""), ""},
      {changed(arrive, ""), "64 of 64 arrivals"},
      {changed(arrive, arrive + arrive), ""},
      {changed("], 64", "], 65"), "1 of 65 arrivals"},
      {changed(ready, ""), ""},
      {changed(ready, "bar.sync 0;\n"), "may not have begun"},
      {changed("fence.mbarrier_init.release.cluster;\n", ""), "without a barrier"},
      {changed("shared::cluster.b64 _", "shared::cluster.b64 %q7"), "returns no state"},
      {changed("shared::cluster.b64 _", "shared::cta.b64 _"), "without .shared::cluster"},
      {changed("parity.acquire.cluster.shared::cta.b64 p, [%r20]",
               "parity.acquire.cluster.shared::cta.b64 p, [%r21]"),
       "without .shared::cluster"},
      {changed("parity.acquire.cluster.shared::cta", "parity.acquire.cluster.shared::cluster"),
       "unknown instruction"},
  });
}

BoxedTensor some_matrix() {
  return {cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16, {64, 100}, {64, 16}, {1, 1}, 3};
}

/// A leader of each workgroup loads half of what both get. Boxes of one stage come to 0 and 2048.
const std::string kIssueHalf =
    "mov.u16 %h0, 3;\nshl.b32 %r13, %r1, 4;\nshl.b32 %r14, %r1, 11;\nadd.u32 %r14, %r0, %r14;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 4096;\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    ".multicast::cluster [%r14], [%map0, {0, %r13}], [%r20], %h0;\n";
const std::string kReadBoth =
    "ld.shared.u32 %r10, [%r8];\nld.shared.u32 %r11, [%r8+2048];\n"
    "mad.lo.u32 %r10, %r11, 65537, %r10;\nst.global.u32 [%q4], %r10;\n";

std::string multicast_text() {
  return ".reg .b16 %h<2>;\n" + made_signals("1", barrier_of_cluster(".relaxed")) +
         "@%p0 bra WAIT;\n" + kIssueHalf + "WAIT:\n" + wait_of("") + kReadBoth;
}

TEST(PtxClusters, CopiesLandInSeveralWorkgroups) {
  const TensorMap map = some_matrix().map(HopperMemory::kIn);
  const std::string good = multicast_text();
  expect_right_in_clusters(good, map);
  ClusterRun r;
  ASSERT_EQ(r.problem(good, map), "");
  const auto word = [](uint32_t n) {
    uint32_t v = 0;
    for (uint32_t b = 4; b-- > 0;) v = v << 8 | ((n * 7 + b) & 255);
    return v;
  };
  for (uint32_t n = 0; n < 128; ++n) {
    const uint32_t line = n % 64 / 32, chunk = n % 32 / 4, place = (chunk ^ line) * 4 + n % 4;
    const uint32_t first = 32 * line + place;
    EXPECT_EQ(r.out[n], word(first) + 65537 * word(first + 512)) << n;
  }
  // The same lines, without a tensor.
  const std::string lines =
      replaced(replaced(good, "bulk.tensor.2d.", "bulk."), "[%r14], [%map0, {0, %r13}], [%r20]",
               "[%r14], [%q7], 2048, [%r20]");
  const std::string address =
      "shl.b32 %r15, %r1, 11;\ncvt.u64.u32 %q7, %r15;\n"
      "add.s64 %q7, %in, %q7;\n";
  ClusterRun of_lines;
  EXPECT_EQ(of_lines.problem(replaced(lines, "@%p0 bra WAIT;\n", address + "@%p0 bra WAIT;\n")),
            "");
  for (uint32_t n = 0; n < 128; ++n)
    EXPECT_EQ(of_lines.out[n], word(n % 64) + 65537 * word(n % 64 + 512)) << n;
}

TEST(PtxClusters, MistakesInSuchCopiesAreFound) {
  const TensorMap map = some_matrix().map(HopperMemory::kIn);
  const std::string good = multicast_text(), ready = barrier_of_cluster(".relaxed");
  const auto changed = [&](const std::string& from, const std::string& to) {
    return replaced(good, from, to);
  };
  expect_found_in_clusters(
      {
          {changed("%h0, 3;", "%h0, 1;"), "4096 bytes are to come"},
          {changed("%h0, 3;", "%h0, 2;"), "4096 bytes are to come"},
          {changed("%h0, 3;", "%h0, 7;"), "7 (bits) of a cluster of 2"},
          {changed("%h0, 3;", "%h0, 0;"), "0 (bits)"},
          {changed(", 4096;", ", 2048;"), ""},
          {changed(wait_of(""), ""), ""},
          {changed(ready, ""), ""},
          {changed(ready, "bar.sync 0;\n"), "may not have begun"},
          {changed("fence.mbarrier_init.release.cluster;\n", ""), "without a barrier"},
          {changed(", [%r20], %h0", ", [%r21], %h0"), ""},
          {changed("shl.b32 %r14, %r1, 11;\n", "mov.u32 %r14, 0;\n"), "before it was awaited"},
          {changed("shared::cluster.global.mbarrier", "shared::cta.global.mbarrier"),
           "unknown instruction"},
          // One of them ends while copies to it are under way.
          {changed("WAIT:\n", "WAIT:\nsetp.eq.u32 %p3, %r1, 1;\n@%p3 bra END;\n") + "END:\n",
           "ended"},
      },
      map);
}

/// Two stages of the same memory: what a workgroup has read may be written once all have said so.
TEST(PtxClusters, MemoryIsFreedByAllThatReadIt) {
  const TensorMap map = some_matrix().map(HopperMemory::kIn);
  const std::string second = wait_of(".acquire.cluster");
  const auto at = [](std::string text, const std::string& from, const std::string& to) {
    for (size_t n = text.find(from); n != std::string::npos; n = text.find(from, n + to.size()))
      text.replace(n, from.size(), to);
    return text;
  };
  // The free signal lies 8 bytes behind the other one; threads of both workgroups arrive at both.
  const std::string init = at(made_signals("1", barrier_of_cluster(".relaxed")), "fence.mbarrier",
                              "mbarrier.init.shared::cta.b64 [%r20+8], 128;\nfence.mbarrier");
  const std::string release =
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21+8];\n"
      "mbarrier.arrive.shared::cta.b64 _, [%r20+8];\n";
  const std::string await_free = at(at(second, "[%r20]", "[%r20+8]"), "D", "F");
  const std::string good =
      ".reg .b16 %h<2>;\n" + init + "@%p0 bra WAIT;\n" + kIssueHalf + "WAIT:\n" + wait_of("") +
      kReadBoth + release + "@%p0 bra AGAIN;\n" + await_free + kIssueHalf + "AGAIN:\n" +
      at(wait_of(""), "[%r20], 0", "[%r20], 1") + kReadBoth + barrier_of_cluster(".relaxed");
  expect_right_in_clusters(good, map);
  // Reads are over in any scope: rings of NVIDIA's library and of this compiler rely on it.
  const std::string own_scope = at(await_free, ".acquire.cluster", "");
  const auto arrives = [&](const std::string& text, const std::string& order) {
    return replaced(text, ".release.cluster.shared::cluster.b64 _, [%r21+8]",
                    order + ".shared::cluster.b64 _, [%r21+8]");
  };
  const std::string narrow = arrives(replaced(good, await_free, own_scope), "");
  expect_right_in_clusters(replaced(good, await_free, own_scope), map);
  expect_right_in_clusters(arrives(good, ""), map);
  expect_right_in_clusters(narrow, map);
  const std::string told = arrives(release, "");
  const std::string late = replaced(narrow, kReadBoth + told, told + kReadBoth);
  expect_found_in_clusters(
      {
          {replaced(good, await_free, ""), ""},
          {replaced(good, await_free, at(await_free, ".acquire.", ".relaxed.")), ""},
          {arrives(good, ".relaxed.cluster"), ""},
          {replaced(narrow, own_scope, at(own_scope, "parity", "parity.relaxed.cta")), ""},
          {arrives(good, ".relaxed.cta"), ""},
          {late, ""},
          {replaced(replaced(good, release,
                             replaced(release,
                                      "mbarrier.arrive.release.cluster."
                                      "shared::cluster.b64 _, [%r21+8];\n",
                                      "")),
                    "[%r20+8], 128", "[%r20+8], 64"),
           ""},
      },
      map);
}

/// st.async, and copies from shared memory to that of another workgroup.
TEST(PtxClusters, SendValuesToEachOther) {
  const std::string ready = made_signals("1", barrier_of_cluster(".relaxed"));
  const std::string expect =
      "@%p0 bra SENT;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;\nSENT:\n";
  const std::string load = "ld.shared.u32 %r11, [%r8];\nst.global.u32 [%q4], %r11;\n";
  const std::string send =
      "mad.lo.u32 %r10, %r1, 1000, %t;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r10, [%r21];\n";
  const std::string good = ready + expect + send + wait_of("") + load;
  expect_right_in_clusters(good);
  ClusterRun r;
  ASSERT_EQ(r.problem(good), "");
  for (uint32_t n = 0; n < 128; ++n) EXPECT_EQ(r.out[n], (n < 64 ? 1000 : 0) + n % 64) << n;
  expect_found_in_clusters({
      {replaced(good, wait_of(""), ""), ""},
      {replaced(good, "], 256", "], 512"), "256 bytes are to come"},
      {replaced(good, "%r10, [%r21]", "%r10, [%r20]"), "another workgroup than its destination"},
      {replaced(good, send, send + "st.shared.u32 [%r8], %t;\n"), ""},
  });
  // From 4096 bytes on to the next workgroup's first bytes.
  const std::string copy =
      "mad.lo.u32 %r10, %r1, 1000, %t;\nst.shared.u32 [%r8+4096], %r10;\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra COPIED;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r0+4096], "
      "256, [%r21];\nCOPIED:\n";
  const std::string copied = ready + expect + copy + wait_of("") + load + barrier_of_cluster();
  expect_right_in_clusters(copied);
  ClusterRun c;
  ASSERT_EQ(c.problem(copied), "");
  EXPECT_EQ(c.out, r.out);
  expect_found_in_clusters({
      {replaced(copied, "fence.proxy.async.shared::cta;\n", ""), "fence.proxy.async"},
      {replaced(copied, "COPIED:\n", "COPIED:\nst.shared.u32 [%r8+4096], 1;\n"), ""},
      {replaced(copied, "[%r0+4096], 256", "[%r3], 256"), "without .shared::cluster"},
  });
}

}  // namespace
}  // namespace reprise::test
