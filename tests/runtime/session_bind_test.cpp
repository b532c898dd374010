// Sizes, places and cuts of plans; recipes of weights.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/plan/bind.h"
#include "runtime/weights/weights.h"

namespace reprise::test {
namespace {

plan::Buffer buffer(plan::BufferKind kind, Shape shape) {
  return {"t", kind, 0, DType::F32, std::move(shape)};
}

// A chain of n launches over arena buffers, host calls at the given steps.
plan::Plan chain(size_t n, const std::set<size_t>& host = {}) {
  plan::Plan p;
  for (size_t b = 0; b <= n; ++b) p.buffers.push_back(buffer(plan::BufferKind::Arena, {Expr(64)}));
  p.kernels.resize(1);
  for (size_t s = 0; s < n; ++s) {
    const plan::BufferId from(s), to(s + 1);
    plan::Step step;
    if (host.count(s) != 0) {
      plan::HostCall call;
      call.inputs = {from};
      call.outputs = {to};
      step.what = call;
    } else {
      plan::Launch l;
      l.grid = {Expr(1), Expr(1), Expr(1)};
      l.buffers = {from, to};
      l.writes = {false, true};
      step.what = l;
    }
    p.steps.push_back(step);
  }
  plan::compute_hazards(p);
  return p;
}

TEST(Bind, BlocksDoNotOverlapAndEveryUseIsListed) {
  plan::Plan p = chain(3);
  std::get<plan::Launch>(p.steps[1].what).scalars.assign(7, Expr(1));
  std::get<plan::Launch>(p.steps[2].what).grid[1] = Expr::symbol(0);
  const plan::BlockTable t = plan::layout_blocks(p);
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(t.block[s] % plan::kBufferAlignment, 0U);
  EXPECT_GE(t.block[1], t.block[0] + plan::BlockLayout::size(2, 0));
  EXPECT_GE(t.block[2], t.block[1] + plan::BlockLayout::size(2, 7));
  EXPECT_EQ(t.indirect[0], plan::kNone);
  EXPECT_GE(t.indirect[2], t.block[2] + plan::BlockLayout::size(2, 0));
  EXPECT_GE(t.bytes, t.indirect[2] + 12);
  EXPECT_EQ(t.uses[plan::BufferId(0)].size(), 1U);
  EXPECT_EQ(t.uses[plan::BufferId(1)],
            (std::vector<uint64_t>{t.block[0] + plan::BlockLayout::buffer_offset(1),
                                   t.block[1] + plan::BlockLayout::buffer_offset(0)}));
}

TEST(Bind, SizesOfAnEmptyLaunchAreNotComputed) {
  plan::Plan p = chain(1);
  auto& launch = std::get<plan::Launch>(p.steps[0].what);
  launch.grid[0] = Expr::symbol(0);
  launch.scalars = {Expr::floordiv(Expr(12), Expr::symbol(0))};
  const plan::BlockTable t = plan::layout_blocks(p);
  std::vector<std::byte> blocks(t.bytes);
  const plan::Limits limits;
  const std::vector<int64_t> zero{0}, three{3};
  const Status s = plan::write_sizes(p, 0, t, zero, limits, blocks);
  EXPECT_TRUE(s.ok()) << s.message();
  ASSERT_TRUE(plan::write_sizes(p, 0, t, three, limits, blocks).ok());
  int32_t size = 0;
  std::memcpy(&size, &blocks[t.block[0] + plan::BlockLayout::scalar_offset(2, 0)], sizeof size);
  EXPECT_EQ(size, 4);
}

TEST(Bind, LoopsThatTheDriverLeavesAreRefused) {
  plan::Plan p = chain(1);
  auto& launch = std::get<plan::Launch>(p.steps[0].what);
  p.kernels[0].name = "softmax";
  launch.iterations = Expr(3) * Expr::symbol(0);
  const plan::BlockTable t = plan::layout_blocks(p);
  std::vector<std::byte> blocks(t.bytes);
  plan::Limits limits;
  const std::vector<int64_t> fits{100}, more{101}, huge{int64_t{1} << 62};
  EXPECT_TRUE(plan::write_sizes(p, 0, t, huge, limits, blocks).ok());
  limits.max_loop_iterations = 302;
  EXPECT_TRUE(plan::write_sizes(p, 0, t, fits, limits, blocks).ok());
  const Status s = plan::write_sizes(p, 0, t, more, limits, blocks);
  EXPECT_EQ(s.code(), Code::Unsupported);
  for (const char* part : {"softmax", "303 iterations", "302", "--shape"})
    EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
  EXPECT_EQ(plan::write_sizes(p, 0, t, huge, limits, blocks).code(), Code::Unsupported);
  launch.grid[0] = 0;
  EXPECT_TRUE(plan::write_sizes(p, 0, t, huge, limits, blocks).ok());
}

TEST(Bind, ArenasThatPassTheLimitAreSplit) {
  const plan::Plan p = chain(6);
  const IdVector<plan::BufferId, uint64_t> bytes(p.buffers.size(), 1000);
  const auto whole = plan::place_arenas(p, bytes, 1 << 20);
  ASSERT_EQ(whole.bytes.size(), 1U);
  EXPECT_LT(whole.bytes[0], 7 * 1024U);  // dead buffers' memory is used again
  const auto split = plan::place_arenas(p, bytes, 1024);
  EXPECT_GT(split.bytes.size(), 1U);
  for (const uint64_t b : split.bytes) EXPECT_LE(b, 1024U);
  for (size_t s = 0; s + 1 < p.buffers.size(); ++s) {  // neighbours live at the same time
    const plan::BufferId a(s), b(s + 1);
    const bool apart = split.arena[a] != split.arena[b] ||
                       split.offsets[a] + 1000 <= split.offsets[b] ||
                       split.offsets[b] + 1000 <= split.offsets[a];
    EXPECT_TRUE(apart) << s;
  }
}

TEST(Bind, SegmentsEndAtHostCalls) {
  const plan::Plan p = chain(5, {0, 3});
  const auto segments = plan::cut_segments(p);
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_TRUE(segments[0].levels.empty());
  EXPECT_EQ(segments[0].host_calls.size(), 1U);
  EXPECT_EQ(segments[1].levels.size(), 2U);
  EXPECT_EQ(segments[2].host_calls.size(), 0U);
  const plan::PlanCounts c = plan::count(p);
  EXPECT_EQ(c.submits, 2U);
  EXPECT_EQ(c.dispatches, 3U);
  EXPECT_EQ(c.barriers, 3U);
  EXPECT_EQ(c.host_calls, 2U);
}

TEST(Bind, EmptyGridsAndNegativeDims) {
  plan::Launch l;
  l.grid = {Expr::symbol(0), Expr(3), Expr(1)};
  const std::vector<int64_t> zero{0}, minus{-5};
  const auto grid = plan::eval_grid({}, l, zero, {});
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(*grid, (std::array<uint32_t, 3>{0, 0, 0}));
  plan::Interface io;
  io.symbols.push_back({.name = "n"});
  io.sources.emplace_back();
  io.inputs.push_back({"x", DType::F32, {Expr::symbol(0)}});
  const auto dims = plan::eval_dims(io, {Expr::symbol(0)}, minus, "t");
  ASSERT_FALSE(dims.ok());
  EXPECT_EQ(dims.status().code(), Code::InvalidInput);
}

TEST(Bind, BytesAreRoundedAndBounded) {
  const auto bytes_of = [](DType dtype, Shape shape) {
    return plan::eval_bytes({}, {"t", plan::BufferKind::Arena, -1, dtype, std::move(shape)}, {},
                            {});
  };
  EXPECT_EQ(*bytes_of(DType::Bool, {Expr(5)}), 8U);
  EXPECT_EQ(*bytes_of(DType::F16, {Expr(3), Expr(0)}), 0U);
  const auto huge = bytes_of(DType::U8, {Expr(int64_t{1} << 20), Expr(int64_t{1} << 11)});
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.status().code(), Code::Unsupported);
  EXPECT_FALSE(bytes_of(DType::F64, {Expr(int64_t{1} << 40), Expr(int64_t{1} << 40)}).ok());
}

TEST(Weights, TilesArePaddedWithZeros) {
  plan::Weight w;
  w.name = "w";
  w.packing = plan::in_tiles({1, 2, 3}, 2);
  const HostTensor rows =
      HostTensor::from(DType::F32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  std::vector<float> packed(8, -1);
  ASSERT_EQ(w.packing.packed_bytes(rows.bytes().size(), 4), packed.size() * sizeof(float));
  ASSERT_TRUE(pack_weight(w, rows, std::as_writable_bytes(std::span(packed))).ok());
  EXPECT_EQ(packed, (std::vector<float>{1, 2, 4, 5, 3, 0, 6, 0}));
  // The same matrix stored as [n, k].
  w.packing = plan::in_tiles({1, 2, 3, true}, 2);
  const HostTensor columns =
      HostTensor::from(DType::F32, {3, 2}, std::vector<float>{1, 4, 2, 5, 3, 6});
  ASSERT_TRUE(pack_weight(w, columns, std::as_writable_bytes(std::span(packed))).ok());
  EXPECT_EQ(packed, (std::vector<float>{1, 2, 4, 5, 3, 0, 6, 0}));
  w.packing = plan::in_tiles({1, 3, 3, true}, 2);
  const Status bad = pack_weight(w, rows, std::as_writable_bytes(std::span(packed)));
  EXPECT_EQ(bad.code(), Code::CorruptPackage);
  EXPECT_NE(bad.message().find("'w'"), std::string::npos);
}

TEST(Weights, IntegersOfFourBitsSharePackedWords) {
  plan::Weight w;
  w.name = "w";
  w.packing = plan::in_tiles_of_nibbles({1, 3, 5}, 4);
  // The upper bits of an element do not count.
  const HostTensor rows = HostTensor::from(
      DType::U4, {3, 5}, std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xFD, 14, 15});
  std::vector<uint32_t> packed(8, 7);
  ASSERT_EQ(w.packing.packed_bytes(rows.bytes().size(), 1), packed.size() * sizeof(uint32_t));
  ASSERT_TRUE(pack_weight(w, rows, std::as_writable_bytes(std::span(packed))).ok());
  EXPECT_EQ(packed, (std::vector<uint32_t>{0x98764321, 0xEDCB, 0, 0, 0xA0005, 0xF, 0, 0}));
  w.packing = plan::in_tiles_of_nibbles({1, 3, 5}, 6);
  EXPECT_EQ(pack_weight(w, rows, std::as_writable_bytes(std::span(packed))).code(),
            Code::CorruptPackage);
  w.packing = plan::in_tiles_of_nibbles({1, 3, 5}, 4);
  const HostTensor bytes = HostTensor::from(DType::U8, {3, 5}, std::vector<uint8_t>(15));
  EXPECT_EQ(pack_weight(w, bytes, std::as_writable_bytes(std::span(packed))).code(),
            Code::CorruptPackage);
}

}  // namespace
}  // namespace reprise::test
