// The table of scalar operations, which has one row for each in scalar_ops.def. Both emitters, the
// interpreter, the tests of host kernels and the conformance tests iterate over it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::kernel {

enum class ScalarOp : uint16_t {
#define SCALAR_OP(name, ...) name,
#include "codegen/kernel/ir/scalar_ops.def"
#undef SCALAR_OP
};

/// The operand types that a row accepts, as a bit set.
enum TypeClass : uint8_t {
  kFloat = 1,
  kSigned = 2,
  kUnsigned = 4,
  kBoolean = 8,
  kInt = 6,
  kNumber = 7,
  kAny = 15
};
enum class ResultKind : uint8_t { Same, Boolean };

/// Why rounding the operands or results of an operation to 16 bits may ruin its results.
enum class Sensitivity : uint8_t {
  None,
  Exponential,  // overflows, and amplifies an error of its operand
  Logarithm,    // near 1, rounding of the operand takes the digits that matter
  Quotient,     // overflows for small operands
  Steep,        // its slope is unbounded near 1
  Angle,        // angles of many turns lose their fraction
  Sum,          // sums and statistics, which leave the range
  RunningSum,   // sums over a part of an axis, which are read like their terms
  Step,         // a small error becomes a whole one
  Decision,     // a small error changes the decision
  Divisor,      // overflows for a small second operand
  Square,       // overflows where a number is multiplied by itself
  Residual,     // errors add up if the sums of two tensors follow each other
  LowerBound,   // none; an operand below the range of the dtype has no effect
  UpperBound,   // none; an operand above the range of the dtype has no effect
};

struct ScalarRow {
  ScalarOp op;
  std::string_view name;  // that of the ONNX operator with this meaning, if there is one
  int arity;
  uint8_t operands;  // TypeClass bits
  ResultKind result;
  uint8_t leaves;  // TypeClass bits for which operands of a narrower dtype may have a wider result
  uint32_t cost;   // flops in the cost model of fusion (an add is 1)
  Sensitivity sensitivity;
  bool expanded;   // never emitted: expand.cpp replaces it by other rows
  bool exact;      // but for exact targets (LegalizeFor), for which it stays if it is of F32
  double f32_ulp;  // guaranteed error of float results; 0: exact or correctly rounded
  double f32_abs;  // additional absolute error
};

const ScalarRow& row(ScalarOp op);
/// Whether expand.cpp replaces the operation on floats, or on integers, by a loop, which lowering
/// does not count.
bool expands_to_loop(ScalarOp op, bool floats);
int scalar_op_count();

}  // namespace reprise::kernel
