// States that grow: caches to which runs append rows in place, on the host and on every device,
// compared with runs that take and return the whole caches.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "reprise/reprise.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise::growing {
namespace {

/// Attention with a cache, of which two layers have one length. The mask has past and new columns.
constexpr const char* kDecoder = R"(graph decoder
input x: float32[batch,step,8]
input past_key.0: float32[batch,2,past,4]
input past_value.0: float32[batch,2,past,4]
input past_key.1: float32[batch,2,past,4]
input past_value.1: float32[batch,2,past,4]
input mask: float32[batch,1,1,past + step]
const heads: int64[4]{0,0,2,4}
const joined: int64[3]{0,0,8}
const half: float32[]{0.5}
const two: float32[]{2}
s: float32[batch,step,2,4] = Reshape(x, heads) @14
q: float32[batch,2,step,4] = Transpose<perm=[0, 2, 1, 3]>(s) @13
k: float32[batch,2,step,4] = Mul(q, two) @14
v: float32[batch,2,step,4] = Sin(q) @14
present_key.0: float32[batch,2,past + step,4] = Concat<axis=2>(past_key.0, k) @13
present_value.0: float32[batch,2,past + step,4] = Concat<axis=2>(past_value.0, v) @13
kt: float32[batch,2,4,past + step] = Transpose<perm=[0, 1, 3, 2]>(present_key.0) @13
scores: float32[batch,2,step,past + step] = MatMul(q, kt) @13
scaled: float32[batch,2,step,past + step] = Mul(scores, half) @14
masked: float32[batch,2,step,past + step] = Add(scaled, mask) @14
weights: float32[batch,2,step,past + step] = Softmax<axis=-1>(masked) @13
a: float32[batch,2,step,4] = MatMul(weights, present_value.0) @13
k1: float32[batch,2,step,4] = Cos(a) @14
v1: float32[batch,2,step,4] = Neg(a) @13
present_key.1: float32[batch,2,past + step,4] = Concat<axis=2>(past_key.1, k1) @13
present_value.1: float32[batch,2,past + step,4] = Concat<axis=2>(past_value.1, v1) @13
kt1: float32[batch,2,4,past + step] = Transpose<perm=[0, 1, 3, 2]>(present_key.1) @13
scores1: float32[batch,2,step,past + step] = MatMul(a, kt1) @13
masked1: float32[batch,2,step,past + step] = Add(scores1, mask) @14
weights1: float32[batch,2,step,past + step] = Softmax<axis=-1>(masked1) @13
b: float32[batch,2,step,4] = MatMul(weights1, present_value.1) @13
t: float32[batch,step,2,4] = Transpose<perm=[0, 2, 1, 3]>(b) @13
y: float32[batch,step,8] = Reshape(t, joined) @14
output y
output present_key.0
output present_value.0
output present_key.1
output present_value.1
)";

constexpr size_t kCaches = 4;
const char* const kNames[kCaches] = {"past_key.0", "past_value.0", "past_key.1", "past_value.1"};

std::shared_ptr<const package::Package> compiled(const char* text, const std::string& grow,
                                                 const PlanChoice& plans = {}) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return nullptr;
  CompileOptions options;
  options.grow_states = grow;
  options.plans = plans;
  options.probes = true;
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}

/// Calls f with each device, and with null for the host.
template <typename F>
void on_every_device(const F& f) {
  f(std::shared_ptr<Device>());
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable) continue;
    SCOPED_TRACE(info.id);
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    f(device->device);
  }
}

