#include "codegen/interpreter/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/interpreter/interpreter.h"
#include "codegen/interpreter/native_error.h"

namespace reprise::kernel {
namespace {

float real(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

uint32_t bits(float v) {
  return std::bit_cast<uint32_t>(v);
}

int32_t whole(uint32_t bits) {
  return static_cast<int32_t>(bits);
}

uint32_t flushed(uint32_t v) {
  return (v & 0x7f800000U) == 0 ? v & 0x80000000U : v;
}

float flushed_real(uint32_t v) {
  return real(flushed(v));
}

/// Loops over chunks of a constant size, whose results nothing else can alias, so that compilers
/// vectorise it. Unused operands point to the words of the first.
template <size_t chunk, typename F>
[[gnu::always_inline]] inline void over_chunk(const WordRows& rows, size_t i, const F& f) {
  const auto [a, b, c] = rows.in;
  std::array<uint32_t, chunk> results;
  for (size_t n = 0; n < chunk; ++n) results[n] = f(a[i + n], b[i + n], c[i + n]);
  std::memcpy(rows.out + i, results.data(), sizeof results);
}
template <typename F>
void over_chunks(const WordRows& rows, const F& f) {
  constexpr size_t kChunk = WordRows::kChunk;
  size_t i = 0;
  for (; i + 2 * kChunk <= rows.count; i += 2 * kChunk) over_chunk<2 * kChunk>(rows, i, f);
  if (i < rows.count) over_chunk<kChunk>(rows, i, f);
}

/// A row that F computes from the bits of its operands.
template <typename F>
void plain_row(const WordRows& rows) {
  over_chunks(rows, F());
}

/// The same for floats, with subnormal operands and results flushed to zero.
template <typename F>
void flushing_row(const WordRows& rows) {
  over_chunks(rows, [](uint32_t a, uint32_t b, uint32_t c) {
    return flushed(F()(flushed(a), flushed(b), flushed(c)));
  });
}

/// A row of floats that also takes the seed for errors.
template <typename F>
void seeded_row(const WordRows& rows) {
  over_chunks(rows, [seed = rows.seed](uint32_t a, uint32_t b, uint32_t c) {
    return bits(F()(real(a), real(b), real(c), seed));
  });
}

#if defined(__x86_64__)
// The same with longer vectors.
template <RowFunction row>
[[gnu::target("avx2"), gnu::flatten]] void row_256(const WordRows& rows) {
  row(rows);
}
template <RowFunction row>
[[gnu::target("avx2,avx512f,avx512vl,avx512dq,prefer-vector-width=512"), gnu::flatten]] void
row_512(const WordRows& rows) {
  row(rows);
}
#endif

using RangeFunction = WordRange (*)(std::span<const uint32_t> words);

/// The fastest form of the row on this processor.
template <RowFunction row>
RowFunction fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) return row_512<row>;
  if (__builtin_cpu_supports("avx2")) return row_256<row>;
#endif
  return row;
}

WordRange plain_range(std::span<const uint32_t> words) {
  constexpr size_t kChunk = WordRows::kChunk;
  std::array<uint32_t, kChunk> largest{}, bits{};
  size_t i = 0;
  for (; i + kChunk <= words.size(); i += kChunk) {
    for (size_t n = 0; n < kChunk; ++n) {
      const uint32_t word = words[i + n];
      largest[n] = std::max(largest[n], word);
      bits[n] |= word;
    }
  }
  WordRange all;
  for (size_t n = 0; n < kChunk; ++n) {
    all.largest = std::max(all.largest, largest[n]);
    all.bits |= bits[n];
  }
  for (; i < words.size(); ++i) {
    all.largest = std::max(all.largest, words[i]);
    all.bits |= words[i];
  }
  return all;
}
#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::flatten]] WordRange range_256(std::span<const uint32_t> words) {
  return plain_range(words);
}
#endif
RangeFunction fastest_range() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return range_256;
#endif
  return plain_range;
}

template <typename F>
RowFunction plain(F) {
  return fastest<plain_row<F>>();
}
template <typename F>
RowFunction flushing(F) {
  return fastest<flushing_row<F>>();
}
template <typename F>
RowFunction seeded(F) {
  return fastest<seeded_row<F>>();
}

