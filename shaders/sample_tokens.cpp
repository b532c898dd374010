#include "shaders/sample_tokens.h"

#include <array>
#include <bit>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/operators/sampling.h"
#include "shaders/merge_sort.h"

namespace reprise::shaders {

using kernel::Builder;
using kernel::kF32;
using kernel::kI32;
using kernel::kU32;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Type;

namespace {

constexpr uint32_t kMostParts = 32;  // partial results of a workgroup
constexpr int kDigits = 4;           // of two bits
constexpr int kMostWords = 2 * (kDigits - 1);

/// An unsigned number of 64 bits.
struct Wide {
  Value high, low;
};

Value shifted_right(Builder& b, Value v, uint64_t bits) {
  return b.scalar_op(ScalarOp::ShiftRight, {v, b.u32(bits)});
}
Value low_half(Builder& b, Value v) {
  return b.scalar_op(ScalarOp::BitAnd, {v, b.u32(0xffff)});
}
Value one_if(Builder& b, Val condition) {
  return b.select(condition, b.u32(1), b.u32(0));
}

Wide add(Builder& b, const Wide& x, const Wide& y) {
  const Value low = x.low + y.low;
  return {x.high + y.high + one_if(b, low < x.low), low};
}
Value at_least(Builder& b, const Wide& x, const Wide& y) {
  return b.logical_or(y.high < x.high, b.logical_and(b.eq(x.high, y.high), b.ge(x.low, y.low)));
}

/// The product of two numbers of 32 bits.
Wide product(Builder& b, Value x, Value y) {
  const Value xl = low_half(b, x), xh = shifted_right(b, x, 16);
  const Value yl = low_half(b, y), yh = shifted_right(b, y, 16);
  const Value low = xl * yl, left = xh * yl, right = xl * yh;
  const Value middle = shifted_right(b, low, 16) + low_half(b, left) + low_half(b, right);
  const Value high = xh * yh + shifted_right(b, left, 16) + shifted_right(b, right, 16) +
                     shifted_right(b, middle, 16);
  return {high, b.scalar_op(ScalarOp::ShiftLeft, {middle, b.u32(16)}) + low_half(b, low)};
}

/// sum * factor / 2^32.
Wide scaled(Builder& b, const Wide& sum, Value factor) {
  return add(b, product(b, sum.high, factor), {b.u32(0), product(b, sum.low, factor).high});
}

class Sampler {
 public:
  Sampler(Builder& b, SampledScores& scores, const SampleNumbers& numbers, uint32_t workgroup)
      : b_(b),
        scores_(scores),
        n_(numbers),
        workgroup_(workgroup),
        parts_(std::min(workgroup, kMostParts)),
        local_(b, b.convert(b.builtin(kernel::Builtin::LocalIndex), Ty::I32)) {
    for (int i = 0; i < kMostWords; ++i) {
      const std::string n = std::to_string(i);
      words_.push_back(b.shared("words" + n, Ty::U32, workgroup));
      sums_.push_back(b.shared("sums" + n, Ty::U32, parts_));
      partial_.push_back(b.local("partial" + n, kU32));
      totals_.push_back(b.local("total" + n, kU32));
    }
  }

  Status write();

 private:
  using Words = std::vector<Value>;
  using Combine = std::function<Words(const Words& a, const Words& b)>;
  using Measure = std::function<Wide(Value score, Value key)>;

  Value load(int local) { return b_.local_load(local); }
  void set(int local, Val value) { b_.local_store(local, value); }
  Words words_of(std::span<const int> locals, size_t count);
  /// Combines words of all invocations, in their order.
  Result<Words> reduce(const Words& own, const Combine& combine);
  /// Entries of shared arrays, in locals.
  struct Entries {
    std::span<const int> from, into;
    size_t words;
    Value first;
    uint32_t count;
  };
  Status combine_shared(const Entries& e, const Combine& combine);
  Words added(const Words& x, const Words& y);

  Status find_largest();
  Status sample();
  void invert_temperature();
  Value key(Value score);
  Value weight(Value score);
  /// The weight of a score that no filter has dropped.
  Value kept_weight(Value score);
  Result<Wide> total_weight();
  /// The threshold of sampling.h. `counts`: of elements.
  Status raise_threshold(bool counts, const Wide& wanted);
  Status raise_threshold_step(bool counts, const Wide& wanted, int found, int done, Value step);
  Status choose();
  Status find_part(const Wide& at, int part, int high, int low);
  Status walk_part(const Wide& at, int high, int low);
  Result<Value> random_number();

