#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

namespace {

/// Null if both operands are null: their builder has already noted an error.
Value write(ScalarOp op, const Value& a, const Value& b) {
  Builder* builder = a.builder != nullptr ? a.builder : b.builder;
  return builder != nullptr ? builder->scalar_op(op, {a, b}) : Value();
}

Value write(ScalarOp op, const Value& a, int64_t b) {
  if (a.builder == nullptr) return {};
  return a.builder->scalar_op(op,
                              {a, a.builder->constant(a.builder->type(a), static_cast<double>(b))});
}

}  // namespace

Value operator+(const Value& a, const Value& b) {
  return write(ScalarOp::Add, a, b);
}
Value operator-(const Value& a, const Value& b) {
  return write(ScalarOp::Sub, a, b);
}
Value operator*(const Value& a, const Value& b) {
  return write(ScalarOp::Mul, a, b);
}
Value operator/(const Value& a, const Value& b) {
  return write(ScalarOp::Div, a, b);
}
Value operator%(const Value& a, const Value& b) {
  return write(ScalarOp::Rem, a, b);
}
Value operator<(const Value& a, const Value& b) {
  return write(ScalarOp::Less, a, b);
}
Value min(const Value& a, const Value& b) {
  return write(ScalarOp::Min, a, b);
}
Value operator+(const Value& a, int64_t b) {
  return write(ScalarOp::Add, a, b);
}
Value operator-(const Value& a, int64_t b) {
  return write(ScalarOp::Sub, a, b);
}
Value operator*(const Value& a, int64_t b) {
  return write(ScalarOp::Mul, a, b);
}
Value operator/(const Value& a, int64_t b) {
  return write(ScalarOp::Div, a, b);
}
Value operator%(const Value& a, int64_t b) {
  return write(ScalarOp::Rem, a, b);
}
Value operator<(const Value& a, int64_t b) {
  return write(ScalarOp::Less, a, b);
}
Value min(const Value& a, int64_t b) {
  return write(ScalarOp::Min, a, b);
}
Value operator-(int64_t a, const Value& b) {
  if (b.builder == nullptr) return {};
  return b.builder->constant(b.builder->type(b), static_cast<double>(a)) - b;
}

}  // namespace reprise::kernel