using Word = uint32_t;
constexpr auto kAdd = [](Word a, Word b, Word) { return bits(real(a) + real(b)); };
constexpr auto kSub = [](Word a, Word b, Word) { return bits(real(a) - real(b)); };
constexpr auto kMul = [](Word a, Word b, Word) { return bits(real(a) * real(b)); };
constexpr auto kMulAdd = [](Word a, Word b, Word c) {
  const float product = real(a) * real(b);
  return bits(product + real(c));
};

/// Rows that are rounded to nearest, whatever errors are asked for.
RowFunction basic_floats(ScalarOp op, bool flush) {
  switch (op) {
    case ScalarOp::Add:
      return flush ? flushing(kAdd) : plain(kAdd);
    case ScalarOp::Sub:
      return flush ? flushing(kSub) : plain(kSub);
    case ScalarOp::Mul:
      return flush ? flushing(kMul) : plain(kMul);
    default:
      return nullptr;
  }
}

RowFunction every_floats(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add:
      return seeded([](float a, float b, float, uint64_t seed) { return every_sum(a, b, seed); });
    case ScalarOp::Sub:
      return seeded([](float a, float b, float, uint64_t seed) { return every_sum(a, -b, seed); });
    case ScalarOp::Mul:
      return seeded(
          [](float a, float b, float, uint64_t seed) { return every_product(a, b, seed); });
    case ScalarOp::Fma:
      return seeded(
          [](float a, float b, float c, uint64_t seed) { return every_fma(a, b, c, seed); });
    default:
      return nullptr;
  }
}

/// An Fma whose product is off by half a unit in the last place, below or above.
template <int sign>
uint32_t inexact_fma(Word a, Word b, Word c) {
  const double product = static_cast<double>(real(a)) * static_cast<double>(real(b));
  const double error = 0x1p-24 * std::fabs(product);
  return bits(static_cast<float>(product + sign * error + static_cast<double>(real(c))));
}

/// Comparisons of floats, which are `number` of the bits.
template <float (*number)(Word)>
RowFunction comparisons(ScalarOp op) {
  switch (op) {
    case ScalarOp::Equal:
      return plain([](Word a, Word b, Word) -> Word { return number(a) == number(b); });
    case ScalarOp::NotEqual:
      return plain([](Word a, Word b, Word) -> Word { return number(a) != number(b); });
    case ScalarOp::Less:
      return plain([](Word a, Word b, Word) -> Word { return number(a) < number(b); });
    case ScalarOp::LessOrEqual:
      return plain([](Word a, Word b, Word) -> Word { return number(a) <= number(b); });
    case ScalarOp::Greater:
      return plain([](Word a, Word b, Word) -> Word { return number(a) > number(b); });
    case ScalarOp::GreaterOrEqual:
      return plain([](Word a, Word b, Word) -> Word { return number(a) >= number(b); });
    default:
      return nullptr;
  }
}

RowFunction floats(ScalarOp op, const InterpretOptions& options) {
  const bool flush = options.flush_subnormals;
  const bool basic = op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::Mul;
  switch (options.native_error) {
    case NativeError::None:
      if (op == ScalarOp::Fma) return flush ? flushing(kMulAdd) : plain(kMulAdd);
      break;
    case NativeError::Low:
      if (op == ScalarOp::Fma)
        return flush ? nullptr
                     : plain([](Word a, Word b, Word c) { return inexact_fma<-1>(a, b, c); });
      break;
    case NativeError::High:
      if (op == ScalarOp::Fma)
        return flush ? nullptr
                     : plain([](Word a, Word b, Word c) { return inexact_fma<1>(a, b, c); });
      break;
    case NativeError::Mixed:
      break;
    case NativeError::Every:
      if (basic || op == ScalarOp::Fma) return flush ? nullptr : every_floats(op);
      break;
  }
  if (basic) return basic_floats(op, flush);
  return flush ? comparisons<flushed_real>(op) : comparisons<real>(op);
}

