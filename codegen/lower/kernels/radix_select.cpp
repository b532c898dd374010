// Selects the elements of long lines that come first, if few are wanted. Their keys are found four
// bits at a time, from the highest on: a launch counts how often each digit follows the digits that
// are known so far, and another one adds these counts and finds the digit of the last wanted
// element. At the end, the key of that element is known, and how many elements with this key are
// wanted; those are the first ones. Three more launches copy the wanted elements, in the order of
// their positions. The time does not depend on the elements.
//
// An invocation counts the digits of a segment of a line in bytes, four to a word.
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "codegen/lower/kernels/sort.h"
#include "codegen/ops/row/shape_arith.h"

namespace reprise::lower {

using kernel::Access;
using kernel::Builder;
using kernel::ScalarOp;

namespace {

constexpr int kDigits = 16, kDigitBits = 4, kPasses = 8;  // of keys of 32 bits
constexpr int kWords = kDigits / 4;                       // of counters

std::vector<int> locals_of(Builder& b, const std::string& name, int count, kernel::Type type) {
  std::vector<int> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = b.local(name + std::to_string(i), type);
  return out;
}

/// Elements of a segment: at most 255, so that its counters do not overflow.
int64_t segment(const SortProblem& p) {
  return p.cpu ? 128 : 32;
}

class Selection {
 public:
  explicit Selection(const SortProblem& p)
      : p_(p), segments_(Expr::ceildiv(p.length, segment(p))) {}

  void add_scratch(Lowered& out) const {
    out.scratch.push_back({p_.result, DType::I32, {p_.lines, segments_, kWords}});
    for (int i = 0; i < 2; ++i) out.scratch.push_back({p_.result, DType::I32, {p_.lines, 2}});
    out.scratch.push_back({p_.result, DType::I32, {p_.lines, segments_, 2}});
    out.scratch.push_back({p_.result, DType::I32, {p_.lines, segments_, 2}});
  }

  Result<LoweredLaunch> count_digits(int pass);
  Result<LoweredLaunch> choose_digit(int pass);
  Result<LoweredLaunch> count_wanted();
  Result<LoweredLaunch> add_counts();
  Result<LoweredLaunch> copy_wanted();

 private:
  /// The result of a pass: the digits so far of the key, and how many elements are wanted of those
  /// whose keys begin with them.
  struct Threshold {
    Value key, wanted;
  };
  static Threshold load_threshold(Builder& b, int buffer, Value line) {
    return {{b, b.load(buffer, line * 2)}, {b, b.load(buffer, line * 2 + 1)}};
  }
  /// Two buffers take turns, so that no launch reads the one that it writes.
  static int threshold_of(SortLaunch& launch, int pass, Access access) {
    return launch.scratch(pass % 2 == 0 ? kThresholds : kMoreThresholds, DType::I32, access);
  }
  /// The key of the last wanted element, as keys are compared. `buffer`: the thresholds.
  static Threshold last_key(SortLaunch& launch, int buffer, Value line) {
    Builder& b = launch.builder();
    Threshold t = load_threshold(b, buffer, line);
    t.key = b.scalar_op(ScalarOp::BitXor, {t.key, b.i32(std::numeric_limits<int32_t>::min())});
    return t;
  }

  static Value unsigned_bits(Builder& b, Val key) {
    const Value flipped =
        b.scalar_op(ScalarOp::BitXor, {key, b.i32(std::numeric_limits<int32_t>::min())});
    return b.bitcast(flipped, kernel::kU32);
  }

