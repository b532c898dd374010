#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

namespace {

template <typename T>
HostTensor integer_scalar(DType dtype, double value) {
  // Converting a double that is out of range is undefined. Infinity stands for the largest value.
  const auto lo = static_cast<double>(std::numeric_limits<T>::min());
  const auto hi = static_cast<double>(std::numeric_limits<T>::max());
  T v = 0;
  if (value >= hi) {
    v = std::numeric_limits<T>::max();
  } else if (value <= lo) {
    v = std::numeric_limits<T>::min();
  } else if (!std::isnan(value)) {
    v = static_cast<T>(value);
  }
  return HostTensor::from<T>(dtype, {}, {v});
}

HostTensor scalar_tensor(DType dtype, double value) {
  switch (dtype) {
    case DType::Bool:
      return HostTensor::from<uint8_t>(dtype, {}, {uint8_t{value != 0}});
    case DType::I8:
      return integer_scalar<int8_t>(dtype, value);
    case DType::U8:
      return integer_scalar<uint8_t>(dtype, value);
    case DType::I16:
      return integer_scalar<int16_t>(dtype, value);
    case DType::U16:
      return integer_scalar<uint16_t>(dtype, value);
    case DType::I32:
      return integer_scalar<int32_t>(dtype, value);
    case DType::U32:
      return integer_scalar<uint32_t>(dtype, value);
    case DType::I64:
      return integer_scalar<int64_t>(dtype, value);
    case DType::U64:
      return integer_scalar<uint64_t>(dtype, value);
    default:
      if (is_low_bit(dtype)) {
        const uint8_t code = low_bit_from_float(dtype, static_cast<float>(value));
        return HostTensor::from<uint8_t>(dtype, {}, {code});
      }
      return float_tensor(dtype, {}, {value});
  }
}

}  // namespace

Result<graph::ValueId> Rewriter::emit(graph::OpName op, std::vector<graph::ValueId> inputs,
                                      AttrMap attrs) {
  const graph::ValueId result = g_.add_unknown(n_.name + "/" + op);
  RP_TRY(add(op, std::move(inputs), std::move(attrs), {result}));
  return result;
}

Result<std::vector<graph::ValueId>> Rewriter::emit_all(graph::OpName op,
                                                       std::vector<graph::ValueId> inputs,
                                                       AttrMap attrs, size_t outputs) {
  std::vector<graph::ValueId> results;
  for (size_t i = 0; i < outputs; ++i)
    results.push_back(g_.add_unknown(n_.name + "/" + op + "_" + std::to_string(i)));
  RP_TRY(add(op, std::move(inputs), std::move(attrs), results));
  return results;
}

Result<graph::ValueId> Rewriter::emit_shaped(graph::OpName op, std::vector<graph::ValueId> inputs,
                                             AttrMap attrs, DType dtype, Shape shape) {
  const graph::ValueId result = g_.add_value(n_.name + "/" + op, dtype, std::move(shape));
  RP_TRY(add(op, std::move(inputs), std::move(attrs), {result}));
  return result;
}

Status Rewriter::add(graph::OpName op, std::vector<graph::ValueId> inputs, AttrMap attrs,
                     std::vector<graph::ValueId> results) {
  graph::NodeSpec n;
  n.name = n_.name + "/" + op;
  n.op = op;
  n.inputs = std::move(inputs);
  n.outputs = std::move(results);
  n.attrs = std::move(attrs);
  n.origins = n_.origins;
  n.origin_op = n_.origin_op.empty() ? n_.op : n_.origin_op;
  return infer(g_, *g_.add_node(std::move(n), &n_));
}

graph::ValueId Rewriter::constant(HostTensor t) {
  return g_.add_constant(n_.name + "/constant", std::move(t));
}

graph::ValueId Rewriter::scalar_constant(DType dtype, double value) {
  return constant(scalar_tensor(dtype, value));
}

graph::ValueId Rewriter::int_constant(const std::vector<int64_t>& values) {
  const auto n = static_cast<int64_t>(values.size());
  return constant(HostTensor::from<int64_t>(DType::I64, {n}, values));
}

Result<graph::ValueId> Rewriter::reshape(graph::ValueId v, Shape to) {
  const graph::Value& value = g_.value(v);
  if (value.shape == to) return v;
  if (value.constant && is_static(to)) {
    return constant(value.constant->reshaped(static_dims(to)));
  }
  AttrMap a;
  a.set("shape", std::vector<Expr>(std::move(to)));
  return emit("Reshape", {v}, std::move(a));
}

Result<graph::ValueId> Rewriter::transpose(graph::ValueId v, std::vector<int64_t> perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return v;
  AttrMap a;
  a.set("perm", std::move(perm));
  return emit("Transpose", {v}, std::move(a));
}

Status Rewriter::replace(size_t i, graph::ValueId v) {
  const graph::ValueId old = n_.outputs[i];
  if (old == graph::kNone || old == v) return {};
  if (g_.value(old).dtype == DType::Invalid) {
    // infer_composed() asks for the types.
    const graph::Value& result = g_.value(v);
    graph::Value& output = g_.value(old);
    output.dtype = result.dtype;
    output.shape = result.shape;
    output.has_shape = result.has_shape;
    output.items = result.items;
    output.elements = result.elements;
  }
  if (g_.value(old).dtype != g_.value(v).dtype) {
    return internal_error("node '" + n_.name + "' (" + n_.op +
                          "): the decomposition has the dtype " +
                          std::string(name_of(g_.value(v).dtype)) + ", expected " +
                          std::string(name_of(g_.value(old).dtype)))
        .about(n_.origins);
  }
  graph::Node* producer = g_.value(v).producer;
  const bool emitted_here = producer != nullptr && producer != &n_ && !g_.is_output(v) &&
                            g_.value(v).name.rfind(n_.name + "/", 0) == 0;
  if (!emitted_here && g_.is_output(old)) {
    AttrMap a;
    a.set("shape", std::vector<Expr>(g_.value(old).shape));
    RP_ASSIGN(v, emit("Reshape", {v}, std::move(a)));
    producer = g_.value(v).producer;
  } else if (!emitted_here) {
    g_.replace_uses(old, v);
    g_.set_output(n_, i, graph::kNone);
    return {};
  }
  // The new producer takes over the old value, which keeps its id and name.
  g_.replace_uses(v, old);
  g_.set_output(n_, i, graph::kNone);
  const auto at = std::ranges::find(producer->outputs, v) - producer->outputs.begin();
  g_.set_output(*producer, static_cast<size_t>(at), old);
  return {};
}

}  // namespace reprise::ops