/// A division of all words by the first divisor. `F(quotient, dividend, divisor)` is the result.
/// The quotient of magnitudes in double, rounded by way of the reciprocal, is at most one off.
template <typename F, bool is_signed>
void divided_row(const WordRows& rows) {
  const Word divisor = rows.in[1][0];
  const bool negative = is_signed && whole(divisor) < 0;
  const Word by = negative ? 0 - divisor : divisor;
  const double reciprocal = 1.0 / static_cast<double>(by);
  over_chunks(rows, [=](Word a, Word, Word) -> Word {
    const Word sign = is_signed ? static_cast<Word>(whole(a) >> 31) : 0;
    const Word magnitude = (a ^ sign) - sign;
    auto quotient = static_cast<Word>(static_cast<double>(magnitude) * reciprocal);
    const int32_t rest = whole(magnitude - quotient * by);
    quotient += static_cast<Word>(rest >= whole(by)) - static_cast<Word>(rest < 0);
    const Word flip = negative ? ~sign : sign;
    return F()((quotient ^ flip) - flip, a, divisor);
  });
}

/// Rows that are the same for signed and unsigned integers.
RowFunction integers(ScalarOp op) {
  switch (op) {
    case ScalarOp::Add:
      return plain([](Word a, Word b, Word) { return a + b; });
    case ScalarOp::Sub:
      return plain([](Word a, Word b, Word) { return a - b; });
    case ScalarOp::Mul:
      return plain([](Word a, Word b, Word) { return a * b; });
    case ScalarOp::BitAnd:
    case ScalarOp::And:
      return plain([](Word a, Word b, Word) { return a & b; });
    case ScalarOp::BitOr:
    case ScalarOp::Or:
      return plain([](Word a, Word b, Word) { return a | b; });
    case ScalarOp::BitXor:
    case ScalarOp::Xor:
      return plain([](Word a, Word b, Word) { return a ^ b; });
    case ScalarOp::Not:
      return plain([](Word a, Word, Word) { return a ^ 1U; });
    case ScalarOp::ShiftLeft:
      return plain([](Word a, Word b, Word) { return b < 32 ? a << (b & 31U) : 0; });
    case ScalarOp::Equal:
      return plain([](Word a, Word b, Word) -> Word { return a == b; });
    case ScalarOp::NotEqual:
      return plain([](Word a, Word b, Word) -> Word { return a != b; });
    default:
      return nullptr;
  }
}

/// Rows that compare integers. `Number(bits)` converts a word to a number.
template <typename Number>
RowFunction ordered(ScalarOp op, Number) {
  switch (op) {
    case ScalarOp::Less:
      return plain([](Word a, Word b, Word) -> Word { return Number()(a) < Number()(b); });
    case ScalarOp::LessOrEqual:
      return plain([](Word a, Word b, Word) -> Word { return Number()(a) <= Number()(b); });
    case ScalarOp::Greater:
      return plain([](Word a, Word b, Word) -> Word { return Number()(a) > Number()(b); });
    case ScalarOp::GreaterOrEqual:
      return plain([](Word a, Word b, Word) -> Word { return Number()(a) >= Number()(b); });
    case ScalarOp::Min:
    case ScalarOp::MinNum:
      return plain([](Word a, Word b, Word) { return Number()(a) < Number()(b) ? a : b; });
    case ScalarOp::Max:
    case ScalarOp::MaxNum:
      return plain([](Word a, Word b, Word) { return Number()(a) > Number()(b) ? a : b; });
    default:
      return nullptr;
  }
}

}  // namespace

RowFunction row_function(ScalarOp op, Ty t, const InterpretOptions& options) {
  if (takes_two_words(t)) return nullptr;
  if (op == ScalarOp::Where) return plain([](Word a, Word b, Word c) { return a != 0 ? b : c; });
  if (t == Ty::F32) return floats(op, options);
  if (t == Ty::F16) return nullptr;
  if (op == ScalarOp::InRange) return ordered(ScalarOp::Less, [](Word v) { return v; });
  if (op == ScalarOp::ShiftRight && t == Ty::I32)
    return plain(
        [](Word a, Word b, Word) { return static_cast<Word>(whole(a) >> std::min(b, 31U)); });
  if (op == ScalarOp::ShiftRight)
    return plain([](Word a, Word b, Word) { return b < 32 ? a >> (b & 31U) : 0; });
  if (const RowFunction f = integers(op)) return f;
  return t == Ty::I32   ? ordered(op, [](Word v) { return whole(v); })
         : t == Ty::U32 ? ordered(op, [](Word v) { return v; })
                        : nullptr;
}

