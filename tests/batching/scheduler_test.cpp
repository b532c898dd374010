// The scheduler against a model of it: random arrivals, cancellations and lack of memory, with a
// model that answers by what it was given, in which pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "apps/generate/scheduler.h"

namespace reprise::app {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15U;
  return h ^ (h >> 29U);
}

/// What a conversation of the toy model depends on: all ids, and the pieces in which they came.
struct Toy {
  uint64_t hash = 0;
  int64_t rows = 0;

  explicit Toy(uint64_t seed = 0) : hash(mix(1, seed)) {}
  int64_t advance(std::span<const int64_t> ids) {
    for (const int64_t id : ids) hash = mix(hash, static_cast<uint64_t>(id));
    hash = mix(hash, ids.size());
    rows += std::ssize(ids);
    return static_cast<int64_t>(hash % 50);
  }
};

/// The toy model, whose memory holds so many rows; 0: any number.
class ToyModel final : public ConversationModel {
 public:
  explicit ToyModel(int64_t most_rows, unsigned seed) : most_rows_(most_rows), rng_(seed) {}

  Result<int64_t> open(const SamplingOptions& options) override {
    all_.emplace(++last_, One{Toy(options.seed), true});
    return last_;
  }
  void close(int64_t conversation) override {
    EXPECT_EQ(all_.count(conversation), 1U);
    const One& one = all_.at(conversation);
    if (one.in_memory) rows_ -= one.toy.rows;
    all_.erase(conversation);
  }
  Result<int64_t> advance(int64_t conversation, std::span<const int64_t> ids,
                          bool chooses) override {
    One& one = all_.at(conversation);
    EXPECT_TRUE(one.in_memory);
    if (rows_ + std::ssize(ids) > most_rows_ && most_rows_ != 0)
      return Status(Code::OutOfMemory, "no room for rows");
    if (fails != 0 && rng_() % fails == 0) return Status(Code::Device, "the device failed");
    rows_ += std::ssize(ids);
    step_ids += std::ssize(ids);
    largest = std::max(largest, rows_);
    const int64_t id = one.toy.advance(ids);
    return chooses ? id : -1;
  }
  Status set_aside(int64_t conversation) override {
    One& one = all_.at(conversation);
    EXPECT_TRUE(one.in_memory);
    one.in_memory = false;
    rows_ -= one.toy.rows;
    return {};
  }
  Status bring_back(int64_t conversation) override {
    One& one = all_.at(conversation);
    EXPECT_FALSE(one.in_memory);
    if (rows_ + one.toy.rows > most_rows_ && most_rows_ != 0)
      return {Code::OutOfMemory, "no room for the rows that were set aside"};
    one.in_memory = true;
    rows_ += one.toy.rows;
    return {};
  }
  int64_t capacity() const override { return 200; }
  size_t open_count() const { return all_.size(); }
  int64_t rows() const { return rows_; }

  int64_t step_ids = 0, largest = 0;
  unsigned fails = 0;  // one run of so many

 private:
  struct One {
    Toy toy;
    bool in_memory;
  };
  const int64_t most_rows_;
  std::mt19937 rng_;
  std::map<int64_t, One> all_;
  int64_t last_ = 0, rows_ = 0;
};

/// The ids of a request that runs alone.
std::vector<int64_t> alone(const Request& request, int64_t chunk) {
  Toy toy(request.sampling.seed);
  std::vector<int64_t> out;
  int64_t id = 0;
  for (size_t at = 0; at < request.prompt.size(); at += static_cast<size_t>(chunk)) {
    const size_t count = std::min(static_cast<size_t>(chunk), request.prompt.size() - at);
    id = toy.advance(std::span(request.prompt).subspan(at, count));
  }
  while (true) {
    out.push_back(id);
    if (std::ssize(out) == request.most || std::ranges::count(request.stops, id) > 0) return out;
    id = toy.advance(std::span(&id, 1));
  }
}

/// A request in progress, as the test knows it.
struct Known {
  std::vector<int64_t> ids;  // all that it will generate
  size_t got = 0;
  uint64_t oldest_since = 0;  // the step; 0: it is not the oldest
  uint64_t steps = 0;         // that it needs alone
};

