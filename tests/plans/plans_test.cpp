// Plans for some sizes: which a package gets, how sessions choose them, and that they compute what
// the host does, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/plan_requests.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

/// Weights are the inputs from `w` on, which become constants.
constexpr const char* kMlp = R"(graph mlp
input x: float32[batch,seq,40]
input w: float32[40,72]
input w2: float32[72,24]
h = MatMul(x, w) @13
r = Relu(h) @14
y = MatMul(r, w2) @13
output y
)";

/// A layer with a cache: grouped heads, new keys after those of the input.
constexpr const char* kLayer = R"(graph layer
input x: float32[1,seq,32]
input pk: float32[1,2,past,16]
input pv: float32[1,2,past,16]
input mask: float32[1,1,seq,past+seq]
input w: float32[32,64]
input wk: float32[32,32]
input wv: float32[32,32]
input wo: float32[64,32]
const heads: int64[4]{1, -1, 4, 16}
const groups: int64[4]{1, -1, 2, 16}
const rows: int64[3]{1, -1, 64}
q0 = MatMul(x, w) @13
q1 = Reshape(q0, heads) @14
q = Transpose<perm=[0, 2, 1, 3]>(q1) @13
k0 = MatMul(x, wk) @13
k1 = Reshape(k0, groups) @14
k = Transpose<perm=[0, 2, 1, 3]>(k1) @13
v0 = MatMul(x, wv) @13
v1 = Reshape(v0, groups) @14
v = Transpose<perm=[0, 2, 1, 3]>(v1) @13
(a, nk, nv) = Attention(q, k, v, mask, pk, pv) @23
a1 = Transpose<perm=[0, 2, 1, 3]>(a) @13
a2 = Reshape(a1, rows) @14
o = MatMul(a2, wo) @13
y = Add(o, x) @14
output y
output nk
output nv
)";

/// Two states that change places in each run, and one that collects the rows of all runs.
constexpr const char* kCollect = R"(graph collect
input x: float32[seq,8]
input sum: float32[8]
input p: float32[8]
input q: float32[8]
input w: float32[8,8]
const axes: int64[1]{0}
h = MatMul(x, w) @13
s = ReduceSum<keepdims=0>(h, axes) @13
sum_next = Add(sum, s) @14
y0 = Add(h, sum) @14
y = Add(y0, p) @14
output y
output sum_next
output q
output p
)";

HostTensor random_tensor(std::vector<int64_t> dims, std::mt19937& rng) {
  HostTensor t(DType::F32, std::move(dims));
  std::uniform_real_distribution<float> values(-1, 1);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = values(rng);
  return t;
}

std::unique_ptr<graph::Graph> model(const char* text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return nullptr;
  std::mt19937 rng(3);
  graph::Graph& m = **g;
  std::vector<graph::ValueId> kept;
  for (const graph::ValueId v : std::vector(m.inputs)) {
    if (m.value(v).name[0] != 'w') {
      kept.push_back(v);
      continue;
    }
    const std::string name = m.value(v).name + "_data";
    m.replace_uses(v, m.add_constant(name, random_tensor(static_dims(m.value(v).shape), rng)));
  }
  m.inputs = std::move(kept);
  return std::move(*g);
}

Result<std::shared_ptr<package::Package>> compiled(const char* text,
                                                   const std::vector<std::string>& plans,
                                                   CompileOptions options = {}) {
  RP_ASSIGN(options.plans, parse_plans(plans));
  RP_ASSIGN(package::Package p, compile(model(text), options));
  return std::make_shared<package::Package>(std::move(p));
}

const std::vector<std::string> kThree{"seq=1", "seq=2..16", "seq=17.."};

uint32_t plan_of(int64_t seq) {
  return seq == 1 ? 1 : seq >= 2 && seq <= 16 ? 2 : 0;
}

/// Runs on the host and on a device, and compares.
void expect_same_runs(Session& host, Session& device, std::span<const Binding> inputs,
                      uint32_t plan, const std::string& what) {
  RunStats stats;
  const auto expected = host.run(inputs);
  const auto found = device.run(inputs, {}, &stats);
  ASSERT_TRUE(expected.ok()) << what << ": " << expected.status().message();
  ASSERT_TRUE(found.ok()) << what << ": " << found.status().message();
  if (device.compiled() != nullptr) {
    EXPECT_EQ(stats.plan, plan) << what;
  }
  for (size_t o = 0; o < expected->size(); ++o) {
    const HostTensor &a = (*expected)[o], &b = (*found)[o];
    ASSERT_EQ(a.dims(), b.dims()) << what;
    for (int64_t i = 0; i < a.count(); ++i)
      ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4F) << what << " element " << i;
  }
}

