// Random sequences of requests through one session of a small language model equal runs of each
// request alone, bit for bit.
#include <gtest/gtest.h>

#include <random>

#include "apps/generate/conversations.h"
#include "backends/registry.h"
#include "codegen/compile/compile_model.h"
#include "codegen/compile/compiler.h"
#include "codegen/families/decoder_graph.h"
#include "tests/support/paths.h"

namespace reprise::app {
namespace {

constexpr int64_t kCapacity = 48, kChunk = 6;

using Package = std::shared_ptr<const package::Package>;

Package model() {
  const auto file = test::source_dir() / "tests/families/data/llama_q4_0.gguf";
  const auto decoder = families::open_decoder(file.string());
  EXPECT_TRUE(decoder.ok()) << decoder.status().message();
  const auto built = families::build_decoder(*decoder);
  EXPECT_TRUE(built.ok()) << built.status().message();
  CompileOptions options;
  options.grow_states = "auto";
  auto compiled = compile_built(*built, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return std::make_shared<const package::Package>(*std::move(compiled));
}

std::unique_ptr<Session> session_of(const Package& package, const OpenedDevice& device) {
  auto made = Session::create(package, device.device, {});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

/// What a request answers: its ids, and the logits of all of its runs.
struct Answer {
  std::vector<int64_t> ids;
  std::vector<float> logits;
  bool operator==(const Answer&) const = default;
};

/// Conversations that note the logits of each request, which has its number as its seed.
class Noted final : public ConversationModel {
 public:
  explicit Noted(std::unique_ptr<Conversations> of) : of_(std::move(of)) {}

  Result<int64_t> open(const SamplingOptions& options) override {
    RP_ASSIGN(const int64_t c, of_->open(options));
    request_of_[c] = options.seed;
    return c;
  }
  void close(int64_t c) override { of_->close(c); }
  Result<int64_t> advance(int64_t c, std::span<const int64_t> ids, bool chooses) override {
    RP_ASSIGN(const int64_t id, of_->advance(c, ids, chooses));
    const std::span<const float> logits = of_->decoder().logits();
    Answer& answer = answers[request_of_.at(c)];
    answer.logits.insert(answer.logits.end(), logits.begin(), logits.end());
    if (chooses) answer.ids.push_back(id);
    return id;
  }
  Status set_aside(int64_t c) override { return of_->set_aside(c); }
  Status bring_back(int64_t c) override { return of_->bring_back(c); }
  int64_t capacity() const override { return of_->capacity(); }
  const DecoderSession& decoder() const { return of_->decoder(); }

  std::map<uint64_t, Answer> answers;

 private:
  std::unique_ptr<Conversations> of_;
  std::map<int64_t, uint64_t> request_of_;
};

/// The request in a session that has nothing else.
Answer alone(DecoderSession& session, const Request& request) {
  Answer out;
  Sampler sampler(request.sampling);
  EXPECT_TRUE(session.restart().ok());
  const auto advance = [&](std::span<const int64_t> ids) {
    const auto logits = session.advance(ids);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    if (!logits.ok()) return;
    out.logits.insert(out.logits.end(), logits->begin(), logits->end());
  };
  const auto choose = [&] {
    out.ids.push_back(*sampler.choose(session.logits()));
    return std::ssize(out.ids) < request.most &&
           std::ranges::find(request.stops, out.ids.back()) == request.stops.end();
  };
  const std::span<const int64_t> prompt = request.prompt;
  for (size_t at = 0; at < prompt.size(); at += kChunk)
    advance(prompt.subspan(at, std::min<size_t>(kChunk, prompt.size() - at)));
  while (choose()) advance(std::span(out.ids).last(1));
  return out;
}

Request random_request(std::mt19937& rng, int64_t vocabulary, uint64_t seed) {
  Request out;
  const size_t length = 1 + rng() % 16;
  for (size_t i = 0; i < length; ++i)
    out.prompt.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(vocabulary)));
  out.most = 1 + static_cast<int64_t>(rng() % 8);
  if (rng() % 3 == 0) out.stops = {static_cast<int64_t>(rng() % static_cast<uint64_t>(vocabulary))};
  out.sampling.temperature = rng() % 2 == 0 ? 0 : 1;
  out.sampling.seed = seed;
  return out;
}

/// One sequence: requests come while others run.
void serve(Noted& model, DecoderSession& reference, const SchedulerLimits& limits, unsigned seed,
           uint64_t& set_aside) {
  std::mt19937 rng(seed);
  auto scheduler = *Scheduler::create(model, limits);
  std::map<uint64_t, Request> requests;
  std::map<uint64_t, std::vector<int64_t>> got;
  model.answers.clear();
  std::vector<Generated> events;
  const size_t count = 3 + rng() % 3;
  for (int step = 0; step < 1000 && (requests.size() < count || !scheduler->idle()); ++step) {
    if (requests.size() < count && rng() % 2 == 0) {
      const uint64_t number = requests.size() + 1;
      Request request = random_request(rng, model.decoder().vocabulary(), number);
      requests[number] = request;
      ASSERT_EQ(*scheduler->add(std::move(request)), number);
    }
    scheduler->step(events);
  }
  ASSERT_TRUE(scheduler->idle());
  for (const Generated& event : events) {
    ASSERT_TRUE(event.status.ok()) << event.status.message();
    got[event.request].push_back(event.id);
  }
  for (const auto& [number, request] : requests) {
    const Answer want = alone(reference, request);
    EXPECT_EQ(got[number], want.ids) << "request " << number;
    EXPECT_TRUE(model.answers[number] == want) << "request " << number;
  }
  set_aside += scheduler->counts().set_aside;
}

void serve_sequences(const Package& package, const OpenedDevice& device, unsigned sequences) {
  SCOPED_TRACE(device.info.id);
  auto made = Conversations::create(session_of(package, device), kCapacity);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Noted conversations(*std::move(made));
  auto reference = DecoderSession::create(session_of(package, device), kCapacity);
  ASSERT_TRUE(reference.ok()) << reference.status().message();
  const SchedulerLimits roomy{.step_ids = 12, .chunk = kChunk, .page = 8},
      tight{.step_ids = 8, .chunk = kChunk, .rows = 40, .page = 8, .conversations = 4};
  uint64_t set_aside = 0;
  for (unsigned s = 0; s < sequences; ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    serve(conversations, **reference, s % 2 == 0 ? tight : roomy, s, set_aside);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(set_aside, 0U);
}

void serve_on_each(unsigned sequences) {
  const Package package = model();
  ASSERT_TRUE(package);
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable) continue;
    const auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    serve_sequences(package, *device, sequences);
  }
}

TEST(Conversations, EqualRunsOneByOneBitForBit) {
  serve_on_each(12);
}

TEST(Conversations, EqualRunsOneByOneIn200SequencesFull) {
  serve_on_each(200);
}

/// When the device itself has no memory, caches are set aside as well.
TEST(Conversations, AreSetAsideWhenTheDeviceHasNoMemory) {
  const Package package = model();
  ASSERT_TRUE(package);
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.id == "host") continue;
    const auto device = open_device(info.id);
    ASSERT_TRUE(device.ok());
    auto made = Conversations::create(session_of(package, *device), kCapacity);
    ASSERT_TRUE(made.ok()) << made.status().message();
    Noted conversations(*std::move(made));
    auto reference = *DecoderSession::create(session_of(package, *device), kCapacity);
    std::mt19937 rng(3);
    // Warm up, and leave room for the caches of two conversations.
    alone(*reference, random_request(rng, conversations.decoder().vocabulary(), 1));
    const auto advance = [&](int64_t conversation, int64_t ids) {
      ASSERT_TRUE(conversations.advance(conversation, std::vector<int64_t>(ids, 1), true).ok());
    };
    device->device->idle_memory().free_all();  // or else it makes room later
    const int64_t first = *conversations.open({}), second = *conversations.open({});
    advance(first, kChunk);
    advance(second, kChunk);
    const uint64_t used = device->device->memory_budget().used();
    conversations.close(first);
    conversations.close(second);
    ASSERT_LT(device->device->memory_budget().used(), used);
    device->device->memory_budget().set_most(used);
    uint64_t set_aside = 0;
    for (unsigned s = 0; s < 6; ++s)
      serve(conversations, *reference, {.step_ids = 32, .chunk = kChunk}, 100 + s, set_aside);
    EXPECT_GT(set_aside, 0U);
  }
}

}  // namespace
}  // namespace reprise::app