  Builder& b_;
  SampledScores& scores_;
  const SampleNumbers& n_;
  uint32_t workgroup_, parts_;
  Value local_;
  std::vector<int> words_, sums_;  // shared: of invocations, and of their parts
  // Locals. All invocations have the same totals, on which barriers may depend.
  std::vector<int> partial_, totals_;
  Value largest_, first_;   // the largest score and its first position
  Value quotient_, scale_;  // of log2(e) / temperature
  int least_key_ = -1;      // local, I32: scores with lower keys are dropped
  Value least_weight_;
};

Sampler::Words Sampler::words_of(std::span<const int> locals, size_t count) {
  Words out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) out.push_back(load(locals[i]));
  return out;
}

Status Sampler::combine_shared(const Entries& e, const Combine& combine) {
  const auto entry = [&](const Value& at) {
    Words out;
    out.reserve(e.words);
    for (size_t w = 0; w < e.words; ++w) out.emplace_back(b_, b_.shared_load(e.from[w], at));
    return out;
  };
  const Words begin = entry(e.first);
  for (size_t w = 0; w < e.words; ++w) set(e.into[w], begin[w]);
  return scores_.loop(e.count - 1, [&](Value i) {
    const Words both = combine(words_of(e.into, e.words), entry(e.first + i + 1));
    for (size_t w = 0; w < e.words; ++w) set(e.into[w], both[w]);
    return Status();
  });
}

Result<Sampler::Words> Sampler::reduce(const Words& own, const Combine& combine) {
  const size_t words = own.size();
  for (size_t w = 0; w < words; ++w) b_.shared_store(words_[w], local_, own[w]);
  b_.barrier();
  const uint32_t each = workgroup_ / parts_;
  RP_TRY(scores_.guard(local_ < int64_t{parts_}, [&] {
    RP_TRY(combine_shared({words_, partial_, words, local_ * int64_t{each}, each}, combine));
    const Words sum = words_of(partial_, words);
    for (size_t w = 0; w < words; ++w) b_.shared_store(sums_[w], local_, sum[w]);
    return Status();
  }));
  b_.barrier();
  RP_TRY(combine_shared({sums_, totals_, words, b_.i32(0), parts_}, combine));
  return words_of(totals_, words);
}

Sampler::Words Sampler::added(const Words& x, const Words& y) {
  Words out;
  out.reserve(x.size());
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const Wide sum = add(b_, {x[i], x[i + 1]}, {y[i], y[i + 1]});
    out.push_back(sum.high);
    out.push_back(sum.low);
  }
  return out;
}

/// Reads the row once.
Status Sampler::find_largest() {
  const int largest = b_.local("largest", kF32), first = b_.local("first", kI32);
  set(largest, b_.f32(-std::numeric_limits<float>::infinity()));
  set(first, b_.i32(-1));
  RP_TRY(scores_.each([&](Value score, Value position) {
    const Value more = load(largest) < score;
    set(first, b_.select(more, position, load(first)));
    set(largest, b_.select(more, score, load(largest)));
    return Status();
  }));
  const Words own{b_.bitcast(load(largest), kU32), b_.bitcast(load(first), kU32)};
  RP_ASSIGN(const Words all, reduce(own, [&](const Words& x, const Words& y) -> Words {
              const Value a = b_.bitcast(x[0], kF32), c = b_.bitcast(y[0], kF32);
              const Value earlier = b_.logical_and(b_.eq(a, c), y[1] < x[1]);
              const Value other = b_.logical_or(a < c, earlier);
              return {b_.select(other, y[0], x[0]), b_.select(other, y[1], x[1])};
            }));
  largest_ = b_.bitcast(all[0], kF32);
  first_ = b_.bitcast(all[1], kI32);
  return {};
}

void Sampler::invert_temperature() {
  const Value bits = b_.bitcast(n_.temperature, kU32);
  const Value exponent = shifted_right(b_, bits, 23);
  const Value mantissa =
      b_.scalar_op(ScalarOp::BitOr,
                   {b_.scalar_op(ScalarOp::BitAnd, {bits, b_.u32(0x7fffff)}), b_.u32(0x800000)});
  Value quotient = b_.u32(kLog2E) / mantissa;
  Value rest = b_.u32(kLog2E) - quotient * mantissa;
  for (int i = 0; i < kQuotientBits; ++i) {
    rest = rest + rest;
    const Value one = b_.ge(rest, mantissa);
    quotient = quotient + quotient + one_if(b_, one);
    rest = b_.select(one, rest - mantissa, rest);
  }
  quotient_ = b_.mul(b_.convert(quotient, Ty::F32), b_.f32(0x1p-23F));
  const Value shifted = b_.scalar_op(ScalarOp::ShiftLeft, {b_.u32(254) - exponent, b_.u32(23)});
  scale_ = b_.bitcast(b_.select(exponent < 254, shifted, b_.u32(0)), kF32);
}

