// Defines one output element of an operator in terms of its inputs' elements, once, for every
// device. The lowering inlines these definitions into fused kernels, so views cost index arithmetic
// only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/kernel/builder.h"

namespace reprise::ops {

/// Indices are expressions over loop symbols (and opaque run-time values), so that the lowering can
/// simplify them, prove alignment and find contiguous accesses before any instruction is emitted.
using Index = std::vector<Expr>;

class ElementContext {
 public:
  virtual ~ElementContext() = default;
  virtual kernel::Builder& builder() = 0;
  virtual const graph::Graph& graph() const = 0;
  virtual const graph::Node& node() const = 0;
  virtual size_t output() const = 0;
  /// Index of the wanted element; rank of the output.
  virtual const Index& index() const = 0;
  const Shape& input_shape(size_t i) const { return graph().value(node().inputs[i]).shape; }
  const Shape& output_shape() const { return graph().value(node().outputs[output()]).shape; }

  /// The element of input i at an index of its rank; the caller guarantees it is in range (clamp
  /// first when it is data-dependent). Bool tensors give Bool, I8..I32 give I32, U8..U32 U32, I64
  /// I64, floats F32 (F16 where the compute type is F16).
  virtual Result<kernel::Val> input(size_t i, const Index& index) = 0;
  /// The index of the element of `shape` at the same row-major position as the wanted element of
  /// the output; nothing where index arithmetic has to find it.
  virtual std::optional<Index> same_position(const Shape& shape) const = 0;
  /// Sets the result. Its type must be the compute type of the output's dtype.
  virtual void set(kernel::Val v) = 0;

  /// An index expression with the ranges of its symbols applied.
  virtual Expr simplify(const Expr& e) = 0;
  /// An index expression as an I32 value; anything where it divides by a dim that is 0.
  virtual kernel::Val value(const Expr& e) = 0;
  /// A number of a shape as an I32 value that is data: dividing by 0 is an error of the run.
  virtual kernel::Val number(const Expr& e) = 0;
  /// A run-time I32 value, known to lie in [0, bound), as an index expression.
  virtual Expr opaque(kernel::Val v, const Expr& bound) = 0;
  /// A data-dependent integer index (I32, U32 or I64) into a dimension: wraps negatives when asked,
  /// sets ErrorCode::IndexOutOfRange and clamps when out of range. The dimension may be empty.
  virtual Expr checked_index(kernel::Val v, const Expr& dim, bool wrap_negative) = 0;
  /// for (i = 0; i < count; ++i) with the body given i as an index expression. State goes in
  /// locals.
  virtual void loop(const Expr& count, const std::function<void(const Expr& i)>& body) = 0;
  /// Evaluates only where the condition holds (loads may be out of range elsewhere); `otherwise`
  /// elsewhere.
  virtual Result<kernel::Val> guarded(kernel::Val condition, kernel::Val otherwise,
                                      const std::function<Result<kernel::Val>()>& then) = 0;
  /// Compute type of a dtype on this target.
  virtual kernel::Type compute(DType t) const = 0;
};

}  // namespace reprise::ops
