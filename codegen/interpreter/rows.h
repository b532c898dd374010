// Rows of values, which have one word for each invocation of the workgroups in lockstep, and the
// most frequent scalar operations over whole rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

struct InterpretOptions;

/// The active invocations, as positions in rows, ascending.
struct Active {
  std::span<const uint32_t> list;
  bool whole = false;  // whether all are active, so that element i of the list is i
  size_t counted = 0;  // how many at the front of the list have stores that count
  size_t checked = 0;  // how many at the front count or have the first options

  bool empty() const { return list.empty(); }
  Active first(size_t count) const {
    return {list.first(count), whole, std::min(counted, count), std::min(checked, count)};
  }
};

/// Calls f for each active invocation. If all are active, the loop does not use the list, so that
/// compilers can vectorise it.
template <typename F>
void each(const Active& active, const F& f) {
  if (active.whole) {
    const auto count = static_cast<uint32_t>(active.list.size());
    for (uint32_t n = 0; n < count; ++n) f(n);
  } else {
    for (const uint32_t n : active.list) f(n);
  }
}

constexpr uint32_t kNoInvocation = ~uint32_t{0};
/// The first active invocation for which the condition holds, or kNoInvocation.
template <typename F>
uint32_t find(const Active& active, const F& condition) {
  for (const uint32_t n : active.list)
    if (condition(n)) return n;
  return kNoInvocation;
}

inline bool takes_two_words(Ty t) {
  return t == Ty::I64 || t == Ty::U64 || t == Ty::F64;
}

/// One word for each invocation: of 64 bits for 64-bit types, else of 32 bits. The lanes of a
/// vector follow one another.
struct Row {
  uint32_t* u32 = nullptr;
  uint64_t* u64 = nullptr;  // the other is null

  bool is_null() const { return u32 == nullptr && u64 == nullptr; }
  uint64_t get(size_t i) const { return u64 != nullptr ? u64[i] : u32[i]; }
  void set(size_t i, uint64_t bits) const {
    if (u64 != nullptr) {
      u64[i] = bits;
    } else {
      u32[i] = static_cast<uint32_t>(bits);
    }
  }
  Row from(size_t i) const {
    return u64 != nullptr ? Row{nullptr, u64 + i} : Row{u32 + i, nullptr};
  }
};

/// Operands and result of a scalar instruction whose types have at most 32 bits.
struct WordRows {
  static constexpr size_t kChunk = 8;  // `count` is a multiple of it
  uint32_t* out = nullptr;
  std::array<const uint32_t*, 3> in{};
  size_t count = 0;   // words
  uint64_t seed = 0;  // for the errors

  WordRows from(size_t i) const {
    return {out + i, {in[0] + i, in[1] + i, in[2] + i}, count, seed};
  }
};
using RowFunction = void (*)(const WordRows& rows);

/// Of some words: the largest, and all bits that any of them has.
struct WordRange {
  uint32_t largest = 0, bits = 0;
};
WordRange range_of(std::span<const uint32_t> words);

/// Words that repeat without end.
class PeriodicWords {
 public:
  static constexpr size_t kMore = 8;  // words of the next period that `words` also has
  explicit PeriodicWords(std::span<const uint32_t> words);
  /// Loads the `lanes` words (at most kMore) from each index on. Word l of index n becomes
  /// out[l * stride + n].
  void load(std::span<const uint32_t> indices, size_t lanes, size_t stride, uint32_t* out) const;

 private:
  void load_any(std::span<const uint32_t> indices, size_t lanes, size_t stride,
                uint32_t* out) const;
#if defined(__x86_64__)
  void load_256(std::span<const uint32_t> indices, size_t lanes, size_t stride,
                uint32_t* out) const;
#endif
  const uint32_t* words_;
  uint32_t period_;
  int shift_;
  uint64_t reciprocal_;  // of the period, rounded up, times 2^shift_
};

/// The function that executes a scalar operation for `count` words, of active and inactive
/// invocations alike: nothing reads the results of inactive ones. Null if only scalar_function or
/// inexact_result can execute it. The results are the same.
RowFunction row_function(ScalarOp op, Ty t, const InterpretOptions& options);
/// The same for convert_bits, without checking range claims, and rounding to nearest.
RowFunction convert_function(Ty from, Ty to);
/// The function for IDiv and IRem of I32 and U32 by a divisor that all invocations share. It is not
/// 0, and its magnitude is at most kMaxDivisor. May be null as above.
inline constexpr uint32_t kMaxDivisor = 1U << 30U;
RowFunction division_function(ScalarOp op, Ty t);
/// The function for a * b, rounded, plus c: a Mul and the Add that is its only user. May be null as
/// above.
RowFunction mul_add_function(const InterpretOptions& options);

}  // namespace reprise::kernel
