// Sessions on every device: values, sizes, rebinding, errors.
#include "contract.h"

namespace reprise::test {
namespace {

class SessionContract : public Contract {};

TEST_P(SessionContract, RunsAChainOfLaunches) {
  auto s = session(chain(3, 1000, false), open());
  ASSERT_TRUE(s);
  const HostTensor x = floats({1000}, ramp(1000));
  for (int run = 0; run < 3; ++run) {
    auto y = s->run({{{.name = "x", .host = &x}}});
    ASSERT_OK(y.status());
    for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(values((*y)[0])[i], ramp(1000)[i] + 3);
  }
  EXPECT_EQ(s->stats().runs, 3U);
  if (on_host()) return;
  EXPECT_EQ(s->stats().recordings, 1U);
  EXPECT_EQ(s->stats().submits, 3U);
  EXPECT_EQ(s->stats().dispatches, 9U);
}

TEST_P(SessionContract, WarmUpTouchesEveryKernelAndComputesNothing) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(100)});
  const auto t = w.arena("t", DType::F32, {Expr(100)});
  const auto y = w.output("y", DType::F32, {Expr(100)});
  w.launch(w.kernel(affine_kernel("twice", 2, 0)), {x, t}, {Expr(100)});
  w.launch(w.kernel(affine_kernel("and_one", 1, 1)), {t, y}, {Expr(100)});
  auto device = open();
  SessionOptions options;
  options.warm_up = true;
  auto s = Session::create(w.package(), device, options);
  ASSERT_OK(s.status());
  EXPECT_EQ(device->counters().dispatches_recorded, 2U);
  EXPECT_EQ(device->counters().submits, 1U);
  EXPECT_EQ((*s)->stats().dispatches, 0U);
  const HostTensor in = floats({100}, ramp(100));
  auto out = (*s)->run({{{.name = "x", .host = &in}}});
  ASSERT_OK(out.status());
  EXPECT_EQ(values((*out)[0])[99], 199.0F);
}

TEST_P(SessionContract, NewSizesRewriteBlocksAndRecordNothing) {
  auto device = open();
  auto s = session(chain(2, 0, true), device);
  ASSERT_TRUE(s);
  for (const int64_t n : {1000, 7, 0, 100000, 64, 1}) {
    const HostTensor x = floats({n}, ramp(static_cast<size_t>(n)));
    auto y = s->run({{{.name = "x", .host = &x}}});
    ASSERT_OK(y.status());
    ASSERT_EQ((*y)[0].dims(), std::vector<int64_t>{n});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ((*y)[0].data<float>()[i], x.data<float>()[i] + 2);
  }
  if (on_host()) return;
  // On devices without mapped memory, sizes past capacity record new copies: 1000, 100000.
  EXPECT_LE(device->counters().recordings, 2U);
  EXPECT_EQ(device->counters().submits, 6U);
}

TEST_P(SessionContract, RowsInHostMemoryMayHaveAPitch) {
  auto s = session(chain(2, 100, false), open());
  ASSERT_TRUE(s);
  std::vector<float> rows(298, -1), out(199, -1);
  for (size_t i = 0; i < 100; ++i) rows[3 * i] = static_cast<float>(i);
  HostTensor x;
  x.borrow_again(DType::F32, std::vector<int64_t>{100}, std::as_bytes(std::span(rows)));
  const Binding in{.name = "x", .host = &x, .row_pitch = 12};
  Binding to{.name = "y", .host_output = std::as_writable_bytes(std::span(out)), .row_pitch = 8};
  ASSERT_OK(s->run({{in}}, {{to}}).status());
  for (size_t i = 0; i < 199; ++i)
    ASSERT_EQ(out[i], i % 2 == 0 ? static_cast<float>(i / 2) + 2 : -1.0F);
  to.row_pitch = 12;  // beyond the memory
  EXPECT_EQ(s->run({{in}}, {{to}}).status().code(), Code::InvalidInput);
  to.row_pitch = 3;
  EXPECT_EQ(s->run({{in}}, {{to}}).status().code(), Code::InvalidInput);
}

