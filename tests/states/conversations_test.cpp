// States apart from sessions: several conversations through one session, forks that have rows in
// common, and two packages that share them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backends/registry.h"
#include "codegen/compile/compiler.h"
#include "reprise/reprise.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise::conversations {
namespace {

using Package = std::shared_ptr<const package::Package>;
using Conversation = std::shared_ptr<States>;

/// Appends rows, and returns the sum of all.
constexpr const char* kAppend = R"(graph append
input x: float32[n,4]
input past: float32[p,4]
const axes: int64[1]{0}
present: float32[p + n,4] = Concat<axis=0>(past, x) @13
y: float32[1,4] = ReduceSum<keepdims=1>(present, axes) @13
output y
output present
)";

constexpr const char* kAttention = R"(graph attention
input q: float32[1,4,step,8]
input k: float32[1,2,step,8]
input v: float32[1,2,step,8]
input past_k: float32[1,2,past,8]
input past_v: float32[1,2,past,8]
(y, present_k, present_v) = Attention<is_causal=1>(q, k, v, _, past_k, past_v) @23
output y, present_k, present_v
)";

Package compiled(const char* text, const std::vector<std::string>& plans = {}) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return nullptr;
  CompileOptions options;
  options.grow_states = "auto";
  options.plans = *parse_plans(plans);
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? std::make_shared<const package::Package>(*std::move(p)) : nullptr;
}

/// Calls f with each device, and with null for the host.
template <typename F>
void on_each(const F& f) {
  f(std::shared_ptr<Device>());
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.id == "host") continue;
    SCOPED_TRACE(info.id);
    auto opened = open_device(info.id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    f(opened->device);
  }
}

std::unique_ptr<Session> opened(const Package& package, const std::shared_ptr<Device>& device) {
  auto made = Session::create(package, device);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *std::move(made) : nullptr;
}

void expect_failure(const Status& s, Code code, const std::string& part) {
  EXPECT_EQ(s.code(), code) << s.message();
  EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

/// What a conversation should have: a list of rows, each of which is a number four times.
struct Expected {
  Conversation states;
  std::vector<float> rows;
};

/// Random calls on conversations, compared with lists.
class Calls {
 public:
  Calls(std::vector<std::unique_ptr<Session>> sessions, unsigned seed)
      : sessions_(std::move(sessions)), rng_(seed) {
    all_.push_back({*sessions_[0]->make_states(), {}});
  }

  void make_one() {
    const size_t c = below(all_.size());
    Session& session = *sessions_[below(sessions_.size())];
    const size_t kind = below(10);
    ASSERT_TRUE(session.bind_states(all_[c].states).ok());
    if (kind < 4) append(session, all_[c], below(12) == 0 ? 300 : 1 + below(4));
    if (kind == 4) truncate(session, all_[c]);
    if (kind == 5 || kind == 6) fork(c);
    if (kind == 7) save_and_load(session, c);
    if (kind == 8) write(session, all_[c]);
    if (kind == 9 && all_.size() > 1) all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(c));
    ASSERT_TRUE(session.bind_states(nullptr).ok());
  }
  void check() {
    for (Expected& each : all_) {
      Session& session = *sessions_[below(sessions_.size())];
      ASSERT_TRUE(session.bind_states(each.states).ok());
      const auto value = session.read_state("past");
      ASSERT_TRUE(value.ok()) << value.status().message();
      ASSERT_EQ(value->dims()[0], std::ssize(each.rows));
      for (size_t r = 0; r < each.rows.size(); ++r)
        ASSERT_EQ(value->data<float>()[r * 4 + below(4)], each.rows[r]) << "row " << r;
      ASSERT_TRUE(session.bind_states(nullptr).ok());
    }
  }
  Session& session(size_t i) { return *sessions_[i]; }
  size_t count() const { return all_.size(); }

 private:
  size_t below(size_t n) { return rng_() % n; }

  std::vector<float> new_rows(size_t count) {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i)
      values.insert(values.end(), 4, static_cast<float>(++last_ % 1000));
    return values;
  }
  static HostTensor tensor_of(const std::vector<float>& values) {
    return HostTensor::from(DType::F32, {std::ssize(values) / 4, 4}, values);
  }
  static void add(const std::vector<float>& values, std::vector<float>& rows) {
    for (size_t i = 0; i < values.size(); i += 4) rows.push_back(values[i]);
  }
  void append(Session& session, Expected& to, size_t count) {
    const std::vector<float> values = new_rows(count);
    const HostTensor x = tensor_of(values);
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    add(values, to.rows);
    std::vector<HostTensor> results;
    if (below(2) == 0) {
      const Status ran = session.run_into(inputs, {}, results, nullptr);
      ASSERT_TRUE(ran.ok()) << ran.message();
    } else {  // a run object with states of its own, whatever the session has
      auto run = session.make_run();
      ASSERT_TRUE(run.ok() && (*run)->bind_states(to.states).ok());
      ASSERT_TRUE((*run)->bind(inputs, {}).ok() && session.bind_states(nullptr).ok());
      const auto submitted = (*run)->submit();
      ASSERT_TRUE(submitted.ok()) << submitted.status().message();
      const Status waited = (*run)->wait(results, nullptr);
      ASSERT_TRUE(waited.ok()) << waited.message();
    }
    double sum = 0;
    for (const float row : to.rows) sum += row;
    ASSERT_NEAR(results[0].data<float>()[0], sum, 1e-6 * sum);
  }
  void truncate(Session& session, Expected& of) {
    of.rows.resize(below(of.rows.size() + 1));
    ASSERT_TRUE(session.truncate_states("", std::ssize(of.rows)).ok());
  }
  void fork(size_t c) {
    if (all_.size() > 6) return;
    const size_t length = below(all_[c].rows.size() + 1);
    const bool whole = below(2) == 0;
    auto forked = all_[c].states->fork(whole ? -1 : static_cast<int64_t>(length));
    ASSERT_TRUE(forked.ok()) << forked.status().message();
    Expected& made = all_.emplace_back(Expected{*forked, all_[c].rows});
    if (!whole) made.rows.resize(length);
  }
  void save_and_load(Session& session, size_t c) {
    const std::string path = (dir_ / "states.rpk").string();
    ASSERT_TRUE(session.save_states(path).ok());
    Expected& other = all_[below(all_.size())];
    ASSERT_TRUE(session.bind_states(other.states).ok());
    const Status loaded = session.load_states(path);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    other.rows = all_[c].rows;
  }
  void write(Session& session, Expected& to) {
    const std::vector<float> values = new_rows(below(20));
    ASSERT_TRUE(session.write_state("past", tensor_of(values)).ok());
    to.rows.clear();
    add(values, to.rows);
  }

  std::vector<std::unique_ptr<Session>> sessions_;
  std::mt19937 rng_;
  std::vector<Expected> all_;
  size_t last_ = 0;
  const test::TempDir dir_;
};

