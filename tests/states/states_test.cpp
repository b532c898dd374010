// States: tensors that sessions keep from run to run, on the host and on every device.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

constexpr int64_t kRows = 8, kIn = 4, kOut = 3;

/// A step of gradient descent: prediction, loss, and the next values of w, b and the count.
constexpr const char* kStep = R"(graph step
input w: float32[4,3]
input x: float32[8,4]
input t: float32[8,3]
input lr: float32[]
input b: float32[3]
input count: int64[]
const scale: float32[]{0.083333336}
const one: int64[]{1}
product: float32[8,3] = MatMul(x, w) @13
y: float32[8,3] = Add(product, b) @14
d: float32[8,3] = Sub(y, t) @14
square: float32[8,3] = Mul(d, d) @14
loss: float32[] = ReduceMean<keepdims=0>(square) @13
xt: float32[4,8] = Transpose<perm=[1, 0]>(x) @13
dw: float32[4,3] = MatMul(xt, d) @13
rate: float32[] = Mul(lr, scale) @14
sw: float32[4,3] = Mul(rate, dw) @14
w_next: float32[4,3] = Sub(w, sw) @14
db: float32[3] = ReduceMean<axes=[0], keepdims=0>(d) @13
sb: float32[3] = Mul(lr, db) @14
b_next: float32[3] = Sub(b, sb) @14
count_next: int64[] = Add(count, one) @14
output w_next
output loss
output b_next
output count_next
)";

/// States whose next values need copies or places of their own: two that change places, one whose
/// old value is an output, and one that does not change.
constexpr const char* kMoves = R"(graph moves
input x: float32[5]
input p: float32[5]
input q: float32[5]
input old: float32[5]
input same: float32[5]
old_next: float32[5] = Add(old, x) @14
y: float32[5] = Mul(same, x) @14
output y
output q
output p
output old_next
output same
output old
)";

std::vector<float> initial(size_t n, float from) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = from + 0.125F * static_cast<float>(i % 7);
  return v;
}

HostTensor floats(std::vector<int64_t> dims, const std::vector<float>& v) {
  return HostTensor::from(DType::F32, std::move(dims), v);
}

std::shared_ptr<const package::Package> compiled(const char* text,
                                                 std::vector<StateOption> states) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.states = std::move(states);
  options.probes = true;
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}

std::shared_ptr<const package::Package> step_package() {
  return compiled(kStep, {{"w", "w_next", floats({kIn, kOut}, initial(12, -0.5F))},
                          {"count", "count_next"},
                          {"b", "b_next"}});
}

/// Calls f with each device, and with null for the host.
template <typename F>
void on_each_device(const F& f) {
  f(std::shared_ptr<Device>());
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    SCOPED_TRACE(info.id);
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    f(device->device);
  }
}

std::unique_ptr<Session> session_of(const std::shared_ptr<const package::Package>& package,
                                    const std::shared_ptr<Device>& device,
                                    const SessionOptions& options = {}) {
  auto session = Session::create(package, device, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *std::move(session) : nullptr;
}

struct Batch {
  HostTensor x = floats({kRows, kIn}, initial(kRows* kIn, -0.3F));
  HostTensor t = floats({kRows, kOut}, initial(kRows* kOut, 0.2F));
  HostTensor lr = floats({}, {0.5F});

  std::vector<Binding> bindings() const {
    return {{.name = "x", .host = &x}, {.name = "t", .host = &t}, {.name = "lr", .host = &lr}};
  }
};

/// The same steps in double.
struct Reference {
  std::vector<double> w, b = std::vector<double>(kOut, 0);
  Reference() {
    for (const float v : initial(12, -0.5F)) w.push_back(static_cast<double>(v));
  }

  double step(const Batch& batch) {
    double loss = 0;
    std::vector<double> dw(w.size(), 0), db(b.size(), 0);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOut; ++o) {
        double y = b[static_cast<size_t>(o)];
        for (int64_t i = 0; i < kIn; ++i)
          y += static_cast<double>(batch.x.data<float>()[r * kIn + i]) *
               w[static_cast<size_t>(i * kOut + o)];
        const double d = y - static_cast<double>(batch.t.data<float>()[r * kOut + o]);
        loss += d * d / (kRows * kOut);
        for (int64_t i = 0; i < kIn; ++i)
          dw[static_cast<size_t>(i * kOut + o)] +=
              static_cast<double>(batch.x.data<float>()[r * kIn + i]) * d / 12;
        db[static_cast<size_t>(o)] += d / kRows;
      }
    }
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.5 * dw[i];
    for (size_t i = 0; i < b.size(); ++i) b[i] -= 0.5 * db[i];
    return loss;
  }
};

void expect_near(const HostTensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.count(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got.data<float>()[i]), want[i], 1e-5) << i;
}

HostTensor state(Session& s, const std::string& name) {
  auto value = s.read_state(name);
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? *value : HostTensor();
}

