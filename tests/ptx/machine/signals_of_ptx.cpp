// mbarrier, and cp.async.mbarrier.arrive.
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

enum class SignalAction : uint8_t { Init, Invalidate, Expect, Complete, Arrive, Drop, Copies };

// Instruction::detail: what an instruction has besides its action.
constexpr uint8_t kExpects = 1, kRelaxed = 2, kParity = 4, kNoIncrease = 8, kIncomplete = 16,
                  kCluster = 32;  // the scope

/// What mbarrier.arrive returns: the phase, and the arrivals that were pending.
uint64_t state_of_signal(const Signal& s) {
  return uint64_t{s.phase} << 32 | static_cast<uint64_t>(s.pending);
}

SharedPlace place_of_signal(Warp& w, const Instruction& i, uint32_t lane) {
  const uint64_t address = w.from(i.from[0])[lane] + static_cast<uint64_t>(i.offset[0]);
  return w.place(i, i.space, address, lane);
}

/// The mbarrier of a lane, if the lane may know that it exists.
Signal* signal_of(Warp& w, const Instruction& i, uint32_t lane, SharedPlace& at) {
  at = place_of_signal(w, i, lane);
  if (at.group == nullptr) return nullptr;
  if (at.group != &w.group()) at.group->touched(w.by(lane).stamp, i.line);
  return known_signal(w, i, lane, at);
}

void report_signal(Warp& w, const Instruction& i, const SharedPlace& at, const std::string& wrong) {
  if (wrong.empty()) return;
  const Signal* s = at.group->signals.find(at.offset);
  w.fail(i, wrong + (s == nullptr ? "" : ": " + s->text(at.offset)));
}

void initialise(Warp& w, const Instruction& i, uint32_t mask) {
  Group& g = w.group();
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    const SharedPlace at = place_of_signal(w, i, l);
    if (at.group == nullptr) return;
    const Access by = w.by(l);
    if (g.signals.find(at.offset) == nullptr &&
        w.access(i, Space::Shared, at.offset, 8, l, true) == nullptr)
      return;
    const auto count = static_cast<uint32_t>(w.from(i.from[1])[l]);
    const std::string wrong =
        g.signals.init(at.offset, count, w.cluster().new_component(), by.stamp);
    report_signal(w, i, at, wrong);
    if (wrong.empty()) g.shared.set_signal(at.offset, 8, true);
  });
}

void invalidate(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    SharedPlace at;
    if (w.failed() || signal_of(w, i, l, at) == nullptr) return;
    report_signal(w, i, at, w.group().signals.invalidate(at.offset));
    w.group().shared.set_signal(at.offset, 8, false);
  });
}

/// expect_tx and complete_tx.
void count_bytes(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    SharedPlace at;
    if (w.failed()) return;
    Signal* s = signal_of(w, i, l, at);
    if (s == nullptr) return;
    const auto bytes = static_cast<uint32_t>(w.from(i.from[1])[l]);
    report_signal(w, i, at,
                  static_cast<SignalAction>(i.number) == SignalAction::Expect
                      ? Signals::expect(*s, bytes)
                      : Signals::complete(*s, bytes));
    ++w.cluster().activity;
  });
}

/// arrive, arrive.expect_tx and arrive_drop. Lanes of one instruction release together. Without the
/// scope of the cluster, other workgroups learn only which reads are over (View::narrow()).
void arrive_at_signal(Warp& w, const Instruction& i, uint32_t mask) {
  const bool is_relaxed = (i.detail[0] & kRelaxed) != 0;
  std::array<SharedPlace, Warp::kLanes> places;
  std::array<Signal*, Warp::kLanes> signals{};
  // What a lane tells of includes that it accesses the mbarrier.
  for_lanes(mask, [&](uint32_t l) {
    if (!w.failed()) signals[l] = signal_of(w, i, l, places[l]);
  });
  if (w.failed()) return;
  const View all = w.tell(mask);
  View less;  // to those whom the semantics or the scope excludes
  if (is_relaxed)
    less = all.relaxed();
  else if (!w.cluster().is_one_group())
    less = all.narrow();
  const bool expects = (i.detail[0] & kExpects) != 0;
  for_lanes(mask, [&](uint32_t l) {
    if (w.failed()) return;
    Signal* s = signals[l];
    const SharedPlace& at = places[l];
    const uint64_t state = state_of_signal(*s);
    const uint64_t number = i.from.size() > 1 ? w.from(i.from[1])[l] : 1;
    if (expects) report_signal(w, i, at, Signals::expect(*s, static_cast<uint32_t>(number)));
    const int64_t count = expects ? 1 : static_cast<uint32_t>(number);
    if (static_cast<SignalAction>(i.number) == SignalAction::Drop) s->expected -= count;
    const uint32_t phase = s->phase;
    const bool far = at.group != &w.group();
    const bool tells = !is_relaxed && (!far || (i.detail[0] & kCluster) != 0);
    report_signal(w, i, at, Signals::arrive(*s, count, tells ? &all : &less, far));
    if (far && !i.to.empty() && i.to[0] != Instruction::kNone)
      return w.fail(i, "an arrival at another workgroup's mbarrier, which returns no state");
    if ((i.detail[0] & kIncomplete) != 0 && s->phase != phase)
      w.fail(i, "an arrival that must not complete the phase does");
    if (!i.to.empty() && i.to[0] != Instruction::kNone) w.to(i.to[0])[l] = state;
    ++w.cluster().activity;
  });
}