RowFunction convert_function(Ty from, Ty to) {
  const bool from_word = from == Ty::Bool || from == Ty::I32 || from == Ty::U32;
  const bool to_word = to == Ty::I32 || to == Ty::U32;
  if (from == to || (from_word && to_word))
    return takes_two_words(to) ? nullptr : plain([](Word a, Word, Word) { return a; });
  if (from_word && to == Ty::Bool) return plain([](Word a, Word, Word) -> Word { return a != 0; });
  if (from == Ty::I32 && to == Ty::F32)
    return plain([](Word a, Word, Word) { return bits(static_cast<float>(whole(a))); });
  if (from_word && to == Ty::F32)
    return plain([](Word a, Word, Word) { return bits(static_cast<float>(a)); });
  if (from == Ty::F16 && to == Ty::F32)
    return plain([](Word a, Word, Word) { return bits(f16_to_float(static_cast<uint16_t>(a))); });
  if (from == Ty::F32 && to == Ty::F16)
    return plain([](Word a, Word, Word) -> Word { return float_to_f16(real(a)); });
  return nullptr;
}

RowFunction division_function(ScalarOp op, Ty t) {
  constexpr auto kQuotient = [](Word quotient, Word, Word) { return quotient; };
  constexpr auto kRest = [](Word quotient, Word a, Word b) { return a - quotient * b; };
  using Quotient = decltype(kQuotient);
  using Rest = decltype(kRest);
  if (t != Ty::I32 && t != Ty::U32) return nullptr;
  if (op == ScalarOp::IDiv)
    return t == Ty::I32 ? fastest<divided_row<Quotient, true>>()
                        : fastest<divided_row<Quotient, false>>();
  return t == Ty::I32 ? fastest<divided_row<Rest, true>>() : fastest<divided_row<Rest, false>>();
}

WordRange range_of(std::span<const uint32_t> words) {
  static const RangeFunction function = fastest_range();
  return function(words);
}

PeriodicWords::PeriodicWords(std::span<const uint32_t> words)
    : words_(words.data()),
      period_(static_cast<uint32_t>(words.size() - kMore)),
      shift_(31 + std::bit_width(period_)),
      reciprocal_((uint64_t{1} << shift_) / period_ + 1) {}

inline void PeriodicWords::load_any(std::span<const uint32_t> indices, size_t lanes, size_t stride,
                                    uint32_t* out) const {
  constexpr size_t kChunk = 2 * WordRows::kChunk;
  const auto position = [&](uint32_t index) {
    const auto quotient = static_cast<uint32_t>(index * reciprocal_ >> shift_);  // or one more
    const uint32_t rest = index - quotient * period_;
    return rest < period_ ? rest : rest + period_;
  };
  size_t n = 0;
  for (; n + kChunk <= indices.size(); n += kChunk) {
    std::array<uint32_t, kChunk> places, loaded;
    for (size_t i = 0; i < kChunk; ++i) places[i] = position(indices[n + i]);
    for (size_t l = 0; l < lanes; ++l) {
      for (size_t i = 0; i < kChunk; ++i) loaded[i] = words_[places[i] + l];
      std::memcpy(out + l * stride + n, loaded.data(), sizeof loaded);
    }
  }
  for (; n < indices.size(); ++n) {
    const uint32_t* from = words_ + position(indices[n]);
    for (size_t l = 0; l < lanes; ++l) out[l * stride + n] = from[l];
  }
}

void PeriodicWords::load(std::span<const uint32_t> indices, size_t lanes, size_t stride,
                         uint32_t* out) const {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return load_256(indices, lanes, stride, out);
#endif
  load_any(indices, lanes, stride, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::flatten]] void PeriodicWords::load_256(
    std::span<const uint32_t> indices, size_t lanes, size_t stride, uint32_t* out) const {
  load_any(indices, lanes, stride, out);
}
#endif

RowFunction mul_add_function(const InterpretOptions& options) {
  if (options.flush_subnormals) {
    if (options.native_error == NativeError::Every) return nullptr;
    return flushing([](Word a, Word b, Word c) {
      const uint32_t product = flushed(bits(real(a) * real(b)));
      return bits(real(product) + real(c));
    });
  }
  if (options.native_error != NativeError::Every) return plain(kMulAdd);
  return seeded([](float a, float b, float c, uint64_t seed) {
    return every_sum(every_product(a, b, seed), c, seed);
  });
}

}  // namespace reprise::kernel
