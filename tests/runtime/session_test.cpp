// Sessions without a GPU: variants, bindings and their messages, staging, the host path.
#include <gtest/gtest.h>

#include "fake_device.h"
#include "runtime/plan/bind.h"
#include "runtime/session/session.h"
#include "tests/support/buffer_ids.h"

namespace reprise::test {
namespace {

constexpr int64_t kMax = (int64_t{1} << 31) - 1;

HostTensor floats(std::vector<int64_t> dims, const std::vector<float>& v) {
  return HostTensor::from(DType::F32, std::move(dims), v);
}
std::vector<float> values_of(const HostTensor& t) {
  return {t.data<float>(), t.data<float>() + t.count()};
}

// x [batch, 4] -> t = x + w -> y = t * 2; and the same on the host.
struct Model {
  package::Package package;
  plan::Plan& plan() { return package.variants[0].plan; }

  Model() {
    package.model_name = "m";
    const Expr batch = Expr::symbol(0);
    package.io.symbols = {{"batch", 0, 64, 2}};
    package.io.sources = {{SymbolSource::Kind::InputDim, 0, 0}};
    package.io.inputs = {{"x", DType::F32, {batch, Expr(4)}}};
    package.io.outputs = {{"y", DType::F32, {batch, Expr(4)}}};
    package.weights = {floats({1, 4}, {1, 2, 3, 4})};
    package.weight_hashes = {package::hash_bytes(package.weights[0].bytes())};
    package.variants.resize(1);
    package.variants[0].name = "small";
    fill(plan(), batch, false);
    fill(package.host_plan, batch, true);
  }

