#include "codegen/ops/math/dequantized.h"

#include <algorithm>
#include <cmath>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;
using kernel::ScalarOp;

std::optional<AlongAxis> along_axis(const Value& v, const std::vector<int64_t>& weight) {
  if (!v.constant || v.constant->dims().size() > weight.size()) return std::nullopt;
  AlongAxis out;
  const std::vector<int64_t>& dims = v.constant->dims();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const size_t at = weight.size() - dims.size() + d;
    if (out.axis >= 0 || dims[d] != weight[at]) return std::nullopt;
    out.axis = static_cast<int64_t>(at);
  }
  const auto numbers = constant_numbers(v);
  if (!numbers || numbers->empty()) return std::nullopt;
  out.numbers = *numbers;
  return out;
}

/// The other operand of two, if it is a constant.
std::optional<AlongAxis> constant_operand(const Graph& g, const Node& n, size_t variable,
                                          const std::vector<int64_t>& weight) {
  if (n.inputs.size() != 2) return std::nullopt;
  return along_axis(g.value(n.inputs[1 - variable]), weight);
}

const Node* producer(const Graph& g, ValueId v) {
  return v == kNone ? nullptr : g.value(v).producer;
}

/// The constant of integers that a Cast converts to float32.
ValueId converted_constant(const Graph& g, const Node* cast) {
  const OpDef* def = cast == nullptr ? nullptr : find(*cast);
  if (def == nullptr || !def->converts) return kNone;
  const Value& from = g.value(cast->inputs[0]);
  const bool integers = is_int(from.dtype) || is_low_bit_int(from.dtype);
  const bool matches = integers && from.constant && g.value(cast->outputs[0]).dtype == DType::F32;
  return matches ? cast->inputs[0] : kNone;
}

bool fits(const std::vector<double>& zeros, DType t) {
  const bool is_signed = is_signed_int(t) || is_signed_low_bit_int(t);
  const double numbers = std::ldexp(1.0, bits_of(t));
  const double lo = is_signed ? -numbers / 2 : 0;
  return std::all_of(zeros.begin(), zeros.end(),
                     [&](double z) { return z == std::floor(z) && z >= lo && z < lo + numbers; });
}

/// Matches Mul(Sub(Cast(weight), zero), scale). Operand `side` of `mul` is the one that varies.
std::optional<Dequantized> match(const Graph& g, const Node& mul, size_t side) {
  Dequantized d;
  const Node* p = producer(g, mul.inputs[side]);
  const Node* cast = p;
  if (p != nullptr && scalar_op(*p) == ScalarOp::Sub) cast = producer(g, p->inputs[0]);
  d.weight = converted_constant(g, cast);
  if (d.weight == kNone) return std::nullopt;
  const std::vector<int64_t>& dims = g.value(d.weight).constant->dims();
  const auto scale = constant_operand(g, mul, side, dims);
  if (!scale || g.value(mul.outputs[0]).shape != g.value(d.weight).shape) return std::nullopt;
  d.scale = *scale;
  d.zero.numbers = {0};
  if (cast != p) {
    const auto zero = constant_operand(g, *p, 0, dims);
    if (!zero || !fits(zero->numbers, g.value(d.weight).dtype)) return std::nullopt;
    d.zero = *zero;
    d.origins = p->origins;
  }
  d.origins.insert(d.origins.begin(), cast->origins.begin(), cast->origins.end());
  // Scale and zero point must vary along the same axis.
  if (d.zero.axis >= 0 && d.scale.axis >= 0 && d.zero.axis != d.scale.axis) return std::nullopt;
  return d;
}

}  // namespace

std::optional<Dequantized> match_dequantized(const Graph& g, const Node& n) {
  if (scalar_op(n) != ScalarOp::Mul || n.inputs.size() != 2) return std::nullopt;
  std::optional<Dequantized> d = match(g, n, 0);
  return d ? d : match(g, n, 1);
}

}  // namespace reprise::ops