Value Sampler::key(Value score) {
  const Value lowest = b_.f32(-std::numeric_limits<float>::infinity());
  const Value nan = b_.scalar_op(ScalarOp::IsNaN, {score});
  return sort_key(b_, b_.select(nan, lowest, score), false);
}

Value Sampler::weight(Value score) {
  const Value distance = (largest_ - score) * quotient_ * scale_;
  const Value counts = b_.lt(distance, b_.f32(kLeastWeightExponent));
  const Value t = b_.select(counts, distance, b_.f32(0));
  const Value whole{b_, b_.convert(t, Ty::U32, true)};
  const Value f = t - Value{b_, b_.convert(whole, Ty::F32)};
  Value sum = b_.f32(kExp2Coefficients.back());
  for (size_t i = kExp2Coefficients.size() - 1; i-- > 0;)
    sum = sum * f + b_.f32(kExp2Coefficients[i]);
  const Value power = (sum * f + b_.f32(1)) * b_.f32(float{kWholeWeight});
  const Value part = b_.scalar_op(ScalarOp::ShiftRight, {b_.convert(power, Ty::U32, true), whole});
  return b_.select(b_.eq(score, largest_), b_.u32(kWholeWeight),
                   b_.select(counts, part, b_.u32(0)));
}

Value Sampler::kept_weight(Value score) {
  return b_.select(b_.ge(key(score), load(least_key_)), weight(score), b_.u32(0));
}

Result<Wide> Sampler::total_weight() {
  const int high = b_.local("all_high", kU32), low = b_.local("all_low", kU32);
  set(high, b_.u32(0));
  set(low, b_.u32(0));
  RP_TRY(scores_.each([&](Value score, Value) {
    const Wide sum = add(b_, {load(high), load(low)}, {b_.u32(0), kept_weight(score)});
    set(high, sum.high);
    set(low, sum.low);
    return Status();
  }));
  RP_ASSIGN(const Words sum, reduce({load(high), load(low)},
                                    [&](const Words& x, const Words& y) { return added(x, y); }));
  return Wide{sum[0], sum[1]};
}

Status Sampler::raise_threshold_step(bool counts, const Wide& wanted, int found, int done,
                                     Value step) {
  const Value shift{b_, b_.convert(30 - step * 2, Ty::U32)};
  std::array<Value, kDigits> candidates;
  for (int d = 1; d < kDigits; ++d) {
    const Value digit =
        b_.scalar_op(ScalarOp::ShiftLeft, {b_.u32(static_cast<uint64_t>(d)), shift});
    candidates[static_cast<size_t>(d)] = b_.scalar_op(ScalarOp::BitOr, {load(found), digit});
  }
  std::vector<int> sums;
  for (int i = 0; i < kMostWords; ++i) {
    sums.push_back(b_.local((counts ? "count" : "sum") + std::to_string(i), kU32));
    set(sums.back(), b_.u32(0));
  }
  RP_TRY(scores_.each([&](Value score, Value) {
    const Value sign = b_.u32(0x80000000U);
    const Value order = b_.scalar_op(ScalarOp::BitXor, {b_.bitcast(key(score), kU32), sign});
    const Value measure = counts ? b_.u32(1) : kept_weight(score);
    for (size_t d = 1; d < kDigits; ++d) {
      const size_t at = 2 * (d - 1);
      const Value more = b_.select(b_.ge(order, candidates[d]), measure, b_.u32(0));
      const Wide sum = add(b_, {load(sums[at]), load(sums[at + 1])}, {b_.u32(0), more});
      if (!counts) set(sums[at], sum.high);
      set(sums[at + 1], sum.low);
    }
    return Status();
  }));
  Words own;
  for (const int sum : sums) own.push_back(load(sum));
  RP_ASSIGN(const Words all,
            reduce(own, [&](const Words& x, const Words& y) { return added(x, y); }));
  Value digit = b_.u32(0), exact = b_.boolean(false);
  for (size_t d = 1; d < kDigits; ++d) {
    const Wide sum{all[2 * (d - 1)], all[2 * (d - 1) + 1]};
    digit = digit + one_if(b_, at_least(b_, sum, wanted));
    exact = b_.logical_or(exact, b_.eq(sum.low, wanted.low));
  }
  const Value chosen = b_.scalar_op(ScalarOp::ShiftLeft, {digit, shift});
  set(found, b_.scalar_op(ScalarOp::BitOr, {load(found), chosen}));
  if (counts) set(done, one_if(b_, exact));
  return {};
}

