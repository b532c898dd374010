// Continuous batching: requests come at any time, and each step gives all of them their turn.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "apps/generate/sampler.h"
#include "runtime/base/status.h"

namespace reprise::app {

/// A model that keeps the caches of several conversations, each under a number. A call that fails
/// leaves the conversation as it was. What a conversation answers depends on it alone.
class ConversationModel {
 public:
  virtual ~ConversationModel() = default;
  /// Begins a conversation, which chooses ids by these options.
  virtual Result<int64_t> open(const SamplingOptions& options) = 0;
  virtual void close(int64_t conversation) = 0;
  /// Appends ids, and returns the one that is chosen to follow; -1 if `chooses` is not set.
  virtual Result<int64_t> advance(int64_t conversation, std::span<const int64_t> ids,
                                  bool chooses) = 0;
  /// Moves the caches to memory that is not short, and back, bit for bit.
  virtual Status set_aside(int64_t conversation) = 0;
  virtual Status bring_back(int64_t conversation) = 0;
  /// The most ids that a conversation may have.
  virtual int64_t capacity() const = 0;
};

struct SchedulerLimits {
  int64_t step_ids = 256;  // the most ids that one step runs, of all requests together
  int64_t chunk = 128;     // prompts run in pieces of so many ids; at most step_ids
  /// The most rows of caches in memory, counted in pages of `page` rows for each conversation; 0:
  /// only the model decides, by Code::OutOfMemory.
  int64_t rows = 0;
  int64_t page = 256;
  int64_t conversations = 64;  // the most that have rows in memory
};

struct Request {
  std::vector<int64_t> prompt;
  int64_t most = 1;                 // ids to generate
  std::vector<int64_t> stops = {};  // ids that end the text, which the result has, too
  SamplingOptions sampling = {};
};

/// What a step tells about a request: an id that was generated, or that it has ended, or both.
struct Generated {
  enum class End : uint8_t { None, Length, Stop, Cancelled, Failed };
  uint64_t request = 0;
  int64_t id = -1;  // -1: none
  End end = End::None;
  Status status = {};  // of one that failed
};

/// Each step runs one piece of a prompt, or one id, for as many requests as the limits permit. They
/// take turns, so that a request that does not fit into a step comes first in the next one, and a
/// long prompt holds up nobody. The pieces of a prompt follow from the request alone. So the result
/// of a request does not depend on others, bit for bit.
///
/// If memory is short, the caches of the request that came last are set aside until there is room.
/// The oldest one always goes on. The model runs one conversation after another: what the scheduler
/// batches is turns, not kernels. One thread at a time may use it.
class Scheduler {
 public:
  /// `model` must outlive the scheduler.
  static Result<std::unique_ptr<Scheduler>> create(ConversationModel& model,
                                                   const SchedulerLimits& limits);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  /// Closes all conversations.
  ~Scheduler();

  /// Returns the number of the request. Code::InvalidInput if it could never be served.
  Result<uint64_t> add(Request request);
  /// The next step says that it has ended. Code::Usage if the request is not in progress.
  Status cancel(uint64_t request);
  /// Appends what happened to `out`. A request whose run fails ends; an error of the step itself
  /// does not exist.
  void step(std::vector<Generated>& out);
  /// Whether there is nothing to do.
  bool idle() const { return all_.empty() && ended_.empty(); }

  struct Counts {
    uint64_t steps = 0, ids = 0, runs = 0, set_aside = 0, brought_back = 0;
    int64_t rows = 0;  // in memory now, in whole pages
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Item {
    Request request;
    uint64_t number = 0;  // in the order of arrival
    int64_t conversation = -1;
    bool in_memory = false;  // or else it waits
    int64_t done = 0;        // ids of the prompt, and generated ones, that have run
    int64_t generated = 0;
    int64_t last = -1;  // the id that was generated last, which has not run
  };
  enum class Outcome : uint8_t { Ran, NoRoom, Ended };

  Scheduler(ConversationModel& model, const SchedulerLimits& limits)
      : model_(model), limits_(limits) {}
  int64_t work_of(const Item& item) const;
  int64_t pages(int64_t rows) const;
  bool has_room(int64_t rows) const;
  bool admit(Item& item, std::vector<Generated>& out);
  void admit_all(std::vector<Generated>& out);
  bool make_room(const Item& for_item, int64_t rows);
  bool set_aside_youngest(const Item& except);
  bool set_aside(Item& item);
  Outcome run(Item& item, std::vector<Generated>& out);
  Outcome accept(Item& item, int64_t id, std::vector<Generated>& out);
  Result<int64_t> advance(Item& item);
  void take_rows(const Item& item, int64_t done);
  void fail(Item& item, const Status& status, std::vector<Generated>& out);
  void forget(uint64_t number);

  ConversationModel& model_;
  const SchedulerLimits limits_;
  std::map<uint64_t, Item> all_;  // by number, so the oldest first
  std::deque<uint64_t> turns_;    // of those in memory; the first one is next
  std::vector<Generated> ended_;  // that were cancelled since the last step
  uint64_t last_number_ = 0;
  int64_t active_ = 0;
  Counts counts_;
};

}  // namespace reprise::app
