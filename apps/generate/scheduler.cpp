#include "apps/generate/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

namespace reprise::app {
namespace {

std::string count_text(int64_t n) {
  return std::to_string(n);
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::create(ConversationModel& model,
                                                     const SchedulerLimits& limits) {
  if (limits.chunk < 1 || limits.chunk > limits.step_ids)
    return Status(Code::Usage, "pieces of a prompt have " + count_text(limits.chunk) +
                                   " ids, but must have 1 to " + count_text(limits.step_ids) +
                                   ", the most that a step runs");
  if (limits.page < 1 || limits.rows < 0 || limits.conversations < 1)
    return Status(Code::Usage,
                  "a scheduler needs pages of at least 1 row, 1 conversation, and 0 rows or more");
  return std::unique_ptr<Scheduler>(new Scheduler(model, limits));
}

Scheduler::~Scheduler() {
  for (const auto& [n, item] : all_)
    if (item.conversation >= 0) model_.close(item.conversation);
}

int64_t Scheduler::pages(int64_t rows) const {
  return (rows + limits_.page - 1) / limits_.page * limits_.page;
}

Result<uint64_t> Scheduler::add(Request request) {
  const auto prompt = std::ssize(request.prompt);
  if (prompt == 0 || request.most < 1)
    return invalid_input("a request needs a prompt and at least 1 id to generate");
  RP_TRY(check_sampling(request.sampling));
  // The last id that is generated does not run.
  const bool fits = request.most - 1 <= model_.capacity() - prompt;
  if (!fits)
    return invalid_input("the prompt has " + count_text(prompt) + " ids and " +
                         count_text(request.most) +
                         " are to be generated, but a conversation may have " +
                         count_text(model_.capacity()) + "; shorten one of them");
  const int64_t rows = pages(prompt + request.most - 1);
  if (limits_.rows != 0 && rows > limits_.rows)
    return invalid_input("the request needs " + count_text(rows) +
                         " rows of caches, and the limit is " + count_text(limits_.rows) +
                         "; shorten it or raise the limit");
  const uint64_t n = ++last_number_;
  Item& item = all_[n];
  item.request = std::move(request);
  item.number = n;
  return n;
}

Status Scheduler::cancel(uint64_t request) {
  if (!all_.contains(request))
    return {Code::Usage, "no request " + std::to_string(request) + " is in progress"};
  forget(request);
  ended_.push_back({.request = request, .end = Generated::End::Cancelled});
  return {};
}

void Scheduler::forget(uint64_t request) {
  const auto at = all_.find(request);
  Item& item = at->second;
  if (item.in_memory) {
    take_rows(item, 0);
    --active_;
    std::erase(turns_, request);
  }
  if (item.conversation >= 0) model_.close(item.conversation);
  all_.erase(at);
}

void Scheduler::fail(Item& item, const Status& status, std::vector<Generated>& out) {
  out.push_back({.request = item.number, .end = Generated::End::Failed, .status = status});
  forget(item.number);
}

/// How many ids the request runs next.
int64_t Scheduler::work_of(const Item& item) const {
  const int64_t left = std::ssize(item.request.prompt) - item.done;
  return left > 0 ? std::min(limits_.chunk, left) : 1;
}

/// Counts that the item has `done` rows in memory now.
void Scheduler::take_rows(const Item& item, int64_t done) {
  counts_.rows += pages(done) - pages(item.done);
}

bool Scheduler::has_room(int64_t rows) const {
  return limits_.rows == 0 || counts_.rows + rows <= limits_.rows;
}

bool Scheduler::set_aside(Item& item) {
  if (!model_.set_aside(item.conversation).ok()) return false;
  take_rows(item, 0);
  item.in_memory = false;
  --active_;
  ++counts_.set_aside;
  std::erase(turns_, item.number);
  return true;
}

/// Only one that came after `except`.
bool Scheduler::set_aside_youngest(const Item& except) {
  for (auto it = all_.rbegin(); it != all_.rend() && it->first > except.number; ++it)
    if (it->second.in_memory && set_aside(it->second)) return true;
  return false;
}

bool Scheduler::make_room(const Item& for_item, int64_t rows) {
  while (!has_room(rows))
    if (!set_aside_youngest(for_item)) return false;
  return true;
}

/// Gives a request that waits its turns, if there is room for its next piece. Returns whether the
/// next one may follow.
bool Scheduler::admit(Item& item, std::vector<Generated>& out) {
  const int64_t spare = active_ > 0 && item.done > 0 ? limits_.page : 0;  // lest it leaves again
  if (active_ >= limits_.conversations || !has_room(pages(item.done + work_of(item)) + spare))
    return false;
  Status ready;
  if (item.conversation < 0) {
    const Result<int64_t> opened = model_.open(item.request.sampling);
    ready = opened.status();
    if (ready.ok()) item.conversation = *opened;
  } else {
    ready = model_.bring_back(item.conversation);
    counts_.brought_back += ready.ok() ? 1 : 0;
  }
  if (ready.code() == Code::OutOfMemory && active_ > 0) return false;  // until one has ended
  if (!ready.ok()) {
    fail(item, ready, out);
    return true;
  }
  item.in_memory = true;
  ++active_;
  counts_.rows += pages(item.done);
  turns_.push_back(item.number);
  return true;
}

void Scheduler::admit_all(std::vector<Generated>& out) {
  for (auto it = all_.begin(); it != all_.end();) {
    Item& item = it->second;
    ++it;  // a request that fails is erased
    if (!item.in_memory && !admit(item, out)) return;
  }
}

Result<int64_t> Scheduler::advance(Item& item) {
  ++counts_.runs;
  const std::vector<int64_t>& prompt = item.request.prompt;
  const int64_t left = std::ssize(prompt) - item.done, work = work_of(item);
  if (left <= 0) return model_.advance(item.conversation, std::span(&item.last, 1), true);
  const auto piece =
      std::span(prompt).subspan(static_cast<size_t>(item.done), static_cast<size_t>(work));
  return model_.advance(item.conversation, piece, work == left);
}

Scheduler::Outcome Scheduler::run(Item& item, std::vector<Generated>& out) {
  const int64_t work = work_of(item), after = item.done + work;
  if (!make_room(item, pages(after) - pages(item.done))) {
    set_aside(item);
    return Outcome::NoRoom;
  }
  Result<int64_t> id = advance(item);
  while (id.status().code() == Code::OutOfMemory && set_aside_youngest(item)) id = advance(item);
  if (id.status().code() == Code::OutOfMemory && active_ > 1 && set_aside(item))
    return Outcome::NoRoom;  // until an older one has ended
  if (!id.ok()) {
    fail(item, id.status(), out);
    return Outcome::Ended;
  }
  take_rows(item, after);
  item.done = after;
  counts_.ids += static_cast<uint64_t>(work);
  return accept(item, *id, out);
}

/// Takes the id that a run has chosen, if the prompt has ended.
Scheduler::Outcome Scheduler::accept(Item& item, int64_t id, std::vector<Generated>& out) {
  using End = Generated::End;
  if (item.done < std::ssize(item.request.prompt)) return Outcome::Ran;
  item.last = id;
  ++item.generated;
  End end = item.generated == item.request.most ? End::Length : End::None;
  if (std::ranges::find(item.request.stops, id) != item.request.stops.end()) end = End::Stop;
  out.push_back({.request = item.number, .id = id, .end = end});
  if (end == End::None) return Outcome::Ran;
  forget(item.number);
  return Outcome::Ended;
}

void Scheduler::step(std::vector<Generated>& out) {
  std::ranges::move(ended_, std::back_inserter(out));
  ended_.clear();
  ++counts_.steps;
  admit_all(out);
  int64_t budget = limits_.step_ids;
  const std::vector<uint64_t> order(turns_.begin(), turns_.end());
  for (const uint64_t n : order) {
    const auto at = all_.find(n);
    if (at == all_.end() || !at->second.in_memory) continue;  // set aside for an older one
    const int64_t work = work_of(at->second);
    if (work > budget) continue;
    const Outcome outcome = run(at->second, out);
    if (outcome == Outcome::NoRoom) continue;
    budget -= work;
    if (outcome == Outcome::Ended) continue;
    std::erase(turns_, n);
    turns_.push_back(n);
  }
}

}  // namespace reprise::app