TEST_P(SessionContract, DeviceMemoryIsUsedInPlace) {
  auto device = open();
  auto s = session(chain(2, 256, false), device);
  ASSERT_TRUE(s);
  const auto make = [&](float scale) {
    auto b = device->allocate(4096, MemoryUse::Device);
    EXPECT_TRUE(b.ok());
    const HostTensor v = floats({256}, ramp(256, scale));
    EXPECT_TRUE(device->upload(**b, 1024, v.bytes()).ok());
    return std::move(*b);
  };
  const auto a = make(1), b = make(2), out1 = make(0), out2 = make(0);
  uint64_t recorded = 0;  // copies of runs, without those of this test's downloads
  for (int round = 0; round < 4; ++round) {
    DeviceBuffer* in = round % 2 == 0 ? a.get() : b.get();
    DeviceBuffer* out = round < 2 ? out1.get() : out2.get();
    RunStats stats;
    const uint64_t before = device->counters().copies_recorded;
    auto y = s->run({{{.name = "x", .device = in, .device_offset = 1024, .dims = {256}}}},
                    {{{.name = "y", .device = out}}}, &stats);
    ASSERT_OK(y.status());
    recorded += device->counters().copies_recorded - before;
    EXPECT_EQ(stats.bytes_copied, 0U);
    EXPECT_EQ((*y)[0].dims(), std::vector<int64_t>{256});
    HostTensor got(DType::F32, {256});
    ASSERT_OK(device->download(*out, 0, got.mutable_bytes()));
    const float scale = round % 2 == 0 ? 1.0F : 2.0F;
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(values(got)[i], ramp(256, scale)[i] + 2);
  }
  // Without buffer addresses, each of the four pairs of buffers may need a recording
  // (tests/vulkan/descriptors_test.cpp).
  EXPECT_LE(s->stats().recordings, device->info().facts.buffer_address ? 1U : 4U);
  EXPECT_EQ(s->stats().copies, 0U);
  EXPECT_EQ(recorded, 0U);
}

TEST_P(SessionContract, OutputsGoStraightIntoTheCallersMemory) {
  auto s = session(chain(1, 100, false), open());
  ASSERT_TRUE(s);
  const HostTensor x = floats({100}, ramp(100));
  std::vector<float> y(100);
  auto r = s->run({{{.name = "x", .host = &x}}},
                  {{{.name = "y", .host_output = std::as_writable_bytes(std::span(y))}}});
  ASSERT_OK(r.status());
  EXPECT_EQ(y[99], 100.0F);
  auto small =
      s->run({{{.name = "x", .host = &x}}},
             {{{.name = "y", .host_output = std::as_writable_bytes(std::span(y)).first(396)}}});
  EXPECT_EQ(small.status().code(), Code::InvalidInput);
  EXPECT_NE(small.status().message().find("output 'y' needs 400 bytes"), std::string::npos)
      << small.status().message();
}

TEST_P(SessionContract, AnIndexOutOfRangeIsAnErrorThatNamesItsNode) {
  PlanWriter w;
  const Expr n = w.symbol("n", 1, 0), size = w.symbol("size", 0, 0);
  const auto data = w.input("data", DType::F32, {size}), index = w.input("index", DType::I32, {n});
  const auto y = w.output("y", DType::F32, {n});
  const auto k = w.kernel(gather_kernel());
  w.launch(k, {data, index, y}, {n, size}, "Gather_7");
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  const HostTensor d = floats({4}, {10, 20, 30, 40});
  const HostTensor good = ints({3}, {3, 0, 2}), bad = ints({3}, {0, 4, 1});
  for (int round = 0; round < 2; ++round) {
    auto r = s->run({{{.name = "data", .host = &d}, {.name = "index", .host = &bad}}});
    EXPECT_EQ(r.status().code(), Code::InvalidInput);
    EXPECT_NE(r.status().message().find("Gather_7"), std::string::npos) << r.status().message();
    EXPECT_NE(r.status().message().find("index"), std::string::npos);
    auto ok = s->run({{{.name = "data", .host = &d}, {.name = "index", .host = &good}}});
    ASSERT_OK(ok.status());
    EXPECT_EQ(values((*ok)[0]), (std::vector<float>{40, 10, 30}));
  }
}