class Arrivals {
 public:
  Arrivals(const SchedulerLimits& limits, int64_t model_rows, unsigned seed, unsigned fails)
      : limits_(limits), model_(model_rows, seed), rng_(seed) {
    model_.fails = fails;
    auto made = Scheduler::create(model_, limits);
    EXPECT_TRUE(made.ok()) << made.status().message();
    scheduler_ = *std::move(made);
  }

  void step(bool arrive) {
    if (arrive && known_.size() < 40 && below(3) == 0) add();
    if (!known_.empty() && below(60) == 0) cancel();
    model_.step_ids = 0;
    events_.clear();
    scheduler_->step(events_);
    for (const Generated& event : events_) take(event);
    ASSERT_TRUE(cancelled_.empty()) << "a request was cancelled, and no step said so";
    check();
  }
  bool idle() const { return scheduler_->idle() && known_.empty(); }
  const Scheduler::Counts& counts() const { return scheduler_->counts(); }
  uint64_t ended() const { return ended_; }
  ToyModel& model() { return model_; }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(rng_() % n); }

  void add() {
    Request request;
    const unsigned length = 1 + below(below(4) == 0 ? 60 : 8);
    for (unsigned i = 0; i < length; ++i) request.prompt.push_back(below(50));
    request.most = 1 + below(30);
    if (below(3) == 0) request.stops = {below(50), below(50)};
    request.sampling.seed = below(3);
    Known known;
    known.ids = alone(request, limits_.chunk);
    const auto pieces =
        (length + static_cast<uint64_t>(limits_.chunk) - 1) / static_cast<uint64_t>(limits_.chunk);
    known.steps = pieces + known.ids.size();
    const auto added = scheduler_->add(std::move(request));
    ASSERT_TRUE(added.ok()) << added.status().message();
    known_.emplace(*added, std::move(known));
  }
  void cancel() {
    auto at = known_.begin();
    std::advance(at, below(static_cast<unsigned>(known_.size())));
    ASSERT_TRUE(scheduler_->cancel(at->first).ok());
    EXPECT_EQ(scheduler_->cancel(at->first).code(), Code::Usage);
    cancelled_.push_back(at->first);
    known_.erase(at);
  }
  void take(const Generated& event) {
    using End = Generated::End;
    if (event.end == End::Cancelled) {
      ASSERT_EQ(std::erase(cancelled_, event.request), 1U);
      return;
    }
    const auto at = known_.find(event.request);
    ASSERT_NE(at, known_.end());
    if (event.end == End::Failed) {
      ASSERT_EQ(event.status.message(), "the device failed");
      known_.erase(at);
      return;
    }
    Known& known = at->second;
    ASSERT_LT(known.got, known.ids.size());
    ASSERT_EQ(event.id, known.ids[known.got++]) << "request " << event.request;
    ASSERT_EQ(event.end != End::None, known.got == known.ids.size());
    if (event.end == End::None) return;
    known_.erase(at);
    ++ended_;
  }
  void check() {
    ASSERT_LE(model_.step_ids, limits_.step_ids);
    if (limits_.rows != 0) {
      ASSERT_LE(model_.rows(), scheduler_->counts().rows);
      ASSERT_LE(scheduler_->counts().rows, limits_.rows);
      ASSERT_LE(model_.largest, limits_.rows);
    }
    ASSERT_LE(model_.open_count(), known_.size());
    ASSERT_EQ(scheduler_->idle(), known_.empty());
    if (known_.empty()) return;
    // The oldest request always goes on: it needs a turn for each of its runs.
    Known& oldest = known_.begin()->second;
    const uint64_t now = scheduler_->counts().steps;
    if (oldest.oldest_since == 0) oldest.oldest_since = now;
    const auto most = oldest.steps * 2 * static_cast<uint64_t>(limits_.conversations) + 100;
    ASSERT_LE(now - oldest.oldest_since, most) << "request " << known_.begin()->first;
  }

  const SchedulerLimits limits_;
  ToyModel model_;
  std::mt19937 rng_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<uint64_t, Known> known_;
  std::vector<uint64_t> cancelled_;
  std::vector<Generated> events_;
  uint64_t ended_ = 0;
};