void equal_lists(int calls) {
  const Package one = compiled(kAppend), two = compiled(kAppend, {"n=1"});
  ASSERT_TRUE(one && two);
  on_each([&](const std::shared_ptr<Device>& device) {
    for (const unsigned seed : {1U, 2U, 3U}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::vector<std::unique_ptr<Session>> sessions;
      sessions.push_back(opened(one, device));
      sessions.push_back(opened(two, device));
      ASSERT_TRUE(sessions[0] && sessions[1]);
      Calls random(std::move(sessions), seed);
      for (int i = 0; i < calls; ++i) {
        SCOPED_TRACE("call " + std::to_string(i));
        random.make_one();
        if (i % 5 == 0) random.check();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(Conversations, EqualListsInRandomCalls) {
  equal_lists(60);
}

TEST(Conversations, EqualListsInManyRandomCallsFull) {
  equal_lists(5000);
}

/// The inputs of a step with `rows` new rows.
struct Step {
  HostTensor q, k, v;
  Step(int64_t rows, unsigned seed) {
    std::mt19937 rng(seed);
    q = test::random_tensor(DType::F32, {1, 4, rows, 8}, rng);
    k = test::random_tensor(DType::F32, {1, 2, rows, 8}, rng);
    v = test::random_tensor(DType::F32, {1, 2, rows, 8}, rng);
  }
  std::vector<Binding> bindings() const {
    return {{.name = "q", .host = &q}, {.name = "k", .host = &k}, {.name = "v", .host = &v}};
  }
};

TEST(Conversations, EqualSessionsOfTheirOwnBitForBitAndRecordNothingNew) {
  const Package package = compiled(kAttention, {"step=1"});
  ASSERT_TRUE(package);
  on_each([&](const std::shared_ptr<Device>& device) {
    constexpr size_t kCount = 3;
    const auto shared = opened(package, device);
    std::vector<std::unique_ptr<Session>> own;
    std::vector<Conversation> states;
    for (size_t c = 0; c < kCount; ++c) {
      own.push_back(opened(package, device));
      states.push_back(*shared->make_states());
    }
    uint64_t recordings = 0;
    for (unsigned i = 0; i < 60; ++i) {
      const size_t c = (i * 7 + i / 5) % kCount;
      const Step step(i < 6 ? 5 + i : 1, i);
      ASSERT_TRUE(shared->bind_states(states[c]).ok());
      const auto got = shared->run(step.bindings()), want = own[c]->run(step.bindings());
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_TRUE(want.ok()) << want.status().message();
      ASSERT_TRUE(std::ranges::equal((*got)[0].bytes(), (*want)[0].bytes())) << "step " << i;
      if (i == 10) recordings = shared->stats().recordings;
    }
    EXPECT_EQ(shared->stats().recordings, recordings);
    for (size_t c = 0; c < kCount; ++c) {
      ASSERT_TRUE(shared->bind_states(states[c]).ok());
      const HostTensor got = *shared->read_state("past_v"), want = *own[c]->read_state("past_v");
      EXPECT_TRUE(std::ranges::equal(got.bytes(), want.bytes()));
    }
  });
}

HostTensor run_step(Session& session, const Step& step) {
  const auto results = session.run(step.bindings());
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? (*results)[0] : HostTensor();
}

/// Forks at several lengths go on in turn with the conversation of which they are forks. Each gives
/// the bits of a session in which nothing else was said.
TEST(Conversations, ThatWereForkedEqualThoseFromTheStartBitForBit) {
  const Package package = compiled(kAttention, {"step=1"});
  ASSERT_TRUE(package);
  constexpr int64_t kPieces[] = {17, 1, 9, 1}, kForksAt[] = {17, 18, 27, -1, -1};
  on_each([&](const std::shared_ptr<Device>& device) {
    const auto shared = opened(package, device);
    std::vector<Conversation> states{*shared->make_states()};
    ASSERT_TRUE(shared->bind_states(states[0]).ok());
    for (unsigned p = 0; p < 4; ++p) run_step(*shared, Step(kPieces[p], p));
    std::vector<std::unique_ptr<Session>> alone;
    alone.push_back(opened(package, device));
    for (unsigned p = 0; p < 4; ++p) run_step(*alone[0], Step(kPieces[p], p));
    for (const int64_t at : kForksAt) {
      auto forked = states[0]->fork(at);
      ASSERT_TRUE(forked.ok()) << forked.status().message();
      states.push_back(*forked);
      alone.push_back(opened(package, device));
      int64_t length = 0;
      for (unsigned p = 0; p < 4 && length != at; length += kPieces[p], ++p)
        run_step(*alone.back(), Step(kPieces[p], p));
    }
    for (unsigned i = 0; i < 30; ++i) {
      const size_t c = (i * 5 + i / 6) % states.size();
      const Step step(i % 7 == 3 ? 260 : 1, 100 + i);  // 260: more than there is room for
      ASSERT_TRUE(shared->bind_states(states[c]).ok());
      const HostTensor got = run_step(*shared, step), want = run_step(*alone[c], step);
      ASSERT_TRUE(std::ranges::equal(got.bytes(), want.bytes())) << "turn " << i << " of " << c;
    }
    for (size_t c = 0; c < states.size(); ++c) {
      ASSERT_TRUE(shared->bind_states(states[c]).ok());
      for (const char* name : {"past_k", "past_v"}) {
        const HostTensor got = *shared->read_state(name), want = *alone[c]->read_state(name);
        EXPECT_TRUE(got.dims() == want.dims() && std::ranges::equal(got.bytes(), want.bytes()));
      }
    }
  });
}

/// A file of a conversation that is cut off, damaged or of another model changes nothing.
TEST(Conversations, AreSavedAndDamagedFilesChangeNothing) {
  const Package package = compiled(kAttention), other = compiled(kAppend);
  ASSERT_TRUE(package && other);
  const test::TempDir dir;
  const auto path = [&](const char* name) { return (dir / name).string(); };
  on_each([&](const std::shared_ptr<Device>& device) {
    const auto session = opened(package, device), foreign = opened(other, device);
    const Conversation first = *session->make_states();
    ASSERT_TRUE(session->bind_states(first).ok());
    run_step(*session, Step(20, 1));
    const Conversation answer = *first->fork(12), loaded = *session->make_states();
    ASSERT_TRUE(session->bind_states(answer).ok());
    ASSERT_TRUE(session->save_states(path("saved")).ok());
    ASSERT_TRUE(session->bind_states(loaded).ok());
    ASSERT_TRUE(session->load_states(path("saved")).ok());
    EXPECT_EQ(loaded->info()->length, 12);
    const HostTensor before = *session->read_state("past_k");
    const std::string bytes = test::read_file(path("saved"));
    for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 37) {
      test::write_file(path("damaged"), bytes.substr(0, cut));
      const Status s = session->load_states(path("damaged"));
      EXPECT_EQ(s.code(), Code::CorruptPackage) << cut << ": " << s.message();
    }
    std::string flipped = bytes;
    flipped[bytes.size() - 3] ^= 4;
    test::write_file(path("damaged"), flipped);
    EXPECT_EQ(session->load_states(path("damaged")).code(), Code::CorruptPackage);
    ASSERT_TRUE(foreign->save_states(path("foreign")).ok());
    expect_failure(session->load_states(path("foreign")), Code::InvalidInput, "'past'");
    EXPECT_TRUE(std::ranges::equal(session->read_state("past_k")->bytes(), before.bytes()));
    ASSERT_TRUE(session->bind_states(answer).ok());
    const HostTensor want = run_step(*session, Step(1, 9));
    ASSERT_TRUE(session->bind_states(loaded).ok());
    const HostTensor got = run_step(*session, Step(1, 9));
    EXPECT_TRUE(std::ranges::equal(got.bytes(), want.bytes()));
  });
}

/// Four conversations that begin alike: as long as they only read, there is one copy.
TEST(Conversations, HaveAPrefixInCommonUntilTheyAppend) {
  const Package package = compiled(kAttention);
  ASSERT_TRUE(package);
  on_each([&](const std::shared_ptr<Device>& device) {
    if (!device) return;
    const auto session = opened(package, device);
    const Conversation first = *session->make_states();
    ASSERT_TRUE(session->bind_states(first).ok());
    ASSERT_TRUE(session->run(Step(1000, 1).bindings()).ok());
    const States::Info alone = *first->info();
    EXPECT_EQ(alone.length, 1000);
    EXPECT_EQ(alone.shared_bytes, 0U);
    EXPECT_GE(alone.bytes, 2U * 1000 * 64);
    const uint64_t before = device->memory_budget().used();
    std::vector<Conversation> forks;
    for (int f = 0; f < 3; ++f) forks.push_back(*first->fork(-1));
    EXPECT_EQ(device->memory_budget().used(), before) << "nothing is copied";
    EXPECT_EQ(forks[0]->info()->shared_bytes, alone.bytes);
    for (const Conversation& each : {forks[0], forks[1], first}) {
      ASSERT_TRUE(session->bind_states(each).ok());
      ASSERT_TRUE(session->run(Step(1, 2).bindings()).ok());
    }
    // forks[0] was the first to append, and forks[2] has appended nothing.
    EXPECT_EQ(forks[0]->info()->shared_bytes, forks[0]->info()->bytes);
    EXPECT_EQ(forks[1]->info()->shared_bytes, 0U);
    EXPECT_EQ(first->info()->shared_bytes, 0U);
    forks.clear();
    EXPECT_LE(device->memory_budget().used(), before + 4096);
  });
}

/// A device that has not ended a run in time still uses its states, which no other session may
/// then.
TEST(Conversations, StayInUseWhileTheDeviceIsLate) {
  const Package package = compiled(kAppend);
  ASSERT_TRUE(package);
  on_each([&](const std::shared_ptr<Device>& device) {
    if (!device) return;
    auto late = Session::create(package, device, {.timeout_ns = 1});
    ASSERT_TRUE(late.ok()) << late.status().message();
    const auto other = opened(package, device);
    const Conversation states = *other->make_states();
    const HostTensor x(DType::F32, {2, 4});
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    int64_t length = 0;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE((*late)->bind_states(states).ok());
      const Status ran = (*late)->run(inputs).status();
      if (ran.ok()) length += 2;
      if (!ran.ok()) {
        ASSERT_EQ(ran.code(), Code::Timeout) << ran.message();
        expect_failure(states->info().status(), Code::Busy, "wait for it");
      }
      ASSERT_TRUE((*late)->bind_states(nullptr).ok()) << "it waits for the device";
      ASSERT_TRUE(other->bind_states(states).ok() && other->run(inputs).ok());
      length += 2;
      EXPECT_EQ(states->info()->length, length);
    }
  });
}

TEST(Conversations, ExplainWhatIsWrong) {
  const Package package = compiled(kAppend), attention = compiled(kAttention);
  ASSERT_TRUE(package && attention);
  on_each([&](const std::shared_ptr<Device>& device) {
    const auto session = opened(package, device), other = opened(attention, device),
               host = opened(package, nullptr);
    const Conversation states = *session->make_states();
    expect_failure(states->fork(1).status(), Code::Usage, "cannot be truncated to 1");
    expect_failure(states->fork(-2).status(), Code::Usage, "cannot have -2 rows");
    expect_failure(other->bind_states(states), Code::Usage, "the first that differs is 'past_k'");
    if (device)
      expect_failure(host->bind_states(states), Code::Usage, "make them with this session");
    if (device)
      expect_failure(session->bind_states(*host->make_states()), Code::Usage,
                     "make them with this session");
    const HostTensor x(DType::F32, {2, 4});
    const std::vector<Binding> inputs{{.name = "x", .host = &x}};
    auto run = session->make_run();
    ASSERT_TRUE((*run)->bind(inputs, {}).ok() && (*run)->bind_states(states).ok());
    ASSERT_TRUE((*run)->submit().ok());
    expect_failure((*run)->bind_states(nullptr), Code::Usage, "in flight");
    if (device) expect_failure(states->fork(-1).status(), Code::Busy, "wait for it");
    std::vector<HostTensor> results;
    ASSERT_TRUE((*run)->wait(results, nullptr).ok());
    EXPECT_EQ(states->info()->length, 2);
    EXPECT_EQ(session->state_rows("past")->length, 0) << "the session's own states";
  });
}

TEST(Conversations, OfTheCInterface) {
  const Package compiled_package = compiled(kAppend);
  ASSERT_TRUE(compiled_package);
  const test::TempDir dir;
  const std::string path = (dir / "model.rpk").string();
  ASSERT_TRUE(package::write(*compiled_package, path).ok());
  reprise_error error{};
  reprise_package* package = nullptr;
  reprise_device* device = nullptr;
  reprise_session* session = nullptr;
  reprise_run* run = nullptr;
  ASSERT_EQ(reprise_package_open(path.c_str(), &package, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_device_open("auto", nullptr, &device, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_session_create(package, device, nullptr, &session, &error), REPRISE_OK)
      << error.message;
  reprise_states *prompt = nullptr, *answer = nullptr;
  ASSERT_EQ(reprise_states_create(session, &prompt, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_session_bind_states(session, prompt, &error), REPRISE_OK) << error.message;
  std::vector<float> x(12, 0.5F), y(4);
  reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
  in.name = "x", in.rank = 2, in.dims[0] = 3, in.dims[1] = 4;
  in.data = x.data(), in.bytes = x.size() * sizeof(float);
  out.name = "y", out.data = y.data(), out.bytes = y.size() * sizeof(float);
  const auto run_once = [&] {
    return reprise_session_run(session, &in, 1, &out, 1, nullptr, nullptr, &error);
  };
  ASSERT_EQ(run_once(), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_states_fork(prompt, 2, &answer, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_run_create(session, &run, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_run_bind_states(run, answer, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_run_bind(run, &in, 1, &out, 1, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_run_submit(run, nullptr, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_run_wait(run, nullptr, nullptr, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(y[0], 2.5F);
  reprise_states_info info = REPRISE_STATES_INFO_INIT;
  ASSERT_EQ(reprise_states_get_info(answer, &info, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(info.length, 5);
  EXPECT_GE(info.bytes, 80U);
  EXPECT_EQ(reprise_states_fork(answer, 6, &prompt, &error), REPRISE_USAGE);
  EXPECT_EQ(reprise_states_fork(answer, -2, &prompt, &error), REPRISE_USAGE);
  EXPECT_EQ(reprise_states_fork(nullptr, 0, &prompt, &error), REPRISE_USAGE);
  reprise_states_free(prompt);  // the session keeps them
  EXPECT_EQ(reprise_states_get_info(prompt, &info, &error), REPRISE_USAGE);
  ASSERT_EQ(run_once(), REPRISE_OK) << error.message;
  EXPECT_EQ(y[0], 3.0F);
  ASSERT_EQ(reprise_session_bind_states(session, nullptr, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(run_once(), REPRISE_OK) << error.message;
  EXPECT_EQ(y[0], 1.5F);
  reprise_run_free(run);
  reprise_states_free(answer);
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
}

}  // namespace
}  // namespace reprise::conversations