TEST_P(SessionContract, WeightsAreHashedAndUploaded) {
  PlanWriter w;
  const auto index = w.input("index", DType::I32, {Expr(3)});
  const auto table = w.weight("table", floats({4}, {1, 2, 3, 4}));
  const auto y = w.output("y", DType::F32, {Expr(3)});
  w.launch(w.kernel(gather_kernel()), {table, index, y}, {Expr(3), Expr(4)});
  auto package = w.package();
  auto device = open();
  auto s = session(package, device);
  ASSERT_TRUE(s);
  const HostTensor i = ints({3}, {2, 2, 1});
  auto r = s->run({{{.name = "index", .host = &i}}});
  ASSERT_OK(r.status());
  EXPECT_EQ(values((*r)[0]), (std::vector<float>{3, 3, 2}));

  auto damaged = std::make_shared<package::Package>(*package);
  damaged->weight_hashes[0] ^= 1;
  auto bad = Session::create(damaged, device);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::CorruptPackage);
  EXPECT_NE(bad.status().message().find("'table'"), std::string::npos) << bad.status().message();
}

TEST_P(SessionContract, HostCallsRunBetweenRecordings) {
  PlanWriter w;
  const Expr n = w.symbol("n", 0, 0);
  const auto x = w.input("x", DType::F32, {n});
  const auto y = w.output("y", DType::F32, {n});
  const auto minus = w.kernel(affine_kernel("minus", 1.0F, -5.0F));
  const auto twice = w.kernel(affine_kernel("twice", 2.0F, 0.0F));
  const auto a = w.arena("a", DType::F32, {n}), b = w.arena("b", DType::F32, {n});
  w.launch(minus, {x, a}, {n});
  w.host("Relu", {a}, {b});
  w.launch(twice, {b, y}, {n});
  auto package = w.package();
  auto device = open();
  auto s = session(package, device);
  ASSERT_TRUE(s);
  const HostTensor in = floats({10}, ramp(10));
  auto r = s->run({{{.name = "x", .host = &in}}});
  ASSERT_OK(r.status());
  EXPECT_EQ(values((*r)[0]), (std::vector<float>{0, 0, 0, 0, 0, 0, 2, 4, 6, 8}));
  if (on_host()) return;
  EXPECT_EQ(s->stats().submits, plan::count(s->plan()).submits);
  EXPECT_EQ(s->stats().submits, 2U);

  auto refused = Session::create(package, device, {.fullgraph = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::Unsupported);
  EXPECT_NE(refused.status().message().find("Relu_node"), std::string::npos);
}

TEST_P(SessionContract, SizesThatAHostCallTellsReachLaterLaunches) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(8)});
  w.io.symbols.push_back({"found", 0, 1000, 1});
  w.io.sources.push_back({SymbolSource::Kind::HostOutput, 0, 1});
  const Expr found = Expr::symbol(0);
  const auto where = w.arena("where", DType::I64, {Expr(1), found});
  w.plan.buffers.back().kind = plan::BufferKind::Growable;
  const auto as_float = w.arena("as_float", DType::F32, {Expr(1), found});
  w.plan.buffers.back().kind = plan::BufferKind::Growable;
  const auto y = w.output("y", DType::F32, {Expr(1), found});
  w.host("NonZero", {x}, {where});
  AttrMap to_float;
  to_float.set("to", int64_t{1});
  w.host("Cast", {where}, {as_float}, to_float);
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 100.0F)), {as_float, y}, {found});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  const HostTensor three = floats({8}, {0, 1, 0, 0, 5, 0, 0, 2}), none = floats({8}, ramp(8, 0));
  for (int round = 0; round < 2; ++round) {
    auto r = s->run({{{.name = "x", .host = &three}}});
    ASSERT_OK(r.status());
    EXPECT_EQ(values((*r)[0]), (std::vector<float>{101, 104, 107}));
    r = s->run({{{.name = "x", .host = &none}}});
    ASSERT_OK(r.status());
    EXPECT_EQ((*r)[0].dims(), (std::vector<int64_t>{1, 0}));
  }
}

