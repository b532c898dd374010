#include "codegen/kernel/interpreter_rows.h"

#include <bit>
#include <cmath>

#include "codegen/kernel/native_error.h"

namespace reprise::kernel {
namespace {

float real(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

uint64_t bits(float v) {
  return std::bit_cast<uint32_t>(v);
}

template <typename F>
bool each(const RowLane& lane, const F& f) {
  for (const uint32_t n : lane.active) lane.out[n] = f(n);
  return true;
}

bool execute_floats(ScalarOp op, const RowLane& lane) {
  const auto [a, b, c] = lane.in;
  switch (op) {
    case ScalarOp::Add:
      return each(lane, [a = a, b = b](uint32_t n) { return bits(real(a[n]) + real(b[n])); });
    case ScalarOp::Sub:
      return each(lane, [a = a, b = b](uint32_t n) { return bits(real(a[n]) - real(b[n])); });
    case ScalarOp::Mul:
      return each(lane, [a = a, b = b](uint32_t n) { return bits(real(a[n]) * real(b[n])); });
    case ScalarOp::Fma:
      return each(lane, [a = a, b = b, c = c](uint32_t n) {
        const float product = real(a[n]) * real(b[n]);
        return bits(product + real(c[n]));
      });
    default:
      return false;
  }
}

bool execute_every(ScalarOp op, uint64_t seed, const RowLane& lane) {
  const auto [a, b, c] = lane.in;
  switch (op) {
    case ScalarOp::Add:
      return each(lane, [a = a, b = b, seed](uint32_t n) {
        return bits(every_sum(real(a[n]), real(b[n]), seed));
      });
    case ScalarOp::Sub:
      return each(lane, [a = a, b = b, seed](uint32_t n) {
        return bits(every_sum(real(a[n]), -real(b[n]), seed));
      });
    case ScalarOp::Mul:
      return each(lane, [a = a, b = b, seed](uint32_t n) {
        return bits(every_product(real(a[n]), real(b[n]), seed));
      });
    case ScalarOp::Fma:
      return each(lane, [a = a, b = b, c = c, seed](uint32_t n) {
        return bits(every_fma(real(a[n]), real(b[n]), real(c[n]), seed));
      });
    default:
      return false;
  }
}

bool execute_integers(ScalarOp op, const RowLane& lane) {
  const auto [a, b, c] = lane.in;
  const auto low = [](uint64_t v) { return static_cast<uint64_t>(static_cast<uint32_t>(v)); };
  switch (op) {
    case ScalarOp::Add:
      return each(lane, [=, a = a, b = b](uint32_t n) { return low(a[n] + b[n]); });
    case ScalarOp::Sub:
      return each(lane, [=, a = a, b = b](uint32_t n) { return low(a[n] - b[n]); });
    case ScalarOp::Mul:
      return each(lane, [=, a = a, b = b](uint32_t n) { return low(a[n] * b[n]); });
    default:
      return false;
  }
}

}  // namespace

bool execute_fast(ScalarOp op, Ty t, const InterpretOptions& options, const RowLane& lane) {
  if (t == Ty::I32 || t == Ty::U32) return execute_integers(op, lane);
  if (t != Ty::F32 || options.flush_subnormals) return false;
  if (options.native_error == NativeError::None) return execute_floats(op, lane);
  if (options.native_error == NativeError::Every)
    return execute_every(op, options.error_seed, lane);
  return op != ScalarOp::Fma && execute_floats(op, lane);
}

}  // namespace reprise::kernel