  void fill(plan::Plan& p, const Expr& batch, bool host) {
    p.weights.resize(1);
    p.weights[0].name = "w";
    const Shape shape{batch, Expr(4)};
    p.buffers = {{"x", plan::BufferKind::Input, 0, DType::F32, shape},
                 {"w", plan::BufferKind::Weight, 0, DType::F32, {Expr(1), Expr(4)}},
                 {"t", plan::BufferKind::Arena, -1, DType::F32, shape},
                 {"y", plan::BufferKind::Output, 0, DType::F32, shape}};
    p.steps.resize(2);
    if (host) {
      for (size_t s = 0; s < 2; ++s) {
        plan::HostCall call;
        call.op = "Add";
        call.node = "add_" + std::to_string(s);
        call.inputs = s == 0 ? buffers(0, 1) : buffers(2, 2);
        call.outputs = buffers(s == 0 ? 2 : 3);
        p.steps[s].what = call;
      }
    } else {
      for (uint32_t s = 0; s < 2; ++s) {
        plan::KernelCode code;
        code.name = s == 0 ? "add" : "twice";
        code.n_buffers = s == 0 ? 3 : 2;
        code.n_scalars = 1;
        p.kernels.push_back(code);
        plan::Launch l;
        l.kernel = s;
        l.grid = {Expr::ceildiv(batch * 4, 64), Expr(1), Expr(1)};
        l.buffers = s == 0 ? buffers(0, 1, 2) : buffers(2, 3);
        l.writes.assign(l.buffers.size(), false);
        l.writes.back() = true;
        l.scalars = {batch * 4};
        l.nodes = {"node_" + std::to_string(s)};
        p.steps[s].what = l;
      }
    }
    plan::compute_hazards(p);
  }
  std::shared_ptr<const package::Package> share() const {
    return std::make_shared<package::Package>(package);
  }
};

std::map<std::string, FakeKernelFunction> kernels() {
  return {{"add",
           [](const FakeLaunch& l) {
             for (int i = 0; i < l.scalar(3, 0); ++i)
               l.buffer(2)[i] = l.buffer(0)[i] + l.buffer(1)[i % 4];
           }},
          {"twice", [](const FakeLaunch& l) {
             for (int i = 0; i < l.scalar(2, 0); ++i) {
               l.buffer(1)[i] = 2 * l.buffer(0)[i];
               if (l.buffer(0)[i] == 1000) l.set_error(3);
             }
           }}};
}

std::shared_ptr<FakeDevice> fake_session(bool mapped) {
  return std::make_shared<FakeDevice>(mapped, kernels());
}

std::unique_ptr<Session> make(const Model& m, std::shared_ptr<Device> device,
                              const SessionOptions& options = {}) {
  auto s = Session::create(m.share(), std::move(device), options);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

class Sessions : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Device> device() const {
    return GetParam() == "host" ? nullptr
                                : std::shared_ptr<Device>(fake_session(GetParam() == "mapped"));
  }
  // The error of a run with these inputs.
  static Status fails(Session& s, const std::vector<Binding>& inputs,
                      const std::vector<Binding>& outputs = {}) {
    const Status status = s.run(inputs, outputs).status();
    EXPECT_FALSE(status.ok());
    return status;
  }
};

void expect_message(const Status& s, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(static_cast<int>(s.code()), static_cast<int>(code));
  for (const std::string& part : parts)
    EXPECT_NE(s.message().find(part), std::string::npos) << "'" << part << "' in: " << s.message();
}

TEST_P(Sessions, ComputeTheSameForEverySize) {
  auto s = make(Model(), device());
  ASSERT_TRUE(s);
  for (const int64_t batch : {2, 8, 0, 4, 64}) {
    std::vector<float> v(static_cast<size_t>(batch * 4));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    const HostTensor x = floats({batch, 4}, v);
    auto y = s->run({{{.name = "x", .host = &x}}});
    ASSERT_TRUE(y.ok()) << y.status().message();
    ASSERT_EQ((*y)[0].dims(), (std::vector<int64_t>{batch, 4}));
    for (size_t i = 0; i < v.size(); ++i)
      EXPECT_EQ(values_of((*y)[0])[i], 2 * (v[i] + static_cast<float>(i % 4 + 1)));
  }
}

TEST_P(Sessions, BindingErrorsNameTheTensor) {
  auto s = make(Model(), device());
  ASSERT_TRUE(s);
  const HostTensor good = floats({2, 4}, std::vector<float>(8)),
                   odd = floats({3, 4}, std::vector<float>(12)),
                   wide = floats({2, 5}, std::vector<float>(10)),
                   many = floats({66, 4}, std::vector<float>(264)),
                   flat = floats({8}, std::vector<float>(8));
  const HostTensor whole(DType::I32, {2, 4});
  expect_message(fails(*s, {}), Code::InvalidInput, {"input 'x'", "missing"});
  expect_message(fails(*s, {{.name = "z", .host = &good}}), Code::InvalidInput, {"'z'", "'x'"});
  expect_message(fails(*s, {{.name = "x", .host = &good}, {.name = "x", .host = &good}}),
                 Code::InvalidInput, {"'x'", "twice"});
  expect_message(fails(*s, {{.name = "x"}}), Code::InvalidInput, {"'x'", "neither"});
  expect_message(fails(*s, {{.name = "x", .host = &whole}}), Code::InvalidInput,
                 {"'x'", "int32[2,4]", "expected float32"});
  expect_message(fails(*s, {{.name = "x", .host = &flat}}), Code::InvalidInput,
                 {"'x'", "rank 1", "expected rank 2"});
  expect_message(fails(*s, {{.name = "x", .host = &wide}}), Code::InvalidInput,
                 {"'x'", "dimension 1 is 5, expected 4"});
  expect_message(fails(*s, {{.name = "x", .host = &many}}), Code::InvalidInput,
                 {"'x'", "'batch'", "66", "0 to 64"});
  expect_message(fails(*s, {{.name = "x", .host = &odd}}), Code::InvalidInput,
                 {"'x'", "'batch'", "multiple of 2"});
  std::array<std::byte, 8> small{};
  expect_message(fails(*s, {{.name = "x", .host = &good}}, {{.name = "y", .host_output = small}}),
                 Code::InvalidInput, {"output 'y'", "32 bytes", "8"});
  expect_message(fails(*s, {{.name = "x", .host = &good}}, {{.name = "x", .host_output = small}}),
                 Code::InvalidInput, {"output 'x'", "'y'"});
  EXPECT_TRUE(s->run({{{.name = "x", .host = &good}}}).ok());
}

TEST_P(Sessions, GuardsBetweenDimensions) {
  Model m;
  m.package.io.guards = {{DimGuard::Kind::Equal, Expr::symbol(0), Expr(6), "MatMul_3", "", ""}};
  auto s = make(m, device());
  ASSERT_TRUE(s);
  const HostTensor six = floats({6, 4}, std::vector<float>(24)),
                   two = floats({2, 4}, std::vector<float>(8));
  EXPECT_TRUE(s->run({{{.name = "x", .host = &six}}}).ok());
  expect_message(fails(*s, {{.name = "x", .host = &two}}), Code::InvalidInput,
                 {"'MatMul_3'", "batch", "2"});
  m.package.io.guards = {{DimGuard::Kind::AtLeast, Expr::symbol(0) + 1, Expr(5), "Conv_3",
                          "the padded input", "the window"}};
  s = make(m, device());
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->run({{{.name = "x", .host = &six}}}).ok());
  expect_message(fails(*s, {{.name = "x", .host = &two}}), Code::InvalidInput,
                 {"node 'Conv_3': the padded input is 3 (batch + 1), where 'batch' is 2",
                  "and the window is 5; the first must not be smaller"});
}

TEST_P(Sessions, DamagedWeightsAreNamed) {
  Model m;
  m.package.weight_hashes[0] += 1;
  auto s = Session::create(m.share(), device());
  ASSERT_FALSE(s.ok());
  expect_message(s.status(), Code::CorruptPackage, {"weight 'w'", "checksum"});
  m.package.weights[0] = floats({4}, {1, 2, 3, 4});
  m.package.weight_hashes = {};
  m.package.weights[0] = floats({3}, {1, 2, 3});
  s = Session::create(m.share(), device());
  ASSERT_FALSE(s.ok());
  expect_message(s.status(), Code::CorruptPackage, {"'w'", "float32[3]", "float32[1,4]"});
}

INSTANTIATE_TEST_SUITE_P(All, Sessions, testing::Values("host", "mapped", "staged"),
                         [](const auto& which) { return which.param; });

TEST(StagedSession, CopiesArePartOfTheRecording) {
  auto device = fake_session(false);
  auto s = make(Model(), device);
  ASSERT_TRUE(s);
  const uint64_t loading = device->transfers;
  const HostTensor x = floats({4, 4}, std::vector<float>(16, 1.0F));
  RunStats stats;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(s->run({{{.name = "x", .host = &x}}}, {}, &stats).ok());
  EXPECT_EQ(device->transfers, loading);
  EXPECT_EQ(device->counters().submits, 3U);
  EXPECT_EQ(device->counters().recordings, 1U);
  EXPECT_EQ(device->counters().copies_recorded, 2U);
  EXPECT_EQ(stats.bytes_copied, 128U);
  EXPECT_EQ(s->stats().copies, 6U);

  // Device memory instead: recorded once more, without copies; and back.
  auto in = device->allocate(64, MemoryUse::Device), out = device->allocate(64, MemoryUse::Device);
  ASSERT_TRUE(device->upload(**in, 0, x.bytes()).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(s->run({{{.name = "x", .device = in->get(), .dims = {4, 4}}}},
                       {{{.name = "y", .device = out->get()}}}, &stats)
                    .ok());
    EXPECT_EQ(stats.bytes_copied, 0U);
  }
  EXPECT_EQ(device->counters().recordings, 2U);
  EXPECT_EQ(device->counters().copies_recorded, 2U);
  // A larger size needs larger staging memory, hence another recording; a smaller one none.
  const HostTensor large = floats({8, 4}, std::vector<float>(32, 1.0F));
  for (const HostTensor* t : {&large, &x}) {
    auto y = s->run({{{.name = "x", .host = t}}});
    ASSERT_TRUE(y.ok());
    EXPECT_EQ(values_of((*y)[0])[0], 4.0F);
    EXPECT_EQ(values_of((*y)[0]).back(), 10.0F);
  }
  EXPECT_EQ(device->counters().recordings, 3U);
}

TEST(DeviceSession, CountsAreThoseOfThePlan) {
  auto device = fake_session(true);
  auto s = make(Model(), device);
  ASSERT_TRUE(s);
  const HostTensor x = floats({4, 4}, std::vector<float>(16));
  ASSERT_TRUE(s->run({{{.name = "x", .host = &x}}}).ok());
  const plan::PlanCounts expected = plan::count(s->plan());
  EXPECT_EQ(expected.dispatches, 2U);
  EXPECT_EQ(expected.barriers, 2U);
  EXPECT_EQ(device->counters().dispatches_recorded, expected.dispatches);
  EXPECT_EQ(device->counters().barriers_recorded, expected.barriers);
  EXPECT_EQ(s->stats().barriers, expected.barriers);
  EXPECT_EQ(s->stats().submits, expected.submits);
}

TEST(DeviceSession, KernelErrorsNameTheLaunch) {
  auto s = make(Model(), fake_session(true));
  ASSERT_TRUE(s);
  const HostTensor bad = floats({2, 4}, {999, 0, 0, 0, 0, 0, 0, 0}),
                   good = floats({2, 4}, std::vector<float>(8));
  expect_message(s->run({{{.name = "x", .host = &bad}}}).status(), Code::InvalidInput,
                 {"kernel 'twice'", "'node_1'", "division by zero"});
  EXPECT_TRUE(s->run({{{.name = "x", .host = &good}}}).ok());
}

TEST(DeviceSession, TheFirstVariantThatFitsIsTaken) {
  Model m;
  package::Variant wide = m.package.variants[0];
  wide.name = "wide";
  wide.predicate.needs_float16 = true;
  m.package.variants.insert(m.package.variants.begin(), wide);
  auto device = fake_session(true);
  auto s = make(m, device);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), "small");
  ASSERT_EQ(s->variant_notes().size(), 1U);
  EXPECT_EQ(s->variant_notes()[0].find("wide: "), 0U) << s->variant_notes()[0];
  device->mutable_info().facts.float16 = true;
  s = make(m, device);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), "wide");
  device->mutable_info().facts.api = Api::Cuda;
  const auto none = Session::create(m.share(), device);
  ASSERT_FALSE(none.ok());
  expect_message(none.status(), Code::IncompatiblePackage, {"fake:0", "wide", "small"});
}