TEST_P(SessionContract, OutputsThatAreInputsWeightsOrOtherOutputsAreCopied) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(2)});
  const auto c = w.weight("c", floats({2}, {8, 9}));
  const auto y = w.output("y", DType::F32, {Expr(2)});
  const auto same = w.output("same", DType::F32, {Expr(2)});
  const auto again = w.output("again", DType::F32, {Expr(2)});
  const auto constant = w.output("constant", DType::F32, {Expr(2)});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 1.0F)), {x, y}, {Expr(2)});
  HostTensor words(DType::String, {2});
  words.mutable_strings() = {"one", ""};
  const auto names = w.weight("words", words);
  const auto strings = w.output("strings", DType::String, {Expr(2)});
  w.plan.aliases = {{x, same}, {y, again}, {c, constant}, {names, strings}};
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  const HostTensor in = floats({2}, {3, 4});
  auto r = s->run({{{.name = "x", .host = &in}}});
  ASSERT_OK(r.status());
  EXPECT_EQ(values((*r)[0]), (std::vector<float>{4, 5}));
  EXPECT_EQ(values((*r)[1]), (std::vector<float>{3, 4}));
  EXPECT_EQ(values((*r)[2]), (std::vector<float>{4, 5}));
  EXPECT_EQ(values((*r)[3]), (std::vector<float>{8, 9}));
  EXPECT_EQ((*r)[4].strings(), words.strings());
}

TEST_P(SessionContract, OutputsInDeviceMemoryMayBeCopies) {
  PlanWriter w;
  const auto x = w.input("x", DType::F32, {Expr(2)});
  const auto y = w.output("y", DType::F32, {Expr(2)});
  const auto same = w.output("same", DType::F32, {Expr(2)});
  w.launch(w.kernel(affine_kernel("plus", 1.0F, 1.0F)), {x, y}, {Expr(2)});
  w.plan.aliases = {{x, same}};
  auto device = open();
  auto s = session(w.package(), device);
  ASSERT_TRUE(s);
  const HostTensor in = floats({2}, {3, 4});
  auto out = device->allocate(64, MemoryUse::Device);
  ASSERT_TRUE(out.ok());
  ASSERT_OK(
      s->run({{{.name = "x", .host = &in}}}, {{{.name = "same", .device = out->get()}}}).status());
  HostTensor got(DType::F32, {2});
  ASSERT_OK(device->download(**out, 0, got.mutable_bytes()));
  EXPECT_EQ(values(got), (std::vector<float>{3, 4}));
}

TEST_P(SessionContract, ImpossibleSizesNameTheTensor) {
  PlanWriter w;
  const Expr n = w.symbol("n", 0, 0);
  const auto x = w.input("x", DType::F32, {n});
  const auto wide = w.arena("wide", DType::F32, {n * 2});
  const auto y = w.output("y", DType::F32, {n});
  const uint32_t plus = w.kernel(affine_kernel("plus", 1, 1));
  w.launch(plus, {x, wide}, {n});
  w.launch(plus, {wide, y}, {n});
  auto s = session(w.package(), open());
  ASSERT_TRUE(s);
  constexpr uint64_t kElements = (uint64_t{1} << 31) - 1;
  const std::byte first{};  // none is read
  const HostTensor huge =
      HostTensor::borrow(DType::F32, {int64_t{kElements}}, {&first, kElements * 4}, nullptr);
  auto r = s->run({{{.name = "x", .host = &huge}}});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::Unsupported);
  const std::string message = r.status().message();
  EXPECT_TRUE(message.find("'x'") != std::string::npos ||
              message.find("'wide'") != std::string::npos)
      << message;
  const HostTensor small = floats({3}, {1, 2, 3});
  ASSERT_OK(s->run({{{.name = "x", .host = &small}}}).status());
}

TEST_P(SessionContract, TimestampsAndRecordingAgain) {
  SessionOptions options;
  options.timestamps = true;
  options.replay = false;
  auto s = session(chain(3, 5000, false), open(), options);
  ASSERT_TRUE(s);
  const HostTensor x = floats({5000}, ramp(5000));
  RunStats stats;
  for (int i = 0; i < 2; ++i) ASSERT_OK(s->run({{{.name = "x", .host = &x}}}, {}, &stats).status());
  EXPECT_EQ(stats.kernel_us.size(), 3U);
  EXPECT_EQ(s->stats().recordings, 2U);
}

REPRISE_ON_ALL_DEVICES(SessionContract);

}  // namespace
}  // namespace reprise::test
