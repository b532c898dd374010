// Copies of the async proxy, against formulas for each byte.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/ptx/edits.h"
#include "tests/ptx/hopper.h"

namespace reprise::test {
namespace {

std::vector<std::byte> random_bytes(size_t count, std::mt19937& rng) {
  std::vector<std::byte> out(count);
  for (std::byte& b : out) b = static_cast<std::byte>(rng() % 255 + 1);
  return out;
}

uint32_t below(uint32_t n, std::mt19937& rng) {
  return static_cast<uint32_t>(rng() % n);
}

/// The pictures of NVIDIA's document: which 16 bytes of a line of 128 come to each place.
constexpr int kPicture32[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
constexpr int kPicture64[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                  {1, 0, 3, 2, 5, 4, 7, 6},
                                  {2, 3, 0, 1, 6, 7, 4, 5},
                                  {3, 2, 1, 0, 7, 6, 5, 4}};
constexpr int kPicture128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6},
                                   {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4},
                                   {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                   {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};

/// Where a byte of a box without a swizzle lies with it; the box begins at a multiple of 1024.
size_t place_in_box(size_t byte, uint32_t swizzle) {
  const size_t line = byte / 128, chunk = byte % 128 / 16;
  const auto of = [&](const int* row) {
    for (size_t n = 0; n < 8; ++n)
      if (row[n] == static_cast<int>(chunk)) return line * 128 + n * 16 + byte % 16;
    return size_t{0};
  };
  if (swizzle == 1) return of(kPicture32[line % 2]);
  if (swizzle == 2) return of(kPicture64[line % 4]);
  return swizzle == 3 ? of(kPicture128[line % 8]) : byte;
}

/// Calls visit(place in shared memory, byte of the tensor, or -1 outside of it).
template <typename F>
void for_box(const BoxedTensor& t, const std::vector<int32_t>& at, const F& visit) {
  const uint32_t size = t.element_bytes();
  const std::vector<uint64_t> strides = t.strides();
  for (uint32_t e = 0; e < t.box_bytes() / size; ++e) {
    uint32_t rest = e;
    int64_t byte = 0;
    for (size_t d = 0; d < t.dims.size(); ++d) {
      const uint32_t step = d == 0 ? 1 : t.steps[d], count = (t.box[d] + step - 1) / step;
      const int64_t c = at[d] + int64_t{rest % count} * step;
      rest /= count;
      if (c < 0 || c >= static_cast<int64_t>(t.dims[d])) byte = -1;
      if (byte >= 0) byte += c * static_cast<int64_t>(strides[d]);
    }
    for (uint32_t n = 0; n < size; ++n)
      visit(place_in_box(size_t{e} * size + n, t.swizzle), byte < 0 ? -1 : byte + n);
  }
}

std::string coordinates(const std::vector<int32_t>& at) {
  std::string out;
  for (const int32_t c : at) out += (out.empty() ? "" : ", ") + std::to_string(c);
  return "{" + out + "}";
}

const std::string kSignalAt32768 =
    "mov.u32 %r0, smem;\nadd.s32 %r1, %r0, 32768;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra READY;\n"
    "mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\nREADY:\n"
    "bar.sync 0;\n";

/// Threads copy so many bytes of shared memory to the second buffer.
std::string copy_out_text(uint32_t bytes, uint32_t threads) {
  return "shl.b32 %r10, %t, 4;\nLOOP: setp.ge.u32 %p1, %r10, " + std::to_string(bytes) +
         ";\n@%p1 bra OUT;\nadd.s32 %r11, %r0, %r10;\ncvt.u64.u32 %q3, %r10;\n"
         "add.s64 %q3, %out, %q3;\nld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];\n"
         "st.global.v4.u32 [%q3], {%r12, %r13, %r14, %r15};\nadd.s32 %r10, %r10, " +
         std::to_string(16 * threads) + ";\nbra LOOP;\nOUT:\n";
}

std::string load_text(const BoxedTensor& t, const std::vector<int32_t>& at, uint32_t threads,
                      const std::string& hint = "") {
  const std::string bytes = std::to_string(t.box_bytes());
  return kSignalAt32768 + "@%p0 bra WAIT;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], " +
         bytes + ";\ncp.async.bulk.tensor." + std::to_string(t.dims.size()) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" +
         (hint.empty() ? "" : ".L2::cache_hint") + " [%r0], [%map0, " + coordinates(at) +
         "], [%r1]" + hint + ";\nWAIT:\n" + wait_for("%r1", "0") +
         copy_out_text(t.box_bytes(), threads);
}

void check_load(const BoxedTensor& t, const std::vector<int32_t>& at, const ptx::Options& options) {
  std::mt19937 rng(7);
  HopperMemory m;
  m.threads = 64;
  m.options = options;
  m.in = random_bytes(t.bytes(), rng);
  m.out.resize(t.box_bytes());
  m.maps[0] = t.map(HopperMemory::kIn);
  const Status s = run_hopper(load_text(t, at, m.threads), m);
  ASSERT_TRUE(s.ok()) << s.message() << coordinates(at);
  size_t wrong = 0;
  for_box(t, at, [&](size_t to, int64_t byte) {
    const std::byte expected = byte < 0 ? std::byte{0} : m.in[static_cast<size_t>(byte)];
    wrong += m.out[to] == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0U) << coordinates(at) << " swizzle " << t.swizzle << " rank " << t.dims.size();
}

BoxedTensor matrix_of(uint32_t swizzle) {
  const uint32_t inner = swizzle == 0 ? 48 : 8U << swizzle;
  return {cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16, {100, 37}, {inner, 16}, {1, 1}, swizzle};
}

TEST(PtxBoxes, OfMatricesAtEachEdge) {
  for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
    for (const int32_t x : {0, 3, 64, 96, 200, -5}) {
      for (const int32_t y : {0, 30, -3, 40}) check_load(matrix_of(swizzle), {x, y}, {});
    }
  }
}

TEST(PtxBoxes, OfEachRankInEveryOrder) {
  std::mt19937 rng(3);
  constexpr cuda::CUtensorMapDataType kTypes[] = {
      cuda::CU_TENSOR_MAP_DATA_TYPE_UINT8, cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16,
      cuda::CU_TENSOR_MAP_DATA_TYPE_UINT32, cuda::CU_TENSOR_MAP_DATA_TYPE_UINT64};
  for (uint32_t n = 0; n < 60; ++n) {
    BoxedTensor t;
    t.type = kTypes[n % 4];
    t.swizzle = below(4, rng);
    const uint32_t inner = t.swizzle == 0 ? 16 * (1 + below(4, rng)) : 16U << t.swizzle;
    std::vector<int32_t> at;
    for (uint32_t d = 0; d <= n % 5; ++d) {
      t.dims.push_back(1 + below(d == 0 ? 80 : 9, rng));
      t.box.push_back(d == 0 ? inner / t.element_bytes() : 1 + below(5, rng));
      t.steps.push_back(d == 0 ? 1 : 1 + below(3, rng));
      at.push_back(static_cast<int32_t>(rng() % (t.dims.back() + 4)) - 2);
    }
    check_load(t, at, {kOrders[n % 3], n});
  }
}

TEST(PtxBoxes, TakeHints) {
  BoxedTensor t = matrix_of(0);
  HopperMemory m;
  m.in.resize(t.bytes());
  m.out.resize(t.box_bytes());
  m.maps[0] = t.map(HopperMemory::kIn);
  const std::string hint =
      "prefetch.tensormap [%map0];\n"
      "createpolicy.fractional.L2::evict_first.b64 %q9, 0f3F800000;\n"
      "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map0, {0, 0}];\n";
  EXPECT_EQ(run_hopper(hint + load_text(t, {0, 0}, m.threads, ", %q9"), m).message(), "");
}

std::string fill_text(uint32_t bytes, uint32_t threads) {
  return "shl.b32 %r10, %t, 4;\nFILL: setp.ge.u32 %p1, %r10, " + std::to_string(bytes) +
         ";\n@%p1 bra FULL;\nadd.s32 %r11, %r0, %r10;\ncvt.u64.u32 %q3, %r10;\n"
         "add.s64 %q3, %in, %q3;\nld.global.v4.u32 {%r12, %r13, %r14, %r15}, [%q3];\n"
         "st.shared.v4.u32 [%r11], {%r12, %r13, %r14, %r15};\nadd.s32 %r10, %r10, " +
         std::to_string(16 * threads) + ";\nbra FILL;\nFULL:\n";
}

/// The first buffer is the contents of shared memory, the second one is the tensor.
std::string store_text(const BoxedTensor& t, const std::vector<int32_t>& at, uint32_t threads) {
  return "mov.u32 %r0, smem;\nsetp.ne.u32 %p0, %t, 0;\n" + fill_text(t.box_bytes(), threads) +
         "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra END;\ncp.async.bulk.tensor." +
         std::to_string(t.dims.size()) + "d.global.shared::cta.tile.bulk_group [%map0, " +
         coordinates(at) +
         "], [%r0];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nEND:\n";
}

TEST(PtxBoxes, AreStored) {
  std::mt19937 rng(5);
  for (uint32_t n = 0; n < 40; ++n) {
    BoxedTensor t;
    t.swizzle = n % 4;
    const uint32_t inner = t.swizzle == 0 ? 16 * (1 + below(4, rng)) : 16U << t.swizzle;
    std::vector<int32_t> at;
    for (uint32_t d = 0; d <= n % 3; ++d) {
      t.dims.push_back(1 + below(d == 0 ? 80 : 9, rng));
      t.box.push_back(d == 0 ? inner / t.element_bytes() : 1 + below(5, rng));
      t.steps.push_back(1);
      at.push_back(static_cast<int32_t>(rng() % (t.dims.back() + 2)));
    }
    HopperMemory m;
    m.options = {kOrders[n / 4 % 3], n};
    m.in = random_bytes(t.box_bytes(), rng);
    m.out.assign(t.bytes(), std::byte{0});
    m.maps[0] = t.map(HopperMemory::kOut);
    const Status s = run_hopper(store_text(t, at, m.threads), m);
    ASSERT_TRUE(s.ok()) << s.message();
    std::vector<std::byte> expected(t.bytes());
    for_box(t, at, [&](size_t to, int64_t byte) {
      if (byte >= 0) expected[static_cast<size_t>(byte)] = m.in[to];
    });
    EXPECT_EQ(m.out, expected) << n;
  }
}

TEST(PtxLines, AreCopiedBothWays) {
  std::mt19937 rng(9);
  for (const ptx::Completion order : kOrders) {
    HopperMemory m;
    m.options.copies = order;
    m.in = random_bytes(4096, rng);
    m.out.resize(4096);
    const std::string body =
        kSignalAt32768 +
        "@%p0 bra END;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%in], 1024, "
        "[%r1];\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0+1024], [%in+1024], "
        "3072, [%r1];\n" +
        wait_for("%r1", "0") +
        "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r0], 4096;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:\n";
    EXPECT_EQ(run_hopper(body, m).message(), "");
    EXPECT_EQ(m.out, m.in);
  }
}

/// Mistakes with a box that is loaded are found whenever it lands.
TEST(PtxBoxes, MistakesInLoadsAreFound) {
  const BoxedTensor t = matrix_of(3);
  const std::string bytes = std::to_string(t.box_bytes()), good = load_text(t, {0, 0}, 64);
  struct BoxMistake {
    std::string text, said;
  };
  const std::string wait = wait_for("%r1", "0");
  const BoxMistake mistakes[] = {
      {replaced(good, wait, ""), "before it was awaited"},
      {replaced(good, wait, wait_for("%r1", "1")), ""},
      {replaced(good, "[%r1], " + bytes, "[%r1], " + std::to_string(t.box_bytes() + 16)),
       "16 bytes are to come"},
      {replaced(good, "[%r1], " + bytes, "[%r1], " + std::to_string(t.box_bytes() - 16)), ""},
      {replaced(good, ".expect_tx.shared::cta.b64 _, [%r1], " + bytes, ".shared::cta.b64 _, [%r1]"),
       ""},
      {replaced(good, "mbarrier.init.shared::cta.b64 [%r1], 1;", ""), "not initialised"},
      {replaced(good, "bar.sync 0;", ""), ""},
      {replaced(good, "[%r1], 1;", "[%r1], 2;"), "1 of 2 arrivals"},
      {replaced(good, "[%map0, ", "[%in, "), "tensor map"},
      {replaced(good, ".2d.", ".3d."), "coordinates"},
      {replaced(good, "[%r0], [%map0", "[%r0+64], [%map0"), "128 bytes"},
      {replaced(good, ".tile", ".tile.multicast::cluster"), "',' expected"},
      {replaced(good, ".tile", ".tile.cta_group::2"), "cta_group::2"},
      {replaced(good, wait, wait + "st.shared.u32 [%r1], 1;\n"), "mbarrier"},
      {replaced(good, "@%p0 bra WAIT;\n", "st.shared.u32 [%r0], 1;\n@%p0 bra WAIT;\n"), ""},
  };
  for (const BoxMistake& mistake : mistakes) {
    for (const ptx::Completion order : kOrders) {
      ASSERT_NE(mistake.text, "");
      HopperMemory m;
      m.threads = 64;
      m.options.copies = order;
      m.in.resize(t.bytes(), std::byte{1});
      m.out.resize(t.box_bytes());
      m.maps[0] = t.map(HopperMemory::kIn);
      const std::string problem = run_hopper(mistake.text, m).message();
      EXPECT_NE(problem, "") << mistake.text;
      EXPECT_NE(problem.find(mistake.said), std::string::npos) << problem;
    }
  }
}

TEST(PtxBoxes, MistakesInStoresAreFound) {
  const BoxedTensor t = matrix_of(2);
  const std::string good = store_text(t, {0, 0}, 64);
  const std::pair<std::string, std::string> mistakes[] = {
      {replaced(good, "fence.proxy.async.shared::cta;\n", ""), "fence.proxy.async"},
      {replaced(good, "bar.sync 0;\n", ""), "race"},
      {replaced(good, "cp.async.bulk.wait_group.read 0;\n", ""), "bulk copies"},
      {replaced(good, "cp.async.bulk.commit_group;\n", ""), "bulk copies"},
      {replaced(good, "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group.read 1;"),
       "bulk copies"},
      {replaced(good, "cp.async.bulk.wait_group.read 0;\n",
                "st.shared.u32 [%r0], 1;\ncp.async.bulk.wait_group.read 0;\n"),
       "may still read"},
      {replaced(good, "{0, 0}", "{-1, 0}"), "before the tensor"},
  };
  for (const auto& [text, said] : mistakes) {
    for (const ptx::Completion order : kOrders) {
      ASSERT_NE(text, "") << said;
      HopperMemory m;
      m.threads = 64;
      m.options.copies = order;
      m.in.resize(t.box_bytes());
      m.out.resize(t.bytes());
      m.maps[0] = t.map(HopperMemory::kOut);
      const std::string problem = run_hopper(text, m).message();
      EXPECT_NE(problem.find(said), std::string::npos) << problem << "\n" << text;
    }
  }
}

/// What NVIDIA's document leaves open, and what a launch of one workgroup does not have.
TEST(PtxBoxes, WhatIsNotKnownIsRefused) {
  const BoxedTensor t = matrix_of(3);
  const auto problem_of_map = [&](const std::function<void(TensorMap&)>& change) {
    HopperMemory m;
    m.threads = 64;
    m.in.resize(t.bytes());
    m.out.resize(t.box_bytes());
    m.maps[0] = t.map(HopperMemory::kIn);
    change(m.maps[0]);
    return run_hopper(load_text(t, {0, 0}, m.threads), m).message();
  };
  EXPECT_EQ(problem_of_map([](TensorMap&) {}), "");
  const std::pair<std::function<void(TensorMap&)>, const char*> changes[] = {
      {[](TensorMap& m) { m.interleave = 1; }, "interleaved"},
      {[](TensorMap& m) { m.fill = 1; }, "NaN"},
      {[](TensorMap& m) { m.box[0] = 32; }, "narrower than its swizzle"},
      {[](TensorMap& m) { m.rank = 3; }, "another rank"},
      {[](TensorMap& m) { m.magic = 0; }, "tensor map"},
      {[](TensorMap& m) { m.address -= 16; }, "outside of all buffers"}};
  for (const auto& [change, said] : changes) {
    const std::string problem = problem_of_map(change);
    EXPECT_NE(problem.find(said), std::string::npos) << problem << " not " << said;
  }
}

TEST(PtxLines, MistakesAreFound) {
  const auto problem_of_line = [](const std::string& copy) {
    HopperMemory m;
    m.in.resize(4096);
    m.out.resize(4096);
    return run_hopper(kSignalAt32768 + "@%p0 bra END;\n" + copy + "END:\n", m).message();
  };
  const std::string load =
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%in], 64, "
      "[%r1];\n";
  const std::pair<std::string, const char*> mistakes[] = {
      {replaced(load, "64", "40"), "16 bytes"},
      {replaced(load, "[%r0]", "[%r0+8]"), "16 bytes"},
      {replaced(load, "[%in]", "[%in+4]"), "16 bytes"},
      {replaced(load, "[%in]", "[%in+4064]"), "outside of all buffers"},
      {replaced(load, "[%r0]", "[%r0+65520]"), "shared memory"},
      {replaced(load, "[%r1]", "[%r1+8]"), "not initialised"},
      {replaced(load, "[%r0]", "[%r1]"), "mbarrier"},
      {load + load, "before it was awaited"}};
  EXPECT_EQ(problem_of_line(load), "");
  for (const auto& [copy, said] : mistakes) {
    const std::string problem = problem_of_line(copy);
    EXPECT_NE(problem.find(said), std::string::npos) << problem << " not " << said;
  }
}

/// The thread that copies may execute the fence as well, once it knows of the writes.
TEST(PtxBoxes, TheFenceMayFollowTheBarrier) {
  const BoxedTensor t = matrix_of(2);
  HopperMemory m;
  m.in.resize(t.box_bytes());
  m.out.resize(t.bytes());
  m.maps[0] = t.map(HopperMemory::kOut);
  const std::string text =
      replaced(store_text(t, {0, 0}, m.threads), "fence.proxy.async.shared::cta;\nbar.sync 0;\n",
               "bar.sync 0;\nfence.proxy.async.shared::cta;\n");
  EXPECT_EQ(run_hopper(text, m).message(), "");
}

}  // namespace
}  // namespace reprise::test