void expect_error(const Status& s, Code code, const std::string& part) {
  EXPECT_EQ(s.code(), code) << s.message();
  EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

void expect_equal(const HostTensor& got, const HostTensor& want, const std::string& what) {
  ASSERT_EQ(got.dims(), want.dims()) << what;
  for (int64_t i = 0; i < want.count(); ++i)
    ASSERT_NEAR(test::number(got, i), test::number(want, i), 2e-5) << what << " at " << i;
}

/// The model as it is: the caller keeps the caches.
class Stateless {
 public:
  explicit Stateless(std::unique_ptr<Session> session) : session_(std::move(session)) {
    truncate(0, 1);
  }

  HostTensor step(const HostTensor& x, const HostTensor& mask) {
    std::vector<Binding> inputs{{.name = "x", .host = &x}, {.name = "mask", .host = &mask}};
    for (size_t c = 0; c < kCaches; ++c) inputs.push_back({.name = kNames[c], .host = &caches[c]});
    auto results = session_->run(inputs);
    EXPECT_TRUE(results.ok()) << results.status().message();
    for (size_t c = 0; c < kCaches; ++c) caches[c] = (*results)[c + 1];
    return (*results)[0];
  }
  int64_t length() const { return caches[0].dims()[2]; }
  void truncate(int64_t length, int64_t batch) {
    for (HostTensor& cache : caches)
      cache = length == 0 ? HostTensor(DType::F32, {batch, 2, 0, 4}) : first_rows(cache, 2, length);
  }

  std::vector<HostTensor> caches = std::vector<HostTensor>(kCaches);

 private:
  std::unique_ptr<Session> session_;
};

std::unique_ptr<Session> session_of(const std::shared_ptr<const package::Package>& package,
                                    const std::shared_ptr<Device>& device) {
  auto session = Session::create(package, device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *std::move(session) : nullptr;
}

struct Step {
  HostTensor x, mask;
  Step(int64_t batch, int64_t rows, int64_t past, std::mt19937& rng)
      : x(test::random_tensor(DType::F32, {batch, rows, 8}, rng)),
        mask(test::random_tensor(DType::F32, {batch, 1, 1, past + rows}, rng)) {}
  std::vector<Binding> bindings() const {
    return {{.name = "x", .host = &x}, {.name = "mask", .host = &mask}};
  }
};

class GrowingStates : public testing::Test {
 protected:
  std::shared_ptr<const package::Package> whole = compiled(kDecoder, "none"),
                                          growing = compiled(kDecoder, "auto");
};

TEST_F(GrowingStates, LeaveTheInterface) {
  ASSERT_TRUE(growing);
  const plan::Interface& io = growing->io;
  EXPECT_EQ(io.inputs.size(), 2U);
  EXPECT_EQ(io.outputs.size(), 1U);
  ASSERT_EQ(io.states.size(), kCaches);
  for (size_t c = 0; c < kCaches; ++c) {
    EXPECT_EQ(io.states[c].name, kNames[c]);
    EXPECT_EQ(io.states[c].axis, 2);
    EXPECT_EQ(shape_str(io.states[c].shape, io.symbols), "[batch, 2, past, 4]");
  }
}

/// The kernels store the new rows and nothing else of a cache, and no kernel copies a cache.
TEST_F(GrowingStates, AreNeitherReadNorWrittenMoreThanNeeded) {
  ASSERT_TRUE(growing);
  for (const package::Variant& v : growing->variants) {
    SCOPED_TRACE(v.name);
    size_t appends = 0;
    for (const plan::Step& step : v.plan.steps) {
      const auto* launch = std::get_if<plan::Launch>(&step.what);
      ASSERT_TRUE(launch);
      for (size_t i = 0; i < launch->buffers.size(); ++i) {
        const plan::Buffer& b = v.plan.buffers[launch->buffers[i]];
        if (!launch->writes[i]) continue;
        appends += b.kind == plan::BufferKind::NewRows ? 1 : 0;
        EXPECT_NE(b.kind, plan::BufferKind::State);
        const std::string shape = shape_str(b.shape, growing->io.symbols);
        EXPECT_EQ(shape.find("past"), std::string::npos) << launch->group << " writes " << shape;
      }
    }
    EXPECT_EQ(appends, kCaches);
    EXPECT_TRUE(plan::verify(v.plan, growing->io).ok());
  }
}

/// Compares the package with the whole model in steps of random lengths.
void take_random_steps(const std::shared_ptr<const package::Package>& whole,
                       const std::shared_ptr<const package::Package>& package) {
  ASSERT_TRUE(whole && package);
  on_every_device([&](const std::shared_ptr<Device>& device) {
    std::mt19937 rng(7);
    Stateless reference(session_of(whole, nullptr));
    const auto session = session_of(package, device);
    ASSERT_TRUE(session);
    int64_t batch = 1;
    for (int i = 0; i < 40; ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      const int64_t rows = rng() % 4 == 0 ? static_cast<int64_t>(rng() % 150) + 1 : 1;
      const Step step(batch, rows, reference.length(), rng);
      if (rng() % 5 == 0) {  // a run that fails changes nothing
        const Step wrong(batch, rows, reference.length() + 1, rng);
        const std::vector<Binding> inputs{{.name = "x", .host = &step.x},
                                          {.name = "mask", .host = &wrong.mask}};
        EXPECT_EQ(session->run(inputs).status().code(), Code::InvalidInput);
      }
      const HostTensor want = reference.step(step.x, step.mask);
      const auto got = session->run(step.bindings());
      ASSERT_TRUE(got.ok()) << got.status().message();
      expect_equal((*got)[0], want, "y");
      const auto known = session->state_rows("past_key.1");
      ASSERT_TRUE(known.ok());
      ASSERT_EQ(known->length, reference.length());
      ASSERT_GE(known->capacity, known->length);
      const unsigned next = rng() % 8;
      if (next == 0) {
        const int64_t length =
            static_cast<int64_t>(rng() % static_cast<unsigned>(reference.length() + 1));
        ASSERT_TRUE(session->truncate_states("", length).ok());
        if (length == 0) batch = static_cast<int64_t>(rng() % 3) + 1;
        reference.truncate(length, batch);
      } else if (next == 1) {
        ASSERT_TRUE(session->reserve_states("", known->length + 100).ok());
      } else if (next == 2) {
        ASSERT_TRUE(session->reset_states().ok());
        batch = static_cast<int64_t>(rng() % 3) + 1;
        reference.truncate(0, batch);
      }
      for (size_t c = 0; c < kCaches && reference.length() > 0; ++c) {
        const auto value = session->read_state(kNames[c]);
        ASSERT_TRUE(value.ok()) << value.status().message();
        expect_equal(*value, reference.caches[c], kNames[c]);
      }
    }
  });
}

TEST_F(GrowingStates, EqualWholeCachesInRandomSteps) {
  take_random_steps(whole, growing);
}

/// Plans of one size know the number of new rows, and all plans append to the same states.
TEST_F(GrowingStates, AreSharedByPlans) {
  const Result<PlanChoice> plans = parse_plans({"step=1", "batch=1,step=2..100", "batch=2"});
  ASSERT_TRUE(plans.ok()) << plans.status().message();
  const auto package = compiled(kDecoder, "auto", *plans);
  ASSERT_TRUE(package);
  for (const package::Variant& v : package->variants) {
    ASSERT_EQ(v.plans.size(), 3U);
    for (const package::SizedPlan& p : v.plans)
      EXPECT_TRUE(plan::verify(p.plan, package->io).ok())
          << plan::verify(p.plan, package->io).message();
  }
  take_random_steps(whole, package);
}

TEST_F(GrowingStates, CannotChooseAPlanByTheirLength) {
  auto g = graph::parse(kDecoder);
  ASSERT_TRUE(g.ok());
  CompileOptions options;
  options.grow_states = "auto";
  options.plans = *parse_plans({"past=1..128"});
  expect_error(compile(*std::move(g), options).status(), Code::Usage,
               "'past' is the length of a state");
}

TEST_F(GrowingStates, GrowWithoutARecording) {
  ASSERT_TRUE(growing);
  on_every_device([&](const std::shared_ptr<Device>& device) {
    if (!device) return;
    std::mt19937 rng(3);
    const auto session = session_of(growing, device);
    ASSERT_TRUE(session);
    int64_t past = 0, capacity = 0;
    uint64_t recordings = 0, submits = 0;
    for (int i = 0; i < 12; ++i) {
      const int64_t rows = i % 3 == 0 ? 100 : 1;
      const Step step(1, rows, past, rng);
      ASSERT_TRUE(session->run(step.bindings()).ok());
      past += rows;
      const auto known = session->state_rows("past_key.0");
      ASSERT_TRUE(known.ok());
      EXPECT_GE(known->capacity, 256);
      EXPECT_GE(known->capacity, capacity);
      capacity = known->capacity;
      if (i == 0) recordings = session->stats().recordings;
      if (i == 1) submits = session->stats().submits;
    }
    EXPECT_GT(capacity, 256);
    EXPECT_EQ(session->stats().recordings, recordings);
    EXPECT_EQ(session->stats().submits, submits * 6) << "each run is as many submissions";
    EXPECT_GT(session->stats().device_bytes, static_cast<uint64_t>(capacity) * 32 * kCaches);
  });
}

TEST_F(GrowingStates, HaveALimit) {
  ASSERT_TRUE(growing);
  on_every_device([&](const std::shared_ptr<Device>& device) {
    std::mt19937 rng(5);
    const auto session = session_of(growing, device);
    ASSERT_TRUE(session);
    ASSERT_TRUE(session->limit_states("", 10).ok());
    ASSERT_TRUE(session->run(Step(1, 8, 0, rng).bindings()).ok());
    expect_error(session->run(Step(1, 3, 8, rng).bindings()).status(), Code::InvalidInput,
                 "would have 11 rows after the run, and its limit is 10");
    expect_error(session->limit_states("", 7), Code::Usage, "has 8 rows, more than the limit of 7");
    expect_error(session->reserve_states("", 11), Code::Usage, "0 to 10 rows, not 11");
    expect_error(session->truncate_states("", 9), Code::Usage, "cannot be truncated to 9");
    expect_error(session->truncate_states("x", 0), Code::InvalidInput, "no state 'x'");
    ASSERT_TRUE(session->run(Step(1, 2, 8, rng).bindings()).ok());
    EXPECT_EQ(session->state_rows("past_key.0")->length, 10);
    expect_error(session->run(Step(2, 0, 10, rng).bindings()).status(), Code::InvalidInput,
                 "has the value float32[1,2,10,4], but the inputs need float32[2,2,10,4]");
    ASSERT_TRUE(session->truncate_states("past_key.0", 4).ok());
    expect_error(session->limit_states("", 6), Code::Usage, "'past_value.0' has 10 rows");
    EXPECT_EQ(session->state_rows("past_key.0")->limit, 10) << "all or none";
    expect_error(session->run(Step(1, 1, 4, rng).bindings()).status(), Code::Usage,
                 "truncate both to the same length");
  });
}

/// A device has no memory for these rows, and their size in bytes is more than 64 bits can hold.
TEST_F(GrowingStates, CannotReserveRowsForWhichNoMemorySuffices) {
  ASSERT_TRUE(growing);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  on_every_device([&](const std::shared_ptr<Device>& device) {
    if (!device) return;
    std::mt19937 rng(5);
    const auto session = session_of(growing, device);
    ASSERT_TRUE(session);
    ASSERT_TRUE(session->reserve_states("", kMost).ok()) << "a run decides the size of a row";
    ASSERT_TRUE(session->run(Step(1, 8, 0, rng).bindings()).ok());
    const auto before = session->state_rows("past_key.0");
    const auto value = session->read_state("past_key.0");
    ASSERT_TRUE(before.ok() && value.ok());
    EXPECT_LT(before->capacity, 1024);
    for (const int64_t rows : {int64_t{1} << 54, int64_t{1} << 59, (int64_t{1} << 59) + 1, kMost}) {
      expect_error(session->reserve_states("", rows), Code::OutOfMemory,
                   "memory for " + std::to_string(rows) + " rows of the state 'past_key.0'");
      EXPECT_EQ(session->state_rows("past_key.0")->capacity, before->capacity);
    }
    expect_equal(*session->read_state("past_key.0"), *value, "past_key.0");
    ASSERT_TRUE(session->run(Step(1, 2, 8, rng).bindings()).ok());
  });
}

TEST_F(GrowingStates, AreWrittenSavedAndLoaded) {
  ASSERT_TRUE(whole && growing);
  const test::TempDir dir;
  const std::string path = (dir / "states.rpk").string(), model = (dir / "model.rpk").string();
  ASSERT_TRUE(package::write(*growing, model).ok());
  const auto read = package::read(model);
  ASSERT_TRUE(read.ok()) << read.status().message();
  on_every_device([&](const std::shared_ptr<Device>& device) {
    std::mt19937 rng(11);
    Stateless reference(session_of(whole, nullptr));
    const auto session = session_of(*read, device), other = session_of(*read, device);
    ASSERT_TRUE(session && other);
    const Step first(2, 5, 0, rng);
    reference.truncate(0, 2);
    reference.step(first.x, first.mask);
    for (size_t c = 0; c < kCaches; ++c)
      ASSERT_TRUE(session->write_state(kNames[c], reference.caches[c]).ok());
    ASSERT_TRUE(session->save_states(path).ok());
    const Status loaded = other->load_states(path);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    const Step second(2, 3, 5, rng);
    const HostTensor want = reference.step(second.x, second.mask);
    for (const auto* s : {session.get(), other.get()}) {
      const auto got = const_cast<Session*>(s)->run(second.bindings());
      ASSERT_TRUE(got.ok()) << got.status().message();
      expect_equal((*got)[0], want, "y");
    }
    expect_error(session->write_state("past_key.0", HostTensor(DType::F32, {2, 2, 8, 3})),
                 Code::InvalidInput, "but the given value is float32[2,2,8,3]");
    ASSERT_TRUE(session->load_states(model).ok()) << "a package has no rows";
    EXPECT_EQ(session->state_rows("past_key.0")->length, 0);
    ASSERT_TRUE(session->copy_states_from(*other).ok());
    EXPECT_EQ(session->state_rows("past_key.0")->length, 8);
  });
}

/// A file of which one state is too large for a limit changes none of them.
TEST_F(GrowingStates, AreLoadedAllOrNone) {
  ASSERT_TRUE(growing);
  const test::TempDir dir;
  const std::string path = (dir / "states.rpk").string();
  on_every_device([&](const std::shared_ptr<Device>& device) {
    std::mt19937 rng(13);
    const auto session = session_of(growing, device), other = session_of(growing, device);
    ASSERT_TRUE(session && other);
    ASSERT_TRUE(other->run(Step(2, 200, 0, rng).bindings()).ok());
    ASSERT_TRUE(other->truncate_states("past_key.0", 50).ok());
    ASSERT_TRUE(other->save_states(path).ok());
    ASSERT_TRUE(session->run(Step(1, 5, 0, rng).bindings()).ok());
    ASSERT_TRUE(session->limit_states("", 100).ok());
    const HostTensor before = *session->read_state("past_key.0");
    const char* const message = "state 'past_value.0' may have 0 to 100 rows, not 200";
    expect_error(session->load_states(path), Code::Usage, message);
    expect_error(session->copy_states_from(*other), Code::Usage, message);
    expect_error(session->write_state("past_value.0", *other->read_state("past_value.0")),
                 Code::Usage, message);
    for (const char* const name : kNames) EXPECT_EQ(session->state_rows(name)->length, 5);
    expect_equal(*session->read_state("past_key.0"), before, "past_key.0");
    ASSERT_TRUE(session->run(Step(1, 1, 5, rng).bindings()).ok());
  });
}

/// The same bindings, submitted again and again: each run has the length that the last one left.
TEST_F(GrowingStates, OfOneRunObjectThatIsSubmittedAgain) {
  const auto package = compiled(R"(graph append
input x: float32[n,4]
input past: float32[p,4]
const axes: int64[1]{0}
present: float32[p + n,4] = Concat<axis=0>(past, x) @13
y: float32[1,4] = ReduceSum<keepdims=1>(present, axes) @13
output y
output present
)",
                                "past");
  ASSERT_TRUE(package);
  on_every_device([&](const std::shared_ptr<Device>& device) {
    const auto session = session_of(package, device);
    ASSERT_TRUE(session);
    const HostTensor x = HostTensor::from<float>(DType::F32, {1, 4}, {1, 2, 3, 4});
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    auto run = session->make_run();
    ASSERT_TRUE(run.ok());
    ASSERT_TRUE((*run)->bind(inputs, {}).ok());
    for (int i = 1; i <= 300; ++i) {
      ASSERT_TRUE((*run)->submit().ok());
      std::vector<HostTensor> results;
      ASSERT_TRUE((*run)->wait(results, nullptr).ok());
      ASSERT_EQ(results[0].data<float>()[3], 4.0F * static_cast<float>(i));
    }
    EXPECT_EQ(session->state_rows("past")->length, 300);
  });
}

/// Operators that take a past, with inputs q, k and v of `step` rows.
TEST_F(GrowingStates, OfOperatorsWithAPast) {
  const char* const models[] = {
      R"(graph attention
input q: float32[batch,4,step,8]
input k: float32[batch,2,step,8]
input v: float32[batch,2,step,8]
input past_k: float32[batch,2,past,8]
input past_v: float32[batch,2,past,8]
(y, present_k, present_v) = Attention<is_causal=1>(q, k, v, _, past_k, past_v) @23
output y, present_k, present_v
)",
      R"(graph heads
input q: float32[batch,step,16]
input k: float32[batch,step,16]
input v: float32[batch,step,16]
input past_k: float32[batch,2,past,8]
input past_v: float32[batch,2,past,8]
(y, present_k, present_v) = "com.microsoft"::MultiHeadAttention<num_heads=2>(q, k, v, _, _, _, past_k, past_v) @1
output y, present_k, present_v
)"};
  for (const char* const text : models) {
    SCOPED_TRACE(text);
    const auto plain = compiled(text, "none"), grown = compiled(text, "auto");
    ASSERT_TRUE(plain && grown);
    ASSERT_EQ(grown->io.states.size(), 2U);
    on_every_device([&](const std::shared_ptr<Device>& device) {
      const auto reference = session_of(plain, nullptr), session = session_of(grown, device);
      ASSERT_TRUE(reference && session);
      std::mt19937 rng(2);
      HostTensor past_k(DType::F32, {2, 2, 0, 8}), past_v = past_k;
      for (const int64_t rows : {5, 1, 1, 7, 1}) {
        std::vector<HostTensor> given;
        for (const plan::Slot& slot : grown->io.inputs) {
          std::vector<int64_t> dims;
          for (const Expr& e : slot.shape) dims.push_back(e.is_const() ? e.value() : rows);
          dims[0] = 2;
          given.push_back(test::random_tensor(DType::F32, dims, rng));
        }
        std::vector<Binding> inputs;
        for (size_t i = 0; i < given.size(); ++i)
          inputs.push_back({.name = grown->io.inputs[i].name, .host = &given[i]});
        const auto got = session->run(inputs);
        ASSERT_TRUE(got.ok()) << got.status().message();
        inputs.push_back({.name = "past_k", .host = &past_k});
        inputs.push_back({.name = "past_v", .host = &past_v});
        const auto want = reference->run(inputs);
        ASSERT_TRUE(want.ok()) << want.status().message();
        expect_equal((*got)[0], (*want)[0], "y");
        past_k = (*want)[1];
        past_v = (*want)[2];
        expect_equal(*session->read_state("past_v"), past_v, "past_v");
      }
    });
  }
}

