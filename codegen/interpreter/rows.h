// Values of all invocations of the workgroups that are executed in step, and the scalar rows that
// kernels execute most, over all of them at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

struct InterpretOptions;

/// Invocations that execute: their positions in rows, ascending.
struct Active {
  std::span<const uint32_t> list;
  bool whole = false;  // element i is i
  size_t counted = 0;  // of the list, from its front: those whose stores count

  bool empty() const { return list.empty(); }
  Active only_counted() const { return {list.first(counted), whole, counted}; }
};

/// Loops without the list where all execute, which compilers make vector instructions of.
template <typename F>
void each(const Active& active, const F& f) {
  if (active.whole) {
    const auto count = static_cast<uint32_t>(active.list.size());
    for (uint32_t n = 0; n < count; ++n) f(n);
  } else {
    for (const uint32_t n : active.list) f(n);
  }
}

constexpr uint32_t kNobody = ~uint32_t{0};
/// The first for which the condition holds, or kNobody.
template <typename F>
uint32_t find(const Active& active, const F& condition) {
  for (const uint32_t n : active.list)
    if (condition(n)) return n;
  return kNobody;
}

inline bool is_wide(Ty t) {
  return t == Ty::I64 || t == Ty::U64 || t == Ty::F64;
}

/// One word for each invocation, of 64 bits for types of 64 bits, else of 32. Lanes of vectors
/// follow each other.
struct Row {
  uint32_t* narrow = nullptr;
  uint64_t* wide = nullptr;  // the other is null

  uint64_t get(size_t i) const { return wide != nullptr ? wide[i] : narrow[i]; }
  void set(size_t i, uint64_t bits) const {
    if (wide != nullptr) {
      wide[i] = bits;
    } else {
      narrow[i] = static_cast<uint32_t>(bits);
    }
  }
  Row from(size_t i) const {
    return wide != nullptr ? Row{nullptr, wide + i} : Row{narrow + i, nullptr};
  }
};

/// Operands and result of a scalar instruction whose types have at most 32 bits.
struct NarrowRows {
  static constexpr size_t kChunk = 8;  // `count` is a multiple of it
  uint32_t* out = nullptr;
  std::array<const uint32_t*, 3> in{};
  size_t count = 0;   // words
  uint64_t seed = 0;  // of the errors

  NarrowRows from(size_t i) const {
    return {out + i, {in[0] + i, in[1] + i, in[2] + i}, count, seed};
  }
};
using RowFunction = void (*)(const NarrowRows& rows);

/// Executes a row for `count` words, whether their invocations are active or not: nothing reads the
/// results of those that are not. Null for rows that scalar_function and inexact_result have to
/// execute. The results are the same.
RowFunction row_function(ScalarOp op, Ty t, const InterpretOptions& options);
/// The same of convert_bits: without checks of claims, and rounded to the nearest.
RowFunction convert_function(Ty from, Ty to);
/// Of a * b, rounded, plus c: a Mul and the Add that alone uses its result. Null as above.
RowFunction mul_add_function(const InterpretOptions& options);

}  // namespace reprise::kernel