  /// A segment of a line.
  struct Segment {
    Index line;    // the line's indices
    Expr number;   // of the line
    Expr segment;  // its number in the line
  };
  Result<LoweredLaunch> write_segments(SortLaunch& launch,
                                       const std::function<Status(const Segment&)>& body) const;
  /// Calls the body with the keys and positions of the elements of a segment that exist.
  using Element = std::function<Status(Value key, Value position)>;
  Status each_element(SortLaunch& launch, const Segment& s, const Element& body) const;
  /// Index of the first of `words` words of a segment in a scratch buffer.
  Value place(Evaluator& ev, Value line, Value segment, int words) const {
    return (line * ev.value(segments_) + segment) * words;
  }
  /// The loop over the segments that an invocation adds: one in `workgroup`.
  Status strided(SortLaunch& launch, Value local,
                 const std::function<void(Value at, Val exists)>& body) const;
  /// The threshold with the next digit. `totals`: how often each digit follows the threshold.
  static Threshold with_digit(SortLaunch& launch, int totals, const Threshold& t, int pass);

  const SortProblem& p_;
  const Expr segments_;  // of a line
};

Result<LoweredLaunch> Selection::write_segments(
    SortLaunch& launch, const std::function<Status(const Segment&)>& body) const {
  Evaluator& ev = launch.evaluator();
  const Shape units{p_.lines, segments_};
  return launch.write(element_count(units), [&](Value id) {
    const Index at = ev.unflatten(ev.symbol(id, element_count(units)), units);
    return body({ev.unflatten(at[0], p_.line_dims), at[0], at[1]});
  });
}

Status Selection::each_element(SortLaunch& launch, const Segment& s, const Element& body) const {
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const bool is_last = p_.axis + 1 == p_.g.value(p_.x).shape.size();
  const int lanes = is_last && p_.length.known_divisor(p_.g.symbols) % 4 == 0 ? 4 : 1;
  const Expr vectors = Expr::floordiv(p_.length, lanes);
  const Expr steps = segment(p_) / lanes;
  return ev.for_loop(steps, [&](Value i) -> Status {
    const Value vector = ev.value(s.segment * steps) + i;
    return ev.guard(vector < ev.value(vectors), [&]() -> Status {
      const Expr first = Expr(lanes) * ev.symbol(vector, vectors);
      RP_ASSIGN(const Val x, launch.element(s.line, lanes > 1 ? first + ev.lane() : first, lanes));
      for (int l = 0; l < lanes; ++l) {
        const Val one = lanes > 1 ? Val(b.extract(x, l)) : x;
        RP_TRY(body(shaders::sort_key(b, one, p_.largest), vector * lanes + l));
      }
      return {};
    });
  });
}

/// Counts the digits that follow those of the threshold so far.
Result<LoweredLaunch> Selection::count_digits(int pass) {
  SortLaunch launch(p_, pass == 0 ? "_first_digits" : "_digits");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int thresholds = pass == 0 ? -1 : threshold_of(launch, pass - 1, Access::Read);
  const int counters = launch.scratch(kCounters, DType::I32, Access::Write);
  const Value shift{b,
                    b.bitcast(ev.parameter(Expr(kDigitBits * (kPasses - 1 - pass))), kernel::kU32)};
  const auto high = [&](Val bits) {  // the digits before this one
    const Value digit = b.scalar_op(ScalarOp::ShiftRight, {bits, shift});
    return Value{b, b.scalar_op(ScalarOp::ShiftRight, {digit, b.u32(kDigitBits)})};
  };
  const std::vector<int> words = locals_of(b, "word", kWords, kernel::kU32);
  return write_segments(launch, [&](const Segment& s) -> Status {
    const Value line = ev.value(s.number);
    for (const int word : words) b.local_store(word, b.u32(0));
    Value known;
    if (pass > 0) {
      const Threshold t = load_threshold(b, thresholds, line);
      known = high(b.bitcast(t.key, kernel::kU32));
    }
    RP_TRY(each_element(launch, s, [&](Value key, Value) {
      const Value bits = unsigned_bits(b, key);
      const Value digit = b.scalar_op(
          ScalarOp::BitAnd, {b.scalar_op(ScalarOp::ShiftRight, {bits, shift}), b.u32(kDigits - 1)});
      const Value byte = b.scalar_op(ScalarOp::BitAnd, {digit, b.u32(3)});
      Value one = b.scalar_op(ScalarOp::ShiftLeft, {b.u32(1), byte * 8});
      if (pass > 0) one = b.select(b.eq(high(bits), known), one, b.u32(0));
      const Value word = b.scalar_op(ScalarOp::ShiftRight, {digit, b.u32(2)});
      for (int w = 0; w < kWords; ++w) {
        const int local = words[static_cast<size_t>(w)];
        const Val more = b.select(b.eq(word, b.u32(static_cast<uint64_t>(w))), one, b.u32(0));
        b.local_store(local, b.add(b.local_load(local), more));
      }
      return Status();
    }));
    const Value at = place(ev, line, ev.value(s.segment), kWords);
    for (int w = 0; w < kWords; ++w)
      b.store(counters, at + w,
              b.bitcast(b.local_load(words[static_cast<size_t>(w)]), kernel::kI32));
    return {};
  });
}

Status Selection::strided(SortLaunch& launch, Value local,
                          const std::function<void(Value, Val)>& body) const {
  Evaluator& ev = launch.evaluator();
  const int64_t stride = launch.workgroup();
  return ev.for_loop(Expr::ceildiv(segments_, stride), [&](Value i) -> Status {
    const Value at = i * stride + local;
    const Value end = ev.value(segments_);
    body(min(at, end - 1), at < end);
    return {};
  });
}

/// Adds the counts of a line's segments, and finds the digit of the last wanted element.
Result<LoweredLaunch> Selection::choose_digit(int pass) {
  SortLaunch launch(p_, pass == 0 ? "_first_digit" : "_digit");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int counters = launch.scratch(kCounters, DType::I32, Access::Read);
  const int before = pass == 0 ? -1 : threshold_of(launch, pass - 1, Access::Read);
  const int after = threshold_of(launch, pass, Access::Write);
  const auto workgroup = static_cast<int64_t>(launch.workgroup());
  const int sums = b.shared("sums", kernel::Ty::I32, launch.workgroup() * kDigits);
  const int totals = b.shared("totals", kernel::Ty::I32, kDigits);
  const std::vector<int> locals = locals_of(b, "count", kDigits, kernel::kI32);
  return launch.write_lines([&](Value line, Value local) -> Status {
    for (const int count : locals) b.local_store(count, b.i32(0));
    RP_TRY(strided(launch, local, [&](Value at, Val exists) {
      const Value words{b, b.load(counters, place(ev, line, at, kWords), kWords, kWords)};
      for (int d = 0; d < kDigits; ++d) {
        const Value word{b, b.extract(words, d / 4)};
        const Value count =
            b.scalar_op(ScalarOp::BitAnd,
                        {b.scalar_op(ScalarOp::ShiftRight, {word, b.i32(d % 4 * 8)}), b.i32(255)});
        const int total = locals[static_cast<size_t>(d)];
        b.local_store(total, b.add(b.local_load(total), b.select(exists, count, b.i32(0))));
      }
    }));
    for (int d = 0; d < kDigits; ++d) {
      b.shared_store(sums, local + d * workgroup, b.local_load(locals[static_cast<size_t>(d)]));
    }
    b.barrier();
    for (int64_t first = 0; first < kDigits; first += workgroup) {
      const Value digit = local + first;
      b.if_then(digit < kDigits, [&] {
        Value total = b.i32(0);
        for (int64_t i = 0; i < workgroup; ++i)
          total = total + Value{b, b.shared_load(sums, digit * workgroup + i)};
        b.shared_store(totals, digit, total);
      });
    }
    b.barrier();
    b.if_then(b.eq(local, b.i32(0)), [&] {
      Threshold t{b.i32(0), ev.value(p_.wanted)};
      if (pass > 0) t = load_threshold(b, before, line);
      t = with_digit(launch, totals, t, pass);
      b.store(after, line * 2, t.key);
      b.store(after, line * 2 + 1, t.wanted);
    });
    return {};
  });
}

Selection::Threshold Selection::with_digit(SortLaunch& launch, int totals, const Threshold& t,
                                           int pass) {
  Builder& b = launch.builder();
  Value before = b.i32(0), digit = b.i32(kDigits - 1), smaller = b.i32(0);
  Value found = b.boolean(false);
  for (int d = 0; d < kDigits; ++d) {
    const Value next = before + Value{b, b.shared_load(totals, b.i32(d))};
    const Value here = b.logical_and(b.logical_not(found), b.le(t.wanted, next));
    digit = b.select(here, b.i32(d), digit);
    smaller = b.select(here, before, smaller);
    found = b.logical_or(found, here);
    before = next;
  }
  const Value shift = launch.evaluator().parameter(Expr(kDigitBits * (kPasses - 1 - pass)));
  const Value bits = b.scalar_op(ScalarOp::ShiftLeft, {digit, shift});
  return {b.scalar_op(ScalarOp::BitOr, {t.key, bits}), t.wanted - smaller};
}

/// Counts the elements of each segment that come before the threshold, and those that equal it.
Result<LoweredLaunch> Selection::count_wanted() {
  SortLaunch launch(p_, "_wanted");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int counts = launch.scratch(kCounts, DType::I32, Access::Write);
  const int thresholds = threshold_of(launch, kPasses - 1, Access::Read);
  const int before = b.local("before", kernel::kI32), equal = b.local("equal", kernel::kI32);
  return write_segments(launch, [&](const Segment& s) -> Status {
    const Value line = ev.value(s.number);
    const Value last = last_key(launch, thresholds, line).key;
    b.local_store(before, b.i32(0));
    b.local_store(equal, b.i32(0));
    const auto add = [&](int local, Val condition) {
      b.local_store(local, b.add(b.local_load(local), b.select(condition, b.i32(1), b.i32(0))));
    };
    RP_TRY(each_element(launch, s, [&](Value key, Value) {
      add(before, key < last);
      add(equal, b.eq(key, last));
      return Status();
    }));
    const Value at = place(ev, line, ev.value(s.segment), 2);
    b.store(counts, at, b.local_load(before));
    b.store(counts, at + 1, b.local_load(equal));
    return {};
  });
}

/// Adds these counts along each line: where the elements of a segment go, and how many elements
/// before it equal the threshold.
Result<LoweredLaunch> Selection::add_counts() {
  SortLaunch launch(p_, "_offsets");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int counts = launch.scratch(kCounts, DType::I32, Access::Read);
  const int thresholds = threshold_of(launch, kPasses - 1, Access::Read);
  const int offsets = launch.scratch(kOffsets, DType::I32, Access::Write);
  const uint32_t workgroup = launch.workgroup();
  const Expr part = Expr::ceildiv(segments_, int64_t{workgroup});
  std::array<int, 2> sums{}, shared{};  // of elements before the threshold, and of equal ones
  for (size_t i = 0; i < 2; ++i) {
    sums[i] = b.local(i == 0 ? "before" : "equal", kernel::kI32);
    shared[i] = b.shared(i == 0 ? "all_before" : "all_equal", kernel::Ty::I32, workgroup);
  }
  return launch.write_lines([&](Value line, Value local) -> Status {
    const Value wanted = last_key(launch, thresholds, line).wanted;
    const auto over_part = [&](const std::function<void(Value at)>& body) {
      const Value from = min(local * ev.value(part), ev.value(segments_));
      const Value to = min(from + ev.value(part), ev.value(segments_));
      return ev.for_loop(from, to, b.i32(1), part, [&](Value s) {
        body(place(ev, line, s, 2));
        return Status();
      });
    };
    const auto add = [&](size_t i, Val count) {
      b.local_store(sums[i], b.add(b.local_load(sums[i]), count));
    };
    for (const int sum : sums) b.local_store(sum, b.i32(0));
    RP_TRY(over_part([&](Value at) {
      for (size_t i = 0; i < 2; ++i) add(i, b.load(counts, at + static_cast<int64_t>(i)));
    }));
    for (size_t i = 0; i < 2; ++i) b.shared_store(shared[i], local, b.local_load(sums[i]));
    b.barrier();
    for (size_t i = 0; i < 2; ++i) {
      Value total = b.i32(0);
      for (int64_t other = 0; other < int64_t{workgroup}; ++other) {
        const Value count{b, b.shared_load(shared[i], b.i32(other))};
        total = total + Value{b, b.select(b.i32(other) < local, count, b.i32(0))};
      }
      b.local_store(sums[i], total);
    }
    return over_part([&](Value at) {
      const Value before{b, b.local_load(sums[0])}, equal{b, b.local_load(sums[1])};
      b.store(offsets, at, before + min(equal, wanted));
      b.store(offsets, at + 1, equal);
      for (size_t i = 0; i < 2; ++i) add(i, b.load(counts, at + static_cast<int64_t>(i)));
    });
  });
}

Result<LoweredLaunch> Selection::copy_wanted() {
  SortLaunch launch(p_, "_selected");
  Builder& b = launch.builder();
  Evaluator& ev = launch.evaluator();
  const int offsets = launch.scratch(kOffsets, DType::I32, Access::Read);
  const int thresholds = threshold_of(launch, kPasses - 1, Access::Read);
  const shaders::SortBuffers to = launch.buffers(1, Access::Write);
  const int next = b.local("next", kernel::kI32), equal = b.local("equal", kernel::kI32);
  return write_segments(launch, [&](const Segment& s) -> Status {
    const Value line = ev.value(s.number);
    const Threshold last = last_key(launch, thresholds, line);
    const Value at = place(ev, line, ev.value(s.segment), 2);
    b.local_store(next, line * ev.value(p_.wanted) + Value{b, b.load(offsets, at)});
    b.local_store(equal, b.load(offsets, at + 1));
    return each_element(launch, s, [&](Value key, Value position) {
      const Value is_equal = b.eq(key, last.key);
      const Value before{b, b.local_load(equal)};
      const Value wanted =
          b.logical_or(key < last.key, b.logical_and(is_equal, before < last.wanted));
      b.local_store(equal, before + Value{b, b.select(is_equal, b.i32(1), b.i32(0))});
      b.if_then(wanted, [&] {
        const Value place{b, b.local_load(next)};
        b.store(to.keys, place, key);
        b.store(to.positions, place, position);
        b.local_store(next, place + 1);
      });
      return Status();
    });
  });
}

}  // namespace

bool can_select(const SortProblem& p) {
  constexpr int64_t kLeast = 4096, kShare = 8;  // shorter lines are sorted as fast
  const ops::Bounds length = ops::bounds(p.length, p.g.symbols);
  const ops::Bounds wanted = ops::bounds(p.wanted, p.g.symbols);
  // Drivers limit the loop over the segments.
  const int64_t most = segment(p) * (p.cpu ? 8 : 64) * 8192;
  return p.key_type() == DType::I32 && length.lo >= kLeast && length.hi <= most && wanted.lo > 0 &&
         wanted.hi <= length.lo / kShare;
}

Status radix_select(const SortProblem& p, Lowered& out) {
  Selection selection(p);
  selection.add_scratch(out);
  const auto add = [&](Result<LoweredLaunch> launch) -> Status {
    if (!launch.ok()) return launch.status();
    out.launches.push_back(std::move(*launch));
    return {};
  };
  for (int pass = 0; pass < kPasses; ++pass) {
    RP_TRY(add(selection.count_digits(pass)));
    RP_TRY(add(selection.choose_digit(pass)));
  }
  RP_TRY(add(selection.count_wanted()));
  RP_TRY(add(selection.add_counts()));
  return add(selection.copy_wanted());
}

}  // namespace reprise::lower