/// As ONNX Runtime's model builder writes it: the mask tells the total length, and how much of each
/// batch is padding, which a cache that grows does not have. The size of a head follows from the
/// queries alone.
TEST_F(GrowingStates, OfGroupedQueries) {
  const char* const text = R"(graph grouped
input q: float32[batch,step,32]
input k: float32[batch,step,16]
input v: float32[batch,step,16]
input past_k: float32[batch,1,past,kv_cache_dim]
input past_v: float32[batch,1,past,kv_cache_dim]
input mask: int64[batch,total]
const axes: int64[1]{1}
const one: int64[]{1}
sum = ReduceSum<keepdims=0>(mask, axes) @13
last = Sub(sum, one) @14
lengths = Cast<to=6>(last) @13
dims = Shape(mask) @13
count = Gather<axis=0>(dims, one) @13
number = Cast<to=6>(count) @13
(y, present_k, present_v) = "com.microsoft"::GroupQueryAttention<kv_num_heads=1, num_heads=2>(q, k, v, past_k, past_v, lengths, number) @1
output y, present_k, present_v
)";
  const auto plain = compiled(text, "none"), grown = compiled(text, "auto");
  ASSERT_TRUE(plain && grown);
  ASSERT_EQ(grown->io.states.size(), 2U);
  on_every_device([&](const std::shared_ptr<Device>& device) {
    const auto reference = session_of(plain, nullptr), session = session_of(grown, device);
    ASSERT_TRUE(reference && session);
    std::mt19937 rng(2);
    HostTensor past_k(DType::F32, {2, 1, 0, 16}), past_v = past_k;
    for (const int64_t rows : {6, 1, 1, 3, 1}) {
      const int64_t total = past_k.dims()[2] + rows;
      const HostTensor q = test::random_tensor(DType::F32, {2, rows, 32}, rng),
                       k = test::random_tensor(DType::F32, {2, rows, 16}, rng),
                       v = test::random_tensor(DType::F32, {2, rows, 16}, rng);
      HostTensor mask(DType::I64, {2, total});
      std::fill_n(mask.mutable_data<int64_t>(), mask.count(), 1);
      std::vector<Binding> inputs{{.name = "q", .host = &q},
                                  {.name = "k", .host = &k},
                                  {.name = "v", .host = &v},
                                  {.name = "mask", .host = &mask}};
      if (total > rows) {
        mask.mutable_data<int64_t>()[total] = 0;
        expect_error(session->run(inputs).status(), Code::InvalidInput, "index");
        mask.mutable_data<int64_t>()[total] = 1;
      }
      const auto got = session->run(inputs);
      ASSERT_TRUE(got.ok()) << got.status().message();
      inputs.push_back({.name = "past_k", .host = &past_k});
      inputs.push_back({.name = "past_v", .host = &past_v});
      const auto want = reference->run(inputs);
      ASSERT_TRUE(want.ok()) << want.status().message();
      expect_equal((*got)[0], (*want)[0], "y");
      past_k = (*want)[1];
      past_v = (*want)[2];
      expect_equal(*session->read_state("past_k"), past_k, "past_k");
    }
  });
}