struct Case {
  const char* name;
  SchedulerLimits limits;
  int64_t model_rows;  // of its memory; 0: enough
  unsigned fails;
};

const Case kCases[] = {
    {"room for all", {.step_ids = 64, .chunk = 16, .page = 8, .conversations = 64}, 0, 0},
    {"few turns", {.step_ids = 8, .chunk = 8, .page = 8, .conversations = 64}, 0, 0},
    {"few rows", {.step_ids = 32, .chunk = 7, .rows = 120, .page = 8, .conversations = 8}, 0, 0},
    {"one at a time", {.step_ids = 5, .chunk = 5, .page = 1, .conversations = 1}, 0, 0},
    {"a model without memory", {.step_ids = 32, .chunk = 16, .conversations = 16}, 110, 0},
    {"both", {.step_ids = 16, .chunk = 9, .rows = 150, .page = 4, .conversations = 6}, 110, 0},
    {"runs that fail", {.step_ids = 32, .chunk = 7, .rows = 120, .page = 8}, 0, 50},
};

void take_steps(uint64_t steps) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Arrivals arrivals(c.limits, c.model_rows, 17, c.fails);
    for (uint64_t s = 0; s < steps; ++s) {
      arrivals.step(true);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int s = 0; s < 100'000 && !arrivals.idle(); ++s) {
      arrivals.step(false);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(arrivals.idle());
    EXPECT_GT(arrivals.ended(), steps / 100);
    EXPECT_EQ(arrivals.model().open_count(), 0U);
    EXPECT_EQ(arrivals.counts().rows, 0);
    const bool short_of_memory = c.limits.rows != 0 || c.model_rows != 0;
    EXPECT_EQ(arrivals.counts().set_aside > 0, short_of_memory);
  }
}

TEST(Scheduler, EqualsRunsOneByOne) {
  take_steps(3'000);
}

TEST(Scheduler, EqualsRunsOneByOneInAMillionStepsFull) {
  take_steps(150'000);
}

Status created(const SchedulerLimits& limits) {
  ToyModel model(0, 1);
  return Scheduler::create(model, limits).status();
}

TEST(Scheduler, RefusesWhatCannotBeServed) {
  EXPECT_EQ(created({.step_ids = 4, .chunk = 5}).code(), Code::Usage);
  EXPECT_EQ(created({.step_ids = 0, .chunk = 0}).code(), Code::Usage);
  EXPECT_EQ(created({.page = 0}).code(), Code::Usage);
  ToyModel model(0, 1);
  auto scheduler = *Scheduler::create(model, {.rows = 64, .page = 32});
  EXPECT_EQ(scheduler->add({.prompt = {}, .most = 1}).status().code(), Code::InvalidInput);
  EXPECT_EQ(scheduler->add({.prompt = {1}, .most = 0}).status().code(), Code::InvalidInput);
  const Status too_long = scheduler->add({.prompt = {1}, .most = INT64_MAX}).status();
  EXPECT_NE(too_long.message().find("a conversation may have 200"), std::string::npos)
      << too_long.message();
  const Status too_large = scheduler->add({.prompt = {1}, .most = 65}).status();
  EXPECT_NE(too_large.message().find("needs 96 rows of caches, and the limit is 64"),
            std::string::npos)
      << too_large.message();
  ASSERT_TRUE(scheduler->add({.prompt = {1}, .most = 64}).ok());
  EXPECT_EQ(scheduler->cancel(7).code(), Code::Usage);
}

TEST(Scheduler, FailsARequestThatNoMemoryServes) {
  ToyModel model(10, 1);
  auto scheduler = *Scheduler::create(model, {});
  const uint64_t large = *scheduler->add({.prompt = std::vector<int64_t>(11, 1), .most = 1});
  const uint64_t small = *scheduler->add({.prompt = {1, 2}, .most = 2});
  std::vector<Generated> events;
  for (int s = 0; s < 10 && !scheduler->idle(); ++s) scheduler->step(events);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_TRUE(scheduler->idle());
  for (const Generated& event : events)
    EXPECT_EQ(event.end == Generated::End::Failed, event.request == large);
  EXPECT_EQ(events.back().request, small);
}

}  // namespace
}  // namespace reprise::app
