// Runs that fail their checks: the states are as they were before, on every device.
#include <algorithm>
#include <cstdlib>

#include "codegen/compile/compiler.h"
#include "contract.h"
#include "tests/support/kept_text.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

/// A step that checks the rows i and the columns t. The updates of m and w need no index, that of
/// the table checks i itself.
constexpr const char* kTraining = R"(graph training
input table: float32[6,4]
input w: float32[4]
input m: float32[4]
input count: int64[]
input i: int64[3,1]
input t: int64[3,1]
const decay: float32[]{0.75}
const one: int64[]{1}
rows: float32[3,4] = GatherND(table, i) @13
scaled: float32[3,4] = Mul(rows, w) @14
picked: float32[3,1] = GatherElements<axis=1>(scaled, t) @13
loss: float32[] = ReduceMean<keepdims=0>(picked) @13
mean: float32[4] = ReduceMean<axes=[0], keepdims=0>(rows) @13
step: float32[4] = Mul(loss, mean) @14
w_next: float32[4] = Sub(w, step) @14
m_next: float32[4] = Mul(m, decay) @14
table_next: float32[6,4] = ScatterND<reduction="add">(table, i, scaled) @18
count_next: int64[] = Add(count, one) @14
output loss
output table_next
output w_next
output m_next
output count_next
)";

const std::vector<std::string> kNames{"table", "w", "m", "count"};

std::shared_ptr<package::Package> training_package(const std::shared_ptr<Device>& device) {
  auto g = graph::parse(kTraining);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  for (const std::string& name : kNames) options.states.push_back({name, name + "_next"});
  options.states[0].initial = floats({6, 4}, ramp(24));
  options.states[1].initial = floats({4}, {0.5F, -0.25F, 0.125F, 1});
  options.states[2].initial = floats({4}, {1, 2, 3, 4});
  if (device) {
    const DeviceInfo& info = device->info();
    options.targets = {info.id.substr(0, info.id.find(':'))};
    compile_for(info, options);
  }
  if (const char* path = std::getenv("REPRISE_NVRTC")) options.nvrtc = path;
  options.keep_source = true;
  auto p = compile(*std::move(g), options);
  const bool cuda = device && device->info().facts.api == Api::Cuda;
  if (!p.ok() && cuda && p.status().code() == Code::Unsupported) return nullptr;  // no NVRTC
  EXPECT_TRUE(p.ok()) << p.status().message();
  if (!p.ok()) return nullptr;
  for (const package::Variant& v : p->variants)
    for (const plan::KernelCode& k : v.plan.kernels)
      if (cuda) keep_text(k);
  return std::make_shared<package::Package>(*std::move(p));
}

struct Batch {
  HostTensor i, t;

  Batch(const std::vector<int64_t>& rows, const std::vector<int64_t>& columns)
      : i(HostTensor::from<int64_t>(DType::I64, {3, 1}, rows)),
        t(HostTensor::from<int64_t>(DType::I64, {3, 1}, columns)) {}
  std::vector<Binding> bindings() const {
    return {{.name = "i", .host = &i}, {.name = "t", .host = &t}};
  }
};

const Batch& good() {
  static const Batch batch({0, 5, 2}, {3, 0, 1});
  return batch;
}

std::vector<HostTensor> states_of(Session& session) {
  std::vector<HostTensor> out;
  for (const std::string& name : kNames) {
    auto value = session.read_state(name);
    EXPECT_TRUE(value.ok()) << value.status().message();
    out.push_back(value.ok() ? *std::move(value) : HostTensor());
  }
  return out;
}

void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (size_t s = 0; s < kNames.size(); ++s)
    EXPECT_TRUE(std::ranges::equal(a[s].bytes(), b[s].bytes())) << kNames[s];
}

class FailedStatesContract : public Contract {};

TEST_P(FailedStatesContract, AreAsBefore) {
  const auto device = open();
  const auto package = training_package(device);
  if (!package) GTEST_SKIP() << "NVRTC is not installed";
  for (const SessionOptions& options : {SessionOptions{}, SessionOptions{.isolate_tensors = true},
                                        SessionOptions{.replay = false}}) {
    const auto tried = session(package, device, options), other = session(package, device, options);
    ASSERT_TRUE(tried && other);
    for (const Batch& bad : {Batch({0, 6, 2}, {3, 0, 1}), Batch({0, 5, 2}, {3, 0, 4}),
                             Batch({-7, 5, 2}, {3, -5, 1})}) {
      ASSERT_OK(tried->run(good().bindings()).status());
      ASSERT_OK(other->run(good().bindings()).status());
      const std::vector<HostTensor> before = states_of(*tried);
      EXPECT_EQ(tried->run(bad.bindings()).status().code(), Code::InvalidInput);
      expect_same(states_of(*tried), before);
      EXPECT_EQ(tried->run(bad.bindings()).status().code(), Code::InvalidInput);
      const auto mine = tried->run(good().bindings()), others = other->run(good().bindings());
      ASSERT_OK(mine.status());
      ASSERT_OK(others.status());
      EXPECT_EQ((*mine)[0].data<float>()[0], (*others)[0].data<float>()[0]);
      expect_same(states_of(*tried), states_of(*other));
    }
  }
}

TEST_P(FailedStatesContract, AreUpdatedInPlaceWhereThatCanBeLeftOut) {
  const auto device = open();
  if (!device) GTEST_SKIP() << "the host has no plan of launches";
  const auto package = training_package(device);
  if (!package) GTEST_SKIP() << "NVRTC is not installed";
  for (const package::Variant& v : package->variants) {
    for (const plan::Buffer& b : v.plan.buffers) {
      const bool own = b.kind == plan::BufferKind::NextState;
      EXPECT_FALSE(own && (b.index == 1 || b.index == 2)) << v.name << ": " << b.name;
    }
    bool commits = false;
    for (const plan::Step& step : v.plan.steps) {
      const auto* launch = std::get_if<plan::Launch>(&step.what);
      commits = commits || (launch && launch->commits);
    }
    EXPECT_TRUE(commits) << v.name;
  }
}

/// As of packages that were compiled before launches could commit.
TEST_P(FailedStatesContract, HaveNoValueIfUpdatesDoNotCommit) {
  const auto device = open();
  if (!device) GTEST_SKIP() << "the host updates nothing in place";
  const auto package = training_package(device);
  if (!package) GTEST_SKIP() << "NVRTC is not installed";
  for (package::Variant& v : package->variants)
    for (plan::Step& step : v.plan.steps)
      if (auto* launch = std::get_if<plan::Launch>(&step.what)) launch->commits = false;
  const auto s = session(package, device);
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->run(Batch({0, 6, 2}, {3, 0, 1}).bindings()).ok());
  const Status next = s->run(good().bindings()).status();
  EXPECT_EQ(next.code(), Code::Usage);
  EXPECT_NE(next.message().find("an earlier run failed while it updated the state"),
            std::string::npos)
      << next.message();
  EXPECT_EQ(s->read_state("m").status().code(), Code::Usage);
  ASSERT_OK(s->reset_states());
  ASSERT_OK(s->run(good().bindings()).status());
}

REPRISE_ON_ALL_DEVICES(FailedStatesContract);

}  // namespace
}  // namespace reprise::test