TEST(DeviceSession, PtxInPlaceOfAnImageIsSaid) {
  Model m;
  package::Variant& v = m.package.variants[0];
  v.predicate.api = Api::Cuda;
  v.predicate.cuda_arch = "sm_90";
  package::Variant ptx = v;
  ptx.name = "cuda-compute_80";
  ptx.predicate.cuda_arch = "compute_80";
  m.package.variants.push_back(ptx);
  auto device = fake_session(true);
  device->mutable_info().facts.api = Api::Cuda;
  device->mutable_info().facts.cuda_arch = 90;
  auto s = make(m, device);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), "small");
  EXPECT_TRUE(s->variant_notes().empty());
  device->mutable_info().facts.cuda_arch = 100;
  s = make(m, device);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->variant(), "cuda-compute_80");
  ASSERT_EQ(s->variant_notes().size(), 2U);
  EXPECT_EQ(s->variant_notes()[0], "small: is compiled for sm_90, the device is sm_100");
  const std::string& note = s->variant_notes()[1];
  EXPECT_EQ(note.find("cuda-compute_80: falls back to PTX compute_80: no image for sm_100;"), 0U)
      << note;
  device->mutable_info().facts.cuda_arch = 75;
  const auto none = Session::create(m.share(), device);
  ASSERT_FALSE(none.ok());
  expect_message(none.status(), Code::IncompatiblePackage,
                 {"sm_90", "compute_80", "--targets cuda:sm_75"});
}

