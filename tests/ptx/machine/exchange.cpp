// What lanes do together: shfl, vote, match, elect, activemask, and barriers.
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

/// shfl.sync: value, lane or mask, clamp and segments, members.
void shuffle(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t *a = w.from(i.from[0]), *b = w.from(i.from[1]), *c = w.from(i.from[2]);
  std::array<uint64_t, Warp::kLanes> given{};
  for_lanes(mask, [&](uint32_t l) { given[l] = a[l]; });
  uint64_t* d = w.to(i.to[0]);
  uint64_t* p = i.to[1] == Instruction::kNone ? nullptr : w.to(i.to[1]);
  const uint64_t* members = w.from(i.from[3]);
  for_lanes(mask, [&](uint32_t l) {
    const auto n = static_cast<int>(b[l] & 31);
    const auto clamp = static_cast<int>(c[l] & 31), segments = static_cast<int>(c[l] >> 8 & 31);
    const auto lane = static_cast<int>(l);
    const int least = lane & segments, most = least | (clamp & ~segments);
    int from = 0;
    bool inside = false;
    switch (static_cast<Shuffle>(i.number)) {
      case Shuffle::Up:
        from = lane - n;
        inside = from >= most;
        break;
      case Shuffle::Down:
        from = lane + n;
        inside = from <= most;
        break;
      case Shuffle::Butterfly:
        from = lane ^ n;
        inside = from <= most;
        break;
      case Shuffle::Index:
        from = least | (n & ~segments);
        inside = from <= most;
        break;
    }
    if (!inside) from = lane;
    if ((members[l] >> from & 1) == 0)
      w.fail(i, "lane " + std::to_string(lane) + " reads lane " + std::to_string(from) +
                    ", which does not take part");
    d[l] = given[static_cast<size_t>(from)];
    if (p != nullptr) p[l] = inside;
  });
}

enum class Vote : uint8_t { All, Any, Uniform, Ballot };

/// The lanes of one mask vote together; other masks are of other lanes.
void vote(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t *a = w.from(i.from[0]), *members = w.from(i.from[1]);
  uint32_t yes = 0;
  for_lanes(mask, [&](uint32_t l) { yes |= static_cast<uint32_t>(a[l] & 1) << l; });
  uint64_t* d = w.to(i.to[0]);
  for_lanes(mask, [&](uint32_t l) {
    const auto own = static_cast<uint32_t>(members[l]) & w.lanes();
    switch (static_cast<Vote>(i.number)) {
      case Vote::All:
        d[l] = (yes & own) == own;
        break;
      case Vote::Any:
        d[l] = (yes & own) != 0;
        break;
      case Vote::Uniform:
        d[l] = (yes & own) == own || (yes & own) == 0;
        break;
      case Vote::Ballot:
        d[l] = yes & own;
        break;
    }
  });
}

void match_any(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t *a = w.from(i.from[0]), *members = w.from(i.from[1]);
  std::array<uint64_t, Warp::kLanes> given{};
  for_lanes(mask, [&](uint32_t l) { given[l] = a[l]; });
  uint64_t* d = w.to(i.to[0]);
  for_lanes(mask, [&](uint32_t l) {
    const uint64_t own = given[l];
    uint32_t equal = 0;
    for_lanes(mask & static_cast<uint32_t>(members[l]),
              [&](uint32_t n) { equal |= given[n] == own ? 1U << n : 0; });
    d[l] = equal;
  });
}

void active_mask(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = mask; });
}

void barrier_of_warp(Warp& w, const Instruction&, uint32_t mask) {
  w.synchronize(mask);
}

/// bar.sync and, with i.number 1, bar.arrive: the barrier and, if given, how many threads.
void barrier_of_group(Warp& w, const Instruction& i, uint32_t) {
  const auto id = static_cast<uint32_t>(w.from(i.from[0])[0]);
  const uint64_t count = i.from.size() > 1 ? w.from(i.from[1])[0] : 0;
  const std::string wrong = w.group().arrive(w, id, static_cast<uint32_t>(count), i.number == 0);
  if (!wrong.empty()) w.fail(i, wrong);
}

/// elect.sync: the first of the lanes that its mask names.
void elect(Warp& w, const Instruction& i, uint32_t mask) {
  const uint64_t* members = w.from(i.from[0]);
  for_lanes(mask, [&](uint32_t l) {
    const auto own = static_cast<uint32_t>(members[l]) & w.lanes();
    const auto leader = static_cast<uint32_t>(std::countr_zero(own));
    if (i.to[0] != Instruction::kNone) w.to(i.to[0])[l] = leader;
    if (i.to[1] != Instruction::kNone) w.to(i.to[1])[l] = l == leader;
  });
}

bool decode_votes(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  i.flow = Flow::Named;
  i.member = 1;
  s = {{1}, {1, 1}, false, false};
  if (op == "match") {
    i.run = match_any;
    return w.take("any") && w.take("sync") && w.take_type(i.type);
  }
  if (op != "vote" || !w.take("sync")) return false;
  const int kind = w.take_one({"all", "any", "uni", "ballot"});
  i.run = vote;
  i.number = static_cast<uint32_t>(kind);
  return kind >= 0 && w.take(kind == 3 ? "b32" : "pred");
}

bool decode_barriers(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op != "bar" && op != "barrier") return false;
  if (w.take("warp")) {
    i.flow = Flow::Named;
    i.member = 0;
    i.run = barrier_of_warp;
    s.from = {1};
    return w.take("sync");
  }
  if (w.take("cluster")) return false;
  w.take("cta");
  i.flow = Flow::Barrier;
  i.run = barrier_of_group;
  s.from = {1, 1};
  i.number = w.take("arrive") ? 1 : 0;
  s.optional_from = i.number == 0;
  return (i.number == 1 || w.take("sync")) && (op == "bar" || w.take("aligned"));
}

}  // namespace

bool decode_exchange(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op == "shfl") {
    const bool sync = w.take("sync");
    const int kind = w.take_one({"up", "down", "bfly", "idx"});
    i.flow = Flow::Named;
    i.member = 3;
    i.number = static_cast<uint32_t>(kind);
    i.run = shuffle;
    s = {{1}, {1, 1, 1, 1}, true, false};
    return sync && kind >= 0 && w.take("b32");
  }
  if (op == "elect") {
    i.flow = Flow::Named;
    i.member = 0;
    i.run = elect;
    s = {{1}, {1}, true, false};
    return w.take("sync");
  }
  if (op == "activemask") {
    i.run = active_mask;
    s.to = {1};
    return w.take("b32");
  }
  const Instruction plain = i;
  for (auto* family : {decode_votes, decode_barriers}) {
    Words copy = w;
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