/// What a phase that is complete tells. Bytes that have landed are known in any scope.
void hear_signal(Warp& w, const Instruction& i, uint32_t lane, const Signal& s) {
  const bool relaxed = (i.detail[0] & kRelaxed) != 0;
  const bool of_cluster = (i.detail[0] & kCluster) != 0;
  w.hear(1U << lane, relaxed ? s.completed.relaxed() : s.completed);
  if (w.cluster().is_one_group()) return;
  const View& far = s.far_completed;
  w.hear(1U << lane, relaxed ? far.relaxed() : of_cluster ? far : far.narrow());
}

/// test_wait and try_wait, which may say that a phase is not complete even after a while.
void wait_for_phase(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  std::string why;
  for_lanes(mask, [&](uint32_t l) {
    SharedPlace at;
    if (w.failed()) return;
    Signal* s = signal_of(w, i, l, at);
    if (s == nullptr) return;
    const uint64_t which = w.from(i.from[1])[l];
    bool complete = false;
    if ((i.detail[0] & kParity) != 0) {
      if (which > 1) return w.fail(i, "a parity of " + std::to_string(which));
      complete = (s->phase & 1) != which;
    } else {
      const uint64_t phase = which >> 32;
      if (phase != s->phase && phase + 1 != s->phase)
        return w.fail(i, "a state of a phase that is long over");
      complete = phase != s->phase;
    }
    d[l] = complete;
    if (!complete) {
      if (why.empty())
        why = "phase " + std::to_string(s->phase) + " of the mbarrier at " +
              std::to_string(at.offset);
      return;
    }
    if (!s->observed) ++w.cluster().activity;
    s->observed = true;
    hear_signal(w, i, l, *s);
  });
  if (!why.empty()) w.give_way(false, why);
}

void pending_count(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  const uint64_t* state = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = state[l] & 0xFFFFFFFF; });
}

/// An arrival once all copies that a lane has issued by cp.async have taken place.
void arrive_after_copies(Warp& w, const Instruction& i, uint32_t mask) {
  for_lanes(mask, [&](uint32_t l) {
    SharedPlace at;
    if (w.failed()) return;
    Signal* s = signal_of(w, i, l, at);
    if (s == nullptr) return;
    if ((i.detail[0] & kNoIncrease) == 0) ++s->pending;
    std::vector<std::shared_ptr<Copy>> copies;
    for (const auto& group : w.copies(l))
      for (const auto& c : group)
        if (!c->awaited) copies.push_back(c);
    w.cluster().later([&w, &i, at, copies = std::move(copies)] {
      Group& g = w.group();
      Signal* now = g.signals.find(at.offset);
      if (now == nullptr) return report_signal(w, i, at, Signals::kNone);
      for (const auto& c : copies) {
        if (c->awaited) continue;
        c->awaited = true;
        if (!c->done) w.transfer(i, *c);
        g.shared.expect(c->to, c->bytes, false);
        g.shared.wrote(c->to, c->bytes, {now->component, 0, now->phase});
      }
      report_signal(w, i, at, Signals::arrive(*now, 1, nullptr));
      ++w.cluster().activity;
    });
  });
}