TEST_F(GrowingStates, MustBeRecognised) {
  const struct {
    const char* grow;
    const char* message;
  } cases[] = {
      {"nothing*", "grow-states: no input matches 'nothing*'; the inputs are 'x', 'past_key.0'"},
      {"x", "input 'x' cannot be a state that grows: no output is the input followed by new rows"},
  };
  for (const auto& c : cases) {
    auto g = graph::parse(kDecoder);
    ASSERT_TRUE(g.ok());
    CompileOptions options;
    options.grow_states = c.grow;
    expect_error(compile(*std::move(g), options).status(), Code::Usage, c.message);
  }
  auto g = graph::parse(R"(graph narrow
input x: float32[n,3]
input past: float32[p,3]
present: float32[p + n,3] = Concat<axis=0>(past, x) @13
y: float32[p + n,3] = Neg(present) @13
output y
output present
)");
  ASSERT_TRUE(g.ok());
  CompileOptions options;
  options.grow_states = "pas?";
  expect_error(compile(*std::move(g), options).status(), Code::Usage,
               "a row has 12 bytes, which is no multiple of 16");
}

TEST_F(GrowingStates, OfTheCInterface) {
  ASSERT_TRUE(growing);
  const test::TempDir dir;
  const std::string path = (dir / "model.rpk").string();
  ASSERT_TRUE(package::write(*growing, path).ok());
  reprise_error error{};
  reprise_package* package = nullptr;
  reprise_device* device = nullptr;
  reprise_session* session = nullptr;
  ASSERT_EQ(reprise_package_open(path.c_str(), &package, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_device_open("auto", nullptr, &device, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_session_create(package, device, nullptr, &session, &error), REPRISE_OK)
      << error.message;
  const std::vector<float> value(3 * 8, 0.5F);
  reprise_tensor tensor = REPRISE_TENSOR_INIT;
  tensor.name = "past_key.0", tensor.dtype = REPRISE_F32, tensor.rank = 4;
  tensor.dims[0] = 1, tensor.dims[1] = 2, tensor.dims[2] = 3, tensor.dims[3] = 4;
  tensor.data = const_cast<float*>(value.data()), tensor.bytes = value.size() * sizeof(float);
  EXPECT_EQ(reprise_session_write_state_tensor(session, &tensor, &error), REPRISE_OK)
      << error.message;
  EXPECT_EQ(reprise_session_reserve_states(session, "past_key.0", 300, &error), REPRISE_OK);
  EXPECT_EQ(reprise_session_limit_states(session, nullptr, 400, &error), REPRISE_OK);
  reprise_state_rows rows = REPRISE_STATE_ROWS_INIT;
  ASSERT_EQ(reprise_session_state_rows(session, "past_key.0", &rows, &error), REPRISE_OK);
  EXPECT_EQ(rows.axis, 2);
  EXPECT_EQ(rows.length, 3);
  EXPECT_GE(rows.capacity, 300);
  EXPECT_EQ(rows.limit, 400);
  EXPECT_EQ(rows.bytes, 96U);
  EXPECT_EQ(rows.rank, 4U);
  EXPECT_EQ(rows.dims[2], 3);
  std::vector<float> read(value.size());
  EXPECT_EQ(reprise_session_read_state(session, "past_key.0", read.data(), 96, &error), REPRISE_OK);
  EXPECT_EQ(read, value);
  EXPECT_EQ(reprise_session_write_state(session, "past_key.0", value.data(), 64, &error),
            REPRISE_OK);
  EXPECT_EQ(reprise_session_write_state(session, "past_key.0", value.data(), 65, &error),
            REPRISE_INVALID_INPUT);
  EXPECT_NE(std::string(error.message).find("reprise_session_write_state_tensor"),
            std::string::npos);
  EXPECT_EQ(reprise_session_truncate_states(session, nullptr, 1, &error), REPRISE_USAGE)
      << "the other caches have no rows";
  EXPECT_EQ(reprise_session_truncate_states(session, "past_key.0", 1, &error), REPRISE_OK);
  ASSERT_EQ(reprise_session_state_rows(session, "past_key.0", &rows, &error), REPRISE_OK);
  EXPECT_EQ(rows.length, 1);
  EXPECT_EQ(reprise_session_state_rows(session, "x", &rows, &error), REPRISE_INVALID_INPUT);
  EXPECT_EQ(reprise_session_limit_states(session, "", 1, &error), REPRISE_USAGE);
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
}

TEST_F(GrowingStates, OfAPatternAlone) {
  const auto package = compiled(kDecoder, "past_key.*");
  ASSERT_TRUE(package);
  EXPECT_EQ(package->io.states.size(), 2U);
  EXPECT_EQ(package->io.inputs.size(), 4U);
}

}  // namespace
}  // namespace reprise::growing