Status Sampler::raise_threshold(bool counts, const Wide& wanted) {
  const std::string what = counts ? "_count" : "_sum";
  const int found = b_.local("found" + what, kU32), done = b_.local("done" + what, kU32);
  set(found, b_.u32(0));
  set(done, b_.u32(0));
  RP_TRY(scores_.loop(16, [&](Value step) {
    // With exactly as many elements as wanted, further bits change nothing.
    return scores_.guard(b_.eq(load(done), b_.u32(0)),
                         [&] { return raise_threshold_step(counts, wanted, found, done, step); });
  }));
  const Value sign = b_.u32(0x80000000U);
  const Value key = b_.bitcast(b_.scalar_op(ScalarOp::BitXor, {load(found), sign}), kI32);
  set(least_key_, b_.max(load(least_key_), key));
  return {};
}

Result<Value> Sampler::random_number() {
  std::array<int, 6> state{};  // the counter and the key
  for (size_t i = 0; i < state.size(); ++i) state[i] = b_.local("random" + std::to_string(i), kU32);
  const Value zero = b_.u32(0);
  const std::array<Value, 6> begin{n_.step, n_.row, zero, zero, n_.seed, zero};
  for (size_t i = 0; i < state.size(); ++i) set(state[i], begin[i]);
  const auto mixed = [&](Value x, Value y, Value z) {
    return b_.scalar_op(ScalarOp::BitXor, {b_.scalar_op(ScalarOp::BitXor, {x, y}), z});
  };
  RP_TRY(scores_.loop(Philox::kRounds, [&](Value) {
    const Wide a = product(b_, load(state[0]), b_.u32(Philox::kFactor0));
    const Wide c = product(b_, load(state[2]), b_.u32(Philox::kFactor1));
    const Value first = mixed(c.high, load(state[1]), load(state[4]));
    const Value third = mixed(a.high, load(state[3]), load(state[5]));
    set(state[0], first);
    set(state[1], c.low);
    set(state[2], third);
    set(state[3], a.low);
    set(state[4], load(state[4]) + b_.u32(Philox::kStep0));
    set(state[5], load(state[5]) + b_.u32(Philox::kStep1));
    return Status();
  }));
  return load(state[0]);
}

/// Finds the part of the row in which the sum of weights exceeds `at`, and the sum before it.
Status Sampler::find_part(const Wide& at, int part, int high, int low) {
  const int found = b_.local("is_found", kU32);
  const uint32_t entries = workgroup_ / parts_;
  const auto search = [&](std::span<const int> from, uint32_t count, const Value& first,
                          uint32_t parts_each) {
    set(found, b_.u32(0));
    const Value begin = load(part);
    return scores_.loop(count, [&](Value i) {
      const Value place = first + i;
      const Wide next =
          add(b_, {load(high), load(low)},
              {{b_, b_.shared_load(from[0], place)}, {b_, b_.shared_load(from[1], place)}});
      const Value open = b_.eq(load(found), b_.u32(0));
      const Value before = b_.logical_and(open, at_least(b_, at, next));
      set(high, b_.select(before, next.high, load(high)));
      set(low, b_.select(before, next.low, load(low)));
      set(part, b_.select(before, begin + (i + 1) * int64_t{parts_each}, load(part)));
      set(found, b_.select(before, b_.u32(0), b_.u32(1)));
      return Status();
    });
  };
  set(part, b_.i32(0));
  set(high, b_.u32(0));
  set(low, b_.u32(0));
  RP_TRY(search(sums_, parts_, b_.i32(0), entries));
  return search(words_, entries, load(part), 1);
}