/// Where the mbarrier lies; `of_cluster`: it may be another workgroup's.
bool take_shared(Words& w, Instruction& i, bool of_cluster) {
  const int space = w.take_one({"shared", "shared::cta", "shared::cluster"});
  i.space = of_cluster && (space < 0 || space == 2) ? Space::Cluster : Space::Shared;
  return w.take("b64") && (of_cluster || space != 2);
}

/// ".release.cta" and the like; the second words may be missing.
void take_order(Words& w, Instruction& i) {
  if (w.take("relaxed")) i.detail[0] |= kRelaxed;
  w.take_one({"acquire", "release"});
  if (w.take_one({"cta", "cluster"}) == 1) i.detail[0] |= kCluster;
}

bool decode_arrival(Words& w, Instruction& i, Shape& s) {
  const int kind = w.take_one({"arrive", "arrive_drop"});
  if (kind < 0) return false;
  i.number = static_cast<uint32_t>(kind == 0 ? SignalAction::Arrive : SignalAction::Drop);
  i.run = arrive_at_signal;
  s = {{1}, {0, 1}, false, true};
  if (w.take("expect_tx")) {
    i.detail[0] |= kExpects;
    s.optional_from = false;
  }
  if (w.take("noComplete")) i.detail[0] |= kIncomplete;
  take_order(w, i);
  return take_shared(w, i, true);
}

bool decode_wait(Words& w, Instruction& i, Shape& s) {
  const int kind = w.take_one({"test_wait", "try_wait"});
  if (kind < 0) return false;
  i.run = wait_for_phase;
  if (w.take("parity")) i.detail[0] |= kParity;
  take_order(w, i);
  s = {{1}, {0, 1}, false, false};
  if (kind == 1) {  // a hint how long it may take
    s.from.push_back(1);
    s.optional_from = true;
  }
  return take_shared(w, i, false);
}

bool decode_mbarrier(Words& w, Instruction& i, Shape& s) {
  const int kind = w.take_one({"init", "inval", "expect_tx", "complete_tx", "pending_count"});
  switch (kind) {
    case 0:
      i.run = initialise;
      s.from = {0, 1};
      return take_shared(w, i, false);
    case 1:
      i.run = invalidate;
      s.from = {0};
      return take_shared(w, i, false);
    case 2:
    case 3:
      i.run = count_bytes;
      i.number = static_cast<uint32_t>(kind == 2 ? SignalAction::Expect : SignalAction::Complete);
      s.from = {0, 1};
      take_order(w, i);
      return take_shared(w, i, true);
    case 4:
      i.run = pending_count;
      s = {{1}, {1}, false, false};
      return w.take("b64");
    default:
      return false;
  }
}

}  // namespace

Signal* known_signal(Warp& w, const Instruction& i, uint32_t lane, const SharedPlace& at) {
  if (at.offset % 8 != 0) {
    w.fail(i, "an mbarrier that is not aligned to 8 bytes");
    return nullptr;
  }
  Signal* s = at.group->signals.find(at.offset);
  if (s == nullptr) {
    w.fail(i, std::string(Signals::kNone) + ", at " + std::to_string(at.offset));
    return nullptr;
  }
  const Access a = w.by(lane);
  const bool own = s->made.component == a.warp && s->made.lanes == a.lanes;
  const bool fenced = s->fenced.somebody() && a.view->knows(s->fenced);
  if (own || fenced || a.view->seen.knows(s->made)) return s;
  w.fail(i, "an mbarrier that another thread initialises, without a barrier between");
  return nullptr;
}

bool decode_signals(Words& w, Instruction& i, Shape& s) {
  Words copy = w;
  if (w.opcode() == "cp") {
    if (!copy.take("async") || !copy.take("mbarrier") || !copy.take("arrive")) return false;
    if (copy.take("noinc")) i.detail[0] |= kNoIncrease;
    i.run = arrive_after_copies;
    s.from = {0};
    if (!take_shared(copy, i, false)) return false;
    w = copy;
    return true;
  }
  if (w.opcode() != "mbarrier") return false;
  const Instruction plain = i;
  for (auto* family : {decode_arrival, decode_wait, decode_mbarrier}) {
    copy = w;
    i = plain;
    s = {};
    if (!family(copy, i, s)) continue;
    w = copy;
    return true;
  }
  i = plain;
  return false;
}

}  // namespace reprise::test::ptx