TEST(States, AreUpdatedByEachRun) {
  const auto package = step_package();
  ASSERT_EQ(package->io.inputs.size(), 3U);
  ASSERT_EQ(package->io.outputs.size(), 1U);
  ASSERT_EQ(package->io.states.size(), 3U);
  on_each_device([&](const std::shared_ptr<Device>& device) {
    for (const bool isolate : {false, true}) {
      const auto session = session_of(package, device, {.isolate_tensors = isolate});
      ASSERT_TRUE(session);
      const Batch batch;
      Reference reference;
      for (int i = 0; i < 6; ++i) {
        const double want = reference.step(batch);
        const auto results = session->run(batch.bindings());
        ASSERT_TRUE(results.ok()) << results.status().message();
        ASSERT_EQ(results->size(), 1U);
        EXPECT_NEAR(static_cast<double>((*results)[0].data<float>()[0]), want, 1e-5);
      }
      expect_near(state(*session, "w"), reference.w);
      expect_near(state(*session, "b"), reference.b);
      EXPECT_EQ(state(*session, "count").data<int64_t>()[0], 6);
      EXPECT_EQ(session->stats().runs, 6U);
    }
  });
}

TEST(States, AreUpdatedInPlaceOnDevices) {
  const auto package = step_package();
  for (const package::Variant& v : package->variants) {
    // Without 64-bit integers, the update of the count itself may fail.
    for (const plan::Buffer& b : v.plan.buffers)
      EXPECT_FALSE(b.kind == plan::BufferKind::NextState && b.index != 1)
          << v.name << ": " << b.name;
    EXPECT_TRUE(plan::verify(v.plan, package->io).ok());
  }
}

TEST(States, MoveAndStay) {
  const std::vector<float> p = initial(5, 1), q = initial(5, 2), old = initial(5, 3),
                           same = initial(5, 4), x = initial(5, 5);
  const auto package = compiled(kMoves, {{"p", "q", floats({5}, p)},
                                         {"q", "p", floats({5}, q)},
                                         {"old", "old_next", floats({5}, old)},
                                         {"same", "same", floats({5}, same)}});
  ASSERT_TRUE(package);
  on_each_device([&](const std::shared_ptr<Device>& device) {
    const auto session = session_of(package, device);
    ASSERT_TRUE(session);
    const HostTensor input = floats({5}, x);
    for (int run = 1; run <= 3; ++run) {
      const auto results = session->run(std::vector<Binding>{{.name = "x", .host = &input}});
      ASSERT_TRUE(results.ok()) << results.status().message();
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_FLOAT_EQ((*results)[0].data<float>()[i], same[i] * x[i]);
        const float before = old[i] + static_cast<float>(run - 1) * x[i];
        EXPECT_FLOAT_EQ((*results)[1].data<float>()[i], before) << "the old value is an output";
        EXPECT_FLOAT_EQ(state(*session, "old").data<float>()[i], before + x[i]);
        EXPECT_FLOAT_EQ(state(*session, "same").data<float>()[i], same[i]);
        EXPECT_FLOAT_EQ(state(*session, "p").data<float>()[i], run % 2 == 1 ? q[i] : p[i]);
        EXPECT_FLOAT_EQ(state(*session, "q").data<float>()[i], run % 2 == 1 ? p[i] : q[i]);
      }
    }
  });
}

TEST(States, AreSavedLoadedAndReset) {
  const auto package = step_package();
  const test::TempDir dir;
  const std::string path = (dir / "states.rpk").string();
  const Batch batch;
  on_each_device([&](const std::shared_ptr<Device>& device) {
    const auto session = session_of(package, device);
    ASSERT_TRUE(session);
    ASSERT_TRUE(session->run(batch.bindings()).ok());
    const HostTensor w = state(*session, "w");
    Status saved = session->save_states(path);
    ASSERT_TRUE(saved.ok()) << saved.message();
    const auto first = session->run(batch.bindings());
    ASSERT_TRUE(first.ok());
    const auto other = session_of(package, device);
    Status loaded = other->load_states(path);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_TRUE(std::ranges::equal(state(*other, "w").bytes(), w.bytes()));
    EXPECT_EQ(state(*other, "count").data<int64_t>()[0], 1);
    const auto second = other->run(batch.bindings());
    ASSERT_TRUE(second.ok());
    EXPECT_TRUE(std::ranges::equal((*first)[0].bytes(), (*second)[0].bytes()));
    ASSERT_TRUE(other->reset_states().ok());
    EXPECT_EQ(state(*other, "count").data<int64_t>()[0], 0);
  });
}

TEST(States, AreCopiedFromASessionToAnother) {
  const auto package = step_package();
  const Batch batch;
  on_each_device([&](const std::shared_ptr<Device>& device) {
    const auto from = session_of(package, nullptr), to = session_of(package, device);
    ASSERT_TRUE(from && to);
    ASSERT_TRUE(from->run(batch.bindings()).ok());
    const Status copied = to->copy_states_from(*from);
    ASSERT_TRUE(copied.ok()) << copied.message();
    for (const plan::StateSlot& slot : package->io.states) {
      EXPECT_TRUE(
          std::ranges::equal(state(*to, slot.name).bytes(), state(*from, slot.name).bytes()))
          << slot.name;
    }
    EXPECT_EQ(state(*to, "count").data<int64_t>()[0], 1);
  });
}