/// Stores the position in this invocation's part at which the sum exceeds `at`.
Status Sampler::walk_part(const Wide& at, int high, int low) {
  const int chosen = b_.local("chosen", kI32);
  set(chosen, b_.i32(-1));
  RP_TRY(scores_.each_of_part([&](Value score, Value position) {
    const Value w = kept_weight(score);
    const Value counted = b_.select(b_.ge(w, least_weight_), w, b_.u32(0));
    const Wide next = add(b_, {load(high), load(low)}, {b_.u32(0), counted});
    const Value here = b_.logical_and(load(chosen) < 0, b_.logical_not(at_least(b_, at, next)));
    set(chosen, b_.select(here, position, load(chosen)));
    set(high, next.high);
    set(low, next.low);
    return Status();
  }));
  return scores_.store(load(chosen));
}

Status Sampler::choose() {
  const Value wanted = b_.select(b_.f32(0) < n_.min_p, n_.min_p, b_.f32(0));
  const Value part = b_.select(wanted < b_.f32(1), wanted, b_.f32(1));
  least_weight_ = {b_, b_.convert(part * b_.f32(float{kWholeWeight}), Ty::U32, true)};
  const int high = b_.local("part_high", kU32), low = b_.local("part_low", kU32);
  set(high, b_.u32(0));
  set(low, b_.u32(0));
  RP_TRY(scores_.each_of_part([&](Value score, Value) {
    const Value w = kept_weight(score);
    const Value counted = b_.select(b_.ge(w, least_weight_), w, b_.u32(0));
    const Wide sum = add(b_, {load(high), load(low)}, {b_.u32(0), counted});
    set(high, sum.high);
    set(low, sum.low);
    return Status();
  }));
  RP_ASSIGN(const Words all, reduce({load(high), load(low)},
                                    [&](const Words& x, const Words& y) { return added(x, y); }));
  RP_ASSIGN(const Value random, random_number());
  const Wide at = scaled(b_, {all[0], all[1]}, random);
  const int mine = b_.local("part", kI32);
  RP_TRY(find_part(at, mine, high, low));
  return scores_.guard(b_.eq(local_, load(mine)), [&] { return walk_part(at, high, low); });
}

Status Sampler::sample() {
  invert_temperature();
  least_key_ = b_.local("least_key", kI32);
  set(least_key_, b_.i32(std::numeric_limits<int32_t>::min()));
  const Val limits = b_.logical_and(b_.i32(0) < n_.top_k, n_.top_k < n_.size);
  RP_TRY(scores_.guard(limits, [&] {
    return raise_threshold(true, {b_.u32(0), b_.bitcast(n_.top_k, kU32)});
  }));
  RP_TRY(scores_.guard(n_.top_p < b_.f32(1), [&] {
    RP_ASSIGN(const Wide all, total_weight());
    const Value p = b_.select(b_.f32(0) < n_.top_p, n_.top_p, b_.f32(0));
    const Value part{b_, b_.convert(p * b_.f32(0x1p32F), Ty::U32, true)};
    const Wide wanted = scaled(b_, all, part);
    const Val none = b_.logical_and(b_.eq(wanted.high, b_.u32(0)), b_.eq(wanted.low, b_.u32(0)));
    return raise_threshold(false, {wanted.high, b_.select(none, b_.u32(1), wanted.low)});
  }));
  return choose();
}

Status Sampler::write() {
  RP_TRY(find_largest());
  const Val none = b_.eq(largest_, b_.f32(-std::numeric_limits<float>::infinity()));
  const Val cold = b_.logical_not(b_.ge(n_.temperature, b_.f32(0x1p-126F)));
  const Val greedy = b_.logical_or(b_.logical_or(none, cold), b_.eq(n_.size, b_.i32(1)));
  RP_TRY(scores_.guard(greedy, [&] {
    return scores_.guard(b_.eq(local_, b_.i32(0)), [&] { return scores_.store(first_); });
  }));
  return scores_.guard(b_.logical_not(greedy), [&] { return sample(); });
}

}  // namespace

uint32_t sample_workgroup(uint32_t most, uint32_t shared_bytes) {
  const uint32_t words = std::max(shared_bytes / 4, kMostWords * (kMostParts + 1));
  const uint32_t fits = (words - kMostWords * kMostParts) / kMostWords;
  return std::bit_floor(std::max(std::min({most, fits, 1024U}), 1U));
}

Status sample_token(Builder& b, SampledScores& scores, const SampleNumbers& numbers,
                    uint32_t workgroup) {
  return Sampler(b, scores, numbers, workgroup).write();
}

}  // namespace reprise::shaders
