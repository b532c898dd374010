// What a kernel template may know of an operand of its problem (shaders/operand.h).
#pragma once

#include <functional>

#include "codegen/lower/launch/result_kernel.h"
#include "shaders/operand.h"

namespace reprise::lower {

/// How a problem indexes an operand: element (i, k), of `count` values of i and `depth` of k, is at
/// the index that `at` gives.
struct OperandIndex {
  const Expr &count, &depth;
  const std::function<Index(const Expr& i, const Expr& k)>& at;
};

/// How an operand lies in memory: element (i, k) is at first + i * across + k * along.
struct OperandLayout {
  graph::ValueId value;  // whose memory it is
  Expr first, across, along;
};
/// Nothing if v is computed, or has no fixed distances.
std::optional<OperandLayout> layout_of(ResultKernel& kernel, graph::ValueId v,
                                       const OperandIndex& index);

/// What a template may know of v: the plain form, if it has a layout.
shaders::Operand operand_of(ResultKernel& kernel, graph::ValueId v, const OperandIndex& index);

}  // namespace reprise::lower