TEST(States, SurviveAPackageFile) {
  const test::TempDir dir;
  const std::string path = (dir / "step.rpk").string();
  ASSERT_TRUE(package::write(*step_package(), path).ok());
  const auto read = package::read(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ((*read)->io.states.size(), 3U);
  EXPECT_EQ((*read)->io.states[0].name, "w");
  on_each_device([&](const std::shared_ptr<Device>& device) {
    const auto session = session_of(*read, device);
    ASSERT_TRUE(session);
    EXPECT_EQ(state(*session, "w").data<float>()[0], -0.5F);
    EXPECT_EQ(state(*session, "b").data<float>()[2], 0.0F);
    // A package is a file of its initial values.
    ASSERT_TRUE(session->run(Batch().bindings()).ok());
    ASSERT_TRUE(session->load_states(path).ok());
    EXPECT_EQ(state(*session, "w").data<float>()[0], -0.5F);
  });
}

void expect_error(const Status& s, Code code, const std::string& part) {
  EXPECT_EQ(s.code(), code) << s.message();
  EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

TEST(States, RunsTakeTurnsWhateverTheOptionsSay) {
  const auto package = step_package();
  ASSERT_TRUE(package);
  on_each_device([&](const std::shared_ptr<Device>& device) {
    if (!device) return;  // a run on the host has ended when it is submitted
    const auto session = session_of(package, device, {.max_in_flight = 8});
    ASSERT_TRUE(session);
    const HostTensor x(DType::F32, {kRows, kIn}), t(DType::F32, {kRows, kOut}), lr(DType::F32, {});
    const std::array<Binding, 3> inputs{Binding{.name = "x", .host = &x},
                                        Binding{.name = "t", .host = &t},
                                        Binding{.name = "lr", .host = &lr}};
    const auto first = session->make_run(), second = session->make_run();
    for (const auto* run : {&first, &second}) {
      ASSERT_TRUE(run->ok());
      ASSERT_TRUE((**run)->bind(inputs, {}).ok());
    }
    ASSERT_TRUE((*first)->submit().ok());
    const Status full = (*second)->submit().status();
    EXPECT_EQ(full.code(), Code::Busy);
    EXPECT_NE(full.message().find("take turns"), std::string::npos) << full.message();
    EXPECT_EQ(full.message().find("larger"), std::string::npos) << full.message();
  });
}

TEST(States, RefuseWhatDoesNotFit) {
  const auto package = step_package();
  const test::TempDir dir;
  const std::string path = (dir / "other.rpk").string();
  const auto other = compiled(kMoves, {{"p", "q"}, {"q", "p"}});
  ASSERT_TRUE(package::write(*other, path).ok());
  on_each_device([&](const std::shared_ptr<Device>& device) {
    const auto session = session_of(package, device);
    ASSERT_TRUE(session);
    expect_error(session->read_state("v").status(), Code::InvalidInput,
                 "the model has no state 'v'; its states are 'w', 'count', 'b'");
    expect_error(session->write_state("w", floats({12}, initial(12, 0))), Code::InvalidInput,
                 "state 'w' is float32[4,3], but the given value is float32[12]");
    expect_error(session->load_states(path), Code::InvalidInput, "'p', which the model lacks");
    expect_error(session->load_states(path + ".none"), Code::Io, ".none");
    EXPECT_EQ(state(*session, "count").data<int64_t>()[0], 0);
    const Batch batch;
    auto bindings = batch.bindings();
    bindings.push_back({.name = "w", .host = &batch.x});
    expect_error(session->run(bindings).status(), Code::InvalidInput, "no input 'w'");
  });
}

TEST(States, OfACompilationMustFit) {
  const struct {
    std::vector<StateOption> states;
    Code code;
    const char* message;
  } cases[] = {
      {{{"v", "w_next"}}, Code::Usage, "state 'v': the model has no input 'v'"},
      {{{"w", "v"}}, Code::Usage, "state 'w': the model has no output 'v'"},
      {{{"w", "w_next"}, {"w", "b_next"}}, Code::Usage, "state 'w' is listed twice"},
      {{{"w", "w_next"}, {"b", "w_next"}}, Code::Usage, "next value of two states"},
      {{{"w", "b_next"}}, Code::InvalidModel, "but its next value 'b_next' is float32[3]"},
      {{{"w", "w_next", floats({3}, {1, 2, 3})}},
       Code::InvalidModel,
       "its initial value is float32[3]"},
  };
  for (const auto& c : cases) {
    auto g = graph::parse(kStep);
    ASSERT_TRUE(g.ok());
    CompileOptions options;
    options.states = c.states;
    expect_error(compile(*std::move(g), options).status(), c.code, c.message);
  }
}

}  // namespace
}  // namespace reprise
