#include "runtime/host/text/regex.h"

#include <algorithm>

#include "runtime/host/text/utf8.h"

namespace reprise::host {

namespace {

constexpr uint32_t kNoCode = 0x110000;  // stands for a byte that is not valid UTF-8

bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace

bool Regex::Set::contains(uint32_t c, const CaseVariants& variants) const {
  if (c == kNoCode) return false;
  const auto in = [this](uint32_t v) {
    return std::ranges::any_of(ranges, [v](const Range& r) { return v >= r.first && v <= r.last; });
  };
  return (ignores_case ? std::ranges::any_of(variants, in) : in(c)) != negated;
}

namespace {

/// The threads of the simulation at one position: each is the index of an instruction, and where
/// the match began. Of threads at one instruction, the first one counts.
class Threads {
 public:
  struct Thread {
    uint32_t at;
    size_t begin;
  };
  explicit Threads(size_t size) : seen_(size) {}
  void clear() {
    for (const Thread& t : list_) seen_[t.at] = 0;
    list_.clear();
  }
  bool insert(Thread t) {
    if (seen_[t.at]) return false;
    seen_[t.at] = 1;
    list_.push_back(t);
    return true;
  }
  const std::vector<Thread>& list() const { return list_; }

 private:
  std::vector<uint8_t> seen_;
  std::vector<Thread> list_;
};

/// The code points around a position; kNoCode and `begin` or `end` at the ends of the text.
struct Position {
  bool begin = false, end = false;
  uint32_t before = kNoCode, after = kNoCode;
};

bool holds(Regex::Op op, const Position& p) {
  switch (op) {
    case Regex::Op::TextBegin:
      return p.begin;
    case Regex::Op::TextEnd:
      return p.end;
    case Regex::Op::LineBegin:
      return p.begin || p.before == '\n';
    case Regex::Op::LineEnd:
      return p.end || p.after == '\n';
    case Regex::Op::WordBoundary:
      return is_word(p.before) != is_word(p.after);
    case Regex::Op::NoWordBoundary:
      return is_word(p.before) == is_word(p.after);
    default:
      return true;
  }
}

/// Adds the instructions that are reached from `at` without taking a code point.
void follow(const std::vector<Regex::Instruction>& program, Threads::Thread from, const Position& p,
            Threads& threads) {
  std::vector<uint32_t> open{from.at};
  while (!open.empty()) {
    const uint32_t i = open.back();
    open.pop_back();
    if (!threads.insert({i, from.begin})) continue;
    const Regex::Instruction& in = program[i];
    if (in.op == Regex::Op::Take || in.op == Regex::Op::Match || !holds(in.op, p)) continue;
    open.push_back(in.a);
    if (in.op == Regex::Op::Fork) open.push_back(in.b);
  }
}

Position around(const std::vector<uint32_t>& codes, size_t i) {
  return {i == 0, i == codes.size(), i == 0 ? kNoCode : codes[i - 1],
          i == codes.size() ? kNoCode : codes[i]};
}

}  // namespace

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> out;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    out.push_back(c.bytes == 0 ? kNoCode : c.code);
    text.remove_prefix(std::max<size_t>(c.bytes, 1));
  }
  return out;
}

bool Regex::matches(std::string_view text) const {
  const std::vector<uint32_t> codes = code_points(text);
  Threads now(program_.size());
  Threads next(program_.size());
  follow(program_, {0, 0}, around(codes, 0), now);
  for (size_t i = 0; i < codes.size() && !now.list().empty(); ++i) {
    next.clear();
    const Position p = around(codes, i + 1);
    const CaseVariants variants = case_variants(codes[i]);
    for (const Threads::Thread& t : now.list()) {
      const Instruction& in = program_[t.at];
      if (in.op == Op::Take && sets_[in.a].contains(codes[i], variants))
        follow(program_, {in.b, t.begin}, p, next);
    }
    std::swap(now, next);
  }
  return std::ranges::any_of(
      now.list(), [this](const Threads::Thread& t) { return program_[t.at].op == Op::Match; });
}

// Threads are in the order in which their matches began, so that the first match counts.
std::optional<Regex::Found> Regex::find(const std::vector<uint32_t>& text, size_t from) const {
  std::optional<Found> found;
  Threads now(program_.size());
  Threads next(program_.size());
  for (size_t i = from; i <= text.size(); ++i) {
    if (!found) follow(program_, {0, i}, around(text, i), now);
    next.clear();
    const CaseVariants variants = case_variants(i < text.size() ? text[i] : kNoCode);
    for (const Threads::Thread& t : now.list()) {
      if (found && t.begin > found->begin) break;
      const Instruction& in = program_[t.at];
      if (in.op == Op::Match) {
        found = Found{t.begin, i};
      } else if (in.op == Op::Take && i < text.size() && sets_[in.a].contains(text[i], variants)) {
        follow(program_, {in.b, t.begin}, around(text, i + 1), next);
      }
    }
    std::swap(now, next);
    if (found && now.list().empty()) break;
  }
  return found;
}

}  // namespace reprise::host