TEST(DeviceSession, SizesBeyondTheDeviceNameTheTensorOrLaunch) {
  auto device = fake_session(true);
  device->mutable_info().facts.max_buffer_bytes = 256;
  auto s = make(Model(), device);
  ASSERT_TRUE(s);
  const HostTensor fits = floats({16, 4}, std::vector<float>(64)),
                   large = floats({18, 4}, std::vector<float>(72));
  EXPECT_TRUE(s->run({{{.name = "x", .host = &fits}}}).ok());
  expect_message(s->run({{{.name = "x", .host = &large}}}).status(), Code::Unsupported,
                 {"'x'", "288", "256"});
  EXPECT_TRUE(s->run({{{.name = "x", .host = &fits}}}).ok());

  Model m;
  m.package.io.symbols[0].max = kMax;
  auto& launch = std::get<plan::Launch>(m.plan().steps[1].what);
  launch.scalars = {Expr::symbol(0) * Expr(1LL << 30)};
  s = make(m, fake_session(true));
  ASSERT_TRUE(s);
  expect_message(s->run({{{.name = "x", .host = &fits}}}).status(), Code::Unsupported,
                 {"kernel 'twice'", "32 bits"});
  launch.scalars = {Expr::symbol(0)};
  launch.grid[0] = Expr::symbol(0) * Expr(10000);
  s = make(m, fake_session(true));
  ASSERT_TRUE(s);
  expect_message(s->run({{{.name = "x", .host = &fits}}}).status(), Code::Unsupported,
                 {"kernel 'twice'", "160000", "65535"});
}

}  // namespace
}  // namespace reprise::test