std::vector<std::string> device_ids() {
  std::vector<std::string> out;
  for (const DeviceInfo& info : list_devices())
    if (info.usable && info.facts.api == Api::Vulkan) out.push_back(info.id);
  return out;
}

class PlansOn : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Session> session(const std::shared_ptr<const package::Package>& p,
                                          const std::string& device,
                                          const SessionOptions& options = {}) {
    std::shared_ptr<Device> opened;
    if (device != "host") {
      auto found = open_device(device);
      EXPECT_TRUE(found.ok()) << found.status().message();
      if (!found.ok()) return nullptr;
      opened = found->device;
    }
    auto made = Session::create(p, opened, options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }
};

TEST_P(PlansOn, SizesInRandomOrderGiveTheHostsResults) {
  const auto p = compiled(kMlp, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const auto host = session(*p, "host"), device = session(*p, GetParam());
  ASSERT_TRUE(host && device);
  std::mt19937 rng(11);
  for (int run = 0; run < 24; ++run) {
    const int64_t sizes[] = {0, 1, 1, 2, 5, 16, 17, 40, 70};
    const int64_t seq = sizes[rng() % std::size(sizes)], batch = 1 + rng() % 3;
    const HostTensor x = random_tensor({batch, seq, 40}, rng);
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    expect_same_runs(*host, *device, inputs, plan_of(seq),
                     "run " + std::to_string(run) + ", seq " + std::to_string(seq));
  }
  EXPECT_EQ(device->stats().runs, 24U);
}

TEST_P(PlansOn, AGeneratingModelStartsWithManyRowsAndGoesOnWithOne) {
  const auto p = compiled(kLayer, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const auto host = session(*p, "host"), device = session(*p, GetParam());
  ASSERT_TRUE(host && device);
  std::mt19937 rng(12);
  int64_t past = 0;
  for (const int64_t seq : {21, 1, 1, 3, 1, 18, 1}) {
    const HostTensor x = random_tensor({1, seq, 32}, rng);
    const HostTensor pk = random_tensor({1, 2, past, 16}, rng);
    const HostTensor pv = random_tensor({1, 2, past, 16}, rng);
    const HostTensor mask = random_tensor({1, 1, seq, past + seq}, rng);
    const std::vector<Binding> inputs{{.name = "x", .host = &x},
                                      {.name = "pk", .host = &pk},
                                      {.name = "pv", .host = &pv},
                                      {.name = "mask", .host = &mask}};
    expect_same_runs(*host, *device, inputs, plan_of(seq), "past " + std::to_string(past));
    past += seq;
  }
}

TEST_P(PlansOn, PlansShareTheStates) {
  CompileOptions options;
  options.states = {{"sum", "sum_next"}, {"p", "q"}, {"q", "p"}};
  const auto p = compiled(kCollect, kThree, options);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const auto host = session(*p, "host"), device = session(*p, GetParam());
  ASSERT_TRUE(host && device);
  std::mt19937 rng(13);
  const HostTensor one = random_tensor({8}, rng);
  for (Session* s : {host.get(), device.get()}) ASSERT_TRUE(s->write_state("p", one).ok());
  for (const int64_t seq : {30, 1, 4, 1, 1, 17, 9, 1}) {
    const HostTensor x = random_tensor({seq, 8}, rng);
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    expect_same_runs(*host, *device, inputs, plan_of(seq), "seq " + std::to_string(seq));
    for (const char* state : {"sum", "p", "q"}) {
      const auto a = host->read_state(state), b = device->read_state(state);
      ASSERT_TRUE(a.ok() && b.ok());
      for (int64_t i = 0; i < a->count(); ++i)
        ASSERT_NEAR(a->data<float>()[i], b->data<float>()[i], 1e-4F) << state << " after " << seq;
    }
  }
}

TEST_P(PlansOn, PlansArePreparedWhenTheyAreNeededAndShareMemory) {
  const auto p = compiled(kMlp, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  std::vector<std::string> lines;
  SessionOptions options;
  options.log = [&](Severity, const std::string& line) { lines.push_back(line); };
  const auto s = session(*p, GetParam(), options);
  ASSERT_TRUE(s);
  std::mt19937 rng(14);
  const auto run = [&](int64_t seq) {
    const HostTensor x = random_tensor({1, seq, 40}, rng);
    EXPECT_TRUE(s->run(std::vector<Binding>{{.name = "x", .host = &x}}).ok());
  };
  const auto prepared = [&](const std::string& what) {
    return std::ranges::count_if(lines, [&](const std::string& line) {
      return line.find("prepares the plan for " + what) != std::string::npos;
    });
  };
  EXPECT_EQ(prepared("all other sizes"), 1);
  EXPECT_EQ(prepared("seq=1"), 0);
  run(500);
  const uint64_t one_plan = s->stats().device_bytes;
  for (const int64_t seq : {1, 3, 16, 1, 500}) run(seq);
  EXPECT_EQ(prepared("seq=1, asked for"), 1);
  EXPECT_EQ(prepared("seq=2..16, asked for"), 1);
  const uint64_t recordings = s->stats().recordings;
  for (const int64_t seq : {1, 3, 16, 1, 500}) run(seq);
  EXPECT_EQ(s->stats().recordings, recordings);
  // Blocks, inputs, outputs and weights in other forms; no intermediate tensors of 500 rows.
  EXPECT_LT(s->stats().device_bytes, one_plan + 100'000);
}

TEST_P(PlansOn, ABoundLimitsWhatIsRecorded) {
  const auto p = compiled(kMlp, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  SessionOptions options;
  options.max_in_flight = 1;
  options.max_recorded = 1;
  const auto s = session(*p, GetParam(), options);
  ASSERT_TRUE(s);
  std::mt19937 rng(15);
  for (const int64_t seq : {1, 3, 1, 3}) {
    const HostTensor x = random_tensor({1, seq, 40}, rng);
    ASSERT_TRUE(s->run(std::vector<Binding>{{.name = "x", .host = &x}}).ok());
  }
  EXPECT_EQ(s->stats().recordings, 4U);
}

TEST_P(PlansOn, KernelsOfAllPlansAreCheckedAndWarmedUp) {
  CompileOptions compile;
  compile.probes = true;
  const auto p = compiled(kMlp, kThree, compile);
  ASSERT_TRUE(p.ok()) << p.status().message();
  for (const package::Variant& v : (*p)->variants)
    for (const package::SizedPlan& plan : v.plans)
      EXPECT_EQ(plan.probes.size(), plan.plan.kernels.size());
  SessionOptions options;
  options.check_kernels = options.warm_up = true;
  int prepared = 0;
  options.log = [&](Severity, const std::string& line) {
    prepared += static_cast<int>(line.find("prepares the plan") != std::string::npos);
  };
  const auto s = session(*p, GetParam(), options);
  ASSERT_TRUE(s);
  EXPECT_EQ(prepared, 3);
}

TEST_P(PlansOn, APlanThatCannotBeLoadedIsNotUsed) {
  const auto p = compiled(kMlp, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  for (package::Variant& v : (*p)->variants)
    if (!v.plans.empty()) v.plans[0].stored.resize(1);  // code in a file, which there is not
  std::vector<std::string> warnings;
  SessionOptions options;
  options.log = [&](Severity severity, const std::string& line) {
    if (severity == Severity::Warning) warnings.push_back(line);
  };
  const auto host = session(*p, "host"), device = session(*p, GetParam(), options);
  ASSERT_TRUE(host && device);
  std::mt19937 rng(17);
  for (const int64_t seq : {1, 3, 1, 40}) {
    const HostTensor x = random_tensor({2, seq, 40}, rng);
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    expect_same_runs(*host, *device, inputs, seq == 1 ? 0 : plan_of(seq),
                     "seq " + std::to_string(seq));
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("does not use the plan for seq=1, "), std::string::npos)
      << warnings[0];
}

TEST_P(PlansOn, RunObjectsChooseWhenTheyAreBound) {
  const auto p = compiled(kMlp, kThree);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const auto s = session(*p, GetParam());
  ASSERT_TRUE(s);
  std::mt19937 rng(16);
  auto run = s->make_run();
  ASSERT_TRUE(run.ok());
  for (const int64_t seq : {1, 20, 2}) {
    const HostTensor x = random_tensor({2, seq, 40}, rng);
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    const auto expected = s->run(inputs);
    ASSERT_TRUE(expected.ok());
    ASSERT_TRUE((*run)->bind(inputs, {}).ok());
    ASSERT_TRUE((*run)->submit().ok());
    std::vector<HostTensor> results;
    RunStats stats;
    ASSERT_TRUE((*run)->wait(results, &stats).ok());
    EXPECT_EQ(stats.plan, plan_of(seq));
    EXPECT_TRUE(std::ranges::equal(results[0].bytes(), (*expected)[0].bytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PlansOn, testing::ValuesIn(device_ids()), [](const auto& id) {
  std::string name = id.param;
  std::ranges::replace(name, ':', '_');
  return name;
});

TEST(Plans, AFileKeepsThem) {
  const auto p = compiled(kMlp, {"batch=1,seq=1", "seq=1"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const test::TempDir dir;
  const std::string path = dir / "model.rpk";
  ASSERT_TRUE(package::write(**p, path).ok());
  const auto stored = package::read(path);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  const auto read = package::unpack(*stored);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ((*read)->variants.size(), (*p)->variants.size());
  for (size_t v = 0; v < (*p)->variants.size(); ++v) {
    const auto& before = (*p)->variants[v].plans;
    const auto& after = (*read)->variants[v].plans;
    ASSERT_EQ(after.size(), 2U);
    for (size_t i = 0; i < after.size(); ++i) {
      const auto& symbols = (*p)->io.symbols;
      EXPECT_EQ(package::describe_sizes(after[i].sizes, symbols),
                package::describe_sizes(before[i].sizes, symbols));
      EXPECT_EQ(after[i].why, "asked for");
      EXPECT_EQ(after[i].name, (*p)->variants[v].name);
      EXPECT_EQ(plan::print(after[i].plan, (*read)->io), plan::print(before[i].plan, (*p)->io));
      for (size_t k = 0; k < after[i].plan.kernels.size(); ++k)
        EXPECT_EQ(after[i].plan.kernels[k].spirv, before[i].plan.kernels[k].spirv);
    }
  }
}

TEST(Plans, ImpossiblePlansAreRefused) {
  const auto good = compiled(kMlp, {"seq=1"});
  ASSERT_TRUE(good.ok()) << good.status().message();
  const auto refuses = [&](const auto& change, const std::string& message) {
    package::Package p = **good;
    change(p.variants[0].plans[0]);
    const Status s = package::verify(p);
    EXPECT_EQ(s.code(), Code::CorruptPackage) << message;
    EXPECT_NE(s.message().find(message), std::string::npos) << s.message();
  };
  using Plan = package::SizedPlan;
  refuses([](Plan& p) { p.sizes.clear(); }, "it serves all sizes");
  refuses([](Plan& p) { p.sizes[0].symbol = 99; }, "symbol 99 cannot choose it");
  refuses([](Plan& p) { p.sizes[0].symbol = -1; }, "symbol -1 cannot choose it");
  refuses([](Plan& p) { p.sizes.push_back(p.sizes[0]); }, "cannot choose it");
  refuses([](Plan& p) { p.sizes[0] = {p.sizes[0].symbol, 5, 4}; }, "has no value from 5 to 4");
  refuses([](Plan& p) { p.sizes[0] = {p.sizes[0].symbol, -3, 4}; }, "has no value from -3 to 4");
  refuses([](Plan& p) { p.predicate.subgroup_size += 1; }, "it is for other devices");
  refuses([](Plan& p) { p.plan.buffers[plan::BufferId(0)].dtype = DType::I32; }, "plan 1");
  refuses([](Plan& p) { p.plan.weights[0].segment = 1000; }, "segment 1000 does not exist");
  package::Package many = **good;
  many.variants[0].plans.resize(65, many.variants[0].plans[0]);
  EXPECT_EQ(package::verify(many).code(), Code::CorruptPackage);
}

TEST(Plans, OptionsThatFitNothingAreRefused) {
  const auto refuses = [](const std::vector<std::string>& plans, const std::string& message) {
    const auto p = compiled(kMlp, plans);
    ASSERT_FALSE(p.ok()) << message;
    EXPECT_EQ(p.status().code(), Code::Usage);
    EXPECT_NE(p.status().message().find(message), std::string::npos) << p.status().message();
  };
  refuses({"seq"}, "'seq' is not NAME=SIZE or NAME=MIN..MAX");
  refuses({"seq="}, "is not NAME=SIZE");
  refuses({"=1"}, "is not NAME=SIZE");
  refuses({"seq=x"}, "is not NAME=SIZE");
  refuses({""}, "is not NAME=SIZE");
  refuses({"seq=1,seq=2"}, "has two ranges of 'seq'");
  refuses({"seq=4..2"}, "no size is between them");
  refuses({"seq=0"}, "takes no size of 1 or more");
  refuses({"length=1"}, "the sizes that its inputs decide are 'batch', 'seq'");
  refuses({"seq=1..4", "seq=2"}, "no size is left for it after --plan seq=1..4");
  refuses({"auto", "seq=1"}, "stands alone");
  refuses({"seq=17..", "seq=2..64"}, "serves some of these sizes, and sessions try it last");
  refuses({"seq=17..", "batch=1"}, "serves some of these sizes, and sessions try it last");
  std::vector<std::string> many;
  many.reserve(package::kMostPlans + 1);
  for (size_t i = 0; i <= package::kMostPlans; ++i) many.push_back("seq=" + std::to_string(i + 1));
  refuses(many, "at most 64");
  CompileOptions chosen;
  chosen.choose_schedule = [](const ScheduleSite&) { return size_t{0}; };
  EXPECT_EQ(compiled(kMlp, {"seq=1"}, chosen).status().code(), Code::Usage);
}

std::vector<std::string> plans_of(const package::Package& p) {
  std::vector<std::string> out;
  if (p.variants.empty()) return out;
  for (const package::SizedPlan& plan : p.variants[0].plans)
    out.push_back(package::describe_sizes(plan.sizes, p.io.symbols));
  return out;
}

/// kLayer with sizes at which products take most of the time.
std::string wide_layer() {
  std::string text = kLayer;
  const std::pair<std::string, std::string> changes[] = {
      {"seq,32]", "seq,512]"},
      {"[1,2,past,16]", "[1,4,past,64]"},
      {"[32,64]", "[512,512]"},
      {"[32,32]", "[512,256]"},
      {"[64,32]", "[512,512]"},
      {"{1, -1, 4, 16}", "{1, -1, 8, 64}"},
      {"{1, -1, 2, 16}", "{1, -1, 4, 64}"},
      {"{1, -1, 64}", "{1, -1, 512}"},
  };
  for (const auto& [from, to] : changes)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

TEST(Plans, OnlyModelsThatGenerateGetThemByThemselves) {
  const std::string wide = wide_layer();
  const auto layer = compiled(wide.c_str(), {}), mlp = compiled(kMlp, {}),
             none = compiled(wide.c_str(), {"none"});
  ASSERT_TRUE(layer.ok() && mlp.ok() && none.ok());
  ASSERT_FALSE(plans_of(**layer).empty());
  EXPECT_EQ(plans_of(**layer).front(), "seq=1");
  for (const package::SizedPlan& plan : (*layer)->variants[0].plans)
    EXPECT_NE(plan.why.find("times faster there than plan 0"), std::string::npos) << plan.why;
  EXPECT_TRUE(plans_of(**mlp).empty());
  EXPECT_TRUE(plans_of(**none).empty());
}

TEST(Plans, TheLengthIsThatOfNewRowsWhereverTheCacheIs) {
  std::string text = wide_layer();
  const size_t at = text.find("input x"), end = text.find('\n', at) + 1;
  const std::string x = text.substr(at, end - at);
  text.erase(at, x.size()).insert(text.find("input w"), x);
  const auto layer = compiled(text.c_str(), {});
  ASSERT_TRUE(layer.ok()) << layer.status().message();
  ASSERT_FALSE(plans_of(**layer).empty());
  EXPECT_EQ(plans_of(**layer).front(), "seq=1");
}

/// The output of a cache that is a state that grows has the new rows alone, and the queries of
/// heads that share keys are rows of one product.
TEST(Plans, ModelsWhoseCachesAreStatesGetThemByThemselves) {
  CompileOptions options;
  options.grow_states = "auto";
  const auto layer = compiled(wide_layer().c_str(), {}, options);
  ASSERT_TRUE(layer.ok()) << layer.status().message();
  ASSERT_EQ((*layer)->io.states.size(), 2U);
  ASSERT_FALSE(plans_of(**layer).empty());
  EXPECT_EQ(plans_of(**layer).front(), "seq=1");
}

TEST(Plans, PlansOfOtherSizesMayFollowAnOpenOne) {
  const auto p = compiled(kMlp, {"seq=17..", "seq=2..16"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(plans_of(**p), std::vector<std::string>{"seq=2..16"});
}

TEST(Plans, SizesAtTheEndOfTheIntegersDoNotOverflow) {
  auto g = model(kMlp);
  for (Symbol& s : g->symbols) s.divisor = 8;
  const auto choice = parse_plans({"seq=9223372036854775807"});
  ASSERT_TRUE(choice.ok());
  const auto plans = requested_plans(*g, *choice);
  ASSERT_FALSE(plans.ok());
  EXPECT_NE(plans.status().message().find("takes no size"), std::string::npos);
}

TEST(Plans, LimitsOfSizesEndThem) {
  CompileOptions options;
  auto g = model(kMlp);
  ASSERT_TRUE(graph::apply_ranges(*g, {{"seq", {1, 8}}}).ok());
  const auto choice = parse_plans({"seq=1", "seq=2..100"});
  ASSERT_TRUE(choice.ok());
  options.plans = *choice;
  const auto p = compile(std::move(g), options);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(plans_of(*p), std::vector<std::string>{"seq=1"});  // the other serves the rest
}

}  // namespace
}  // namespace reprise
