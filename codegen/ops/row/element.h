// Defines one output element of an operator as a function of input elements, once for all devices.
// Lowering inlines these definitions into fused kernels, so a view costs no more than its index
// arithmetic.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/kernel/build/builder.h"

namespace reprise::ops {

/// An index consists of expressions over loop symbols and opaque run-time values. Lowering can then
/// simplify indices, prove alignment and find contiguous accesses before it emits instructions.
using Index = std::vector<Expr>;

class ElementContext {
 public:
  virtual ~ElementContext() = default;
  virtual kernel::Builder& builder() = 0;
  virtual const graph::Graph& graph() const = 0;
  virtual const graph::Node& node() const = 0;
  virtual size_t output() const = 0;
  /// The index of the output element to compute. Its length is the rank of the output.
  virtual const Index& index() const = 0;
  const Shape& input_shape(size_t i) const { return graph().value(node().inputs[i]).shape; }
  const Shape& output_shape() const { return graph().value(node().outputs[output()]).shape; }

  /// The element of input i at this index, which must be in range: clamp an index that depends on
  /// data first. The result is Bool for bool tensors, I32 for I8..I32, U32 for U8..U32, I64 for
  /// I64, and F32 for floats (F16 if that is the compute type).
  virtual Result<kernel::Val> input(size_t i, const Index& index) = 0;
  /// The index of the element of `shape` that has the same row-major position as the element to
  /// compute. Nothing if that takes index arithmetic.
  virtual std::optional<Index> same_position(const Shape& shape) const = 0;
  /// Sets the result, which must have the compute type of the output's dtype.
  virtual void set(kernel::Val v) = 0;

  /// Simplifies an index expression with the ranges of its symbols.
  virtual Expr simplify(const Expr& e) = 0;
  /// An index expression as an I32 value. The value is undefined if it divides by a dim that is 0.
  virtual kernel::Val value(const Expr& e) = 0;
  /// A number of a shape that is used as data, as an I32 value. Division by 0 fails the run.
  virtual kernel::Val number(const Expr& e) = 0;
  /// A run-time I32 value in [0, bound) as an index expression.
  virtual Expr opaque(kernel::Val v, const Expr& bound) = 0;
  /// An index that depends on data (I32, U32 or I64), checked against a dim, which may be 0.
  /// Negative indices wrap if requested. An index out of range sets ErrorCode::IndexOutOfRange and
  /// is clamped.
  virtual Expr checked_index(kernel::Val v, const Expr& dim, bool wrap_negative) = 0;
  /// for (i = 0; i < count; ++i) body(i), where i is an index expression. Keep state across
  /// iterations in locals.
  virtual void loop(const Expr& count, const std::function<void(const Expr& i)>& body) = 0;
  /// Evaluates `then` only if the condition holds, so that its loads may be out of range otherwise.
  /// The result is `otherwise` if it does not hold.
  virtual Result<kernel::Val> guarded(kernel::Val condition, kernel::Val otherwise,
                                      const std::function<Result<kernel::Val>()>& then) = 0;
  /// The compute type of a dtype on this target.
  virtual kernel::Type compute(DType t) const = 0;
};

}  // namespace reprise::ops
