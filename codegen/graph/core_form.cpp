#include "codegen/graph/core_form.h"

#include <array>
#include <string_view>

#include "codegen/ops/op.h"

namespace reprise::graph {

namespace {

enum class Kind : uint8_t {
  Int,
  Axis,         // int in [0, rank of input 0)
  Axes,         // distinct ints in [0, rank of input 0)
  Permutation,  // of the axes of input 0
  Scales,       // floats, one per axis of input 0
  Sizes,        // exprs, one per axis of the output
  PerAxis,      // exprs, one per axis of input 0
  Pads,         // exprs, begins then ends of the axes of input 0
  Exprs,
  String,
  Spatial,      // ints, one per spatial axis of input 0
  SpatialPads,  // ints or exprs, begins then ends of the spatial axes
  StaticPads,   // ints, begins then ends of the spatial axes
  Absent,       // an attribute of the ONNX operator that core nodes do not have
};

struct Rule {
  std::string_view op, attribute;
  Kind kind;
};

constexpr auto kRules = std::to_array<Rule>({
    {"Cast", "to", Kind::Int},
    {"Reshape", "shape", Kind::Sizes},
    {"Transpose", "perm", Kind::Permutation},
    {"Slice", "starts", Kind::PerAxis},
    {"Slice", "steps", Kind::PerAxis},
    {"Expand", "shape", Kind::Sizes},
    {"ShapeValue", "elements", Kind::Exprs},
    {"ShapeValue", "dtype", Kind::Int},
    {"Concat", "axis", Kind::Axis},
    {"Pad", "mode", Kind::String},
    {"Pad", "pads", Kind::Pads},
    {"Gather", "axis", Kind::Axis},
    {"GatherElements", "axis", Kind::Axis},
    {"ReduceSum", "axes", Kind::Axes},
    {"ReduceMax", "axes", Kind::Axes},
    {"ReduceMin", "axes", Kind::Axes},
    {"ReduceProd", "axes", Kind::Axes},
    {"ArgMax", "axis", Kind::Axis},
    {"ArgMin", "axis", Kind::Axis},
    {"DequantizeLinear", "axis", Kind::Axis},
    {"Conv", "strides", Kind::Spatial},
    {"Conv", "dilations", Kind::Spatial},
    {"Conv", "pads", Kind::StaticPads},
    {"Conv", "group", Kind::Int},
    {"ConvTranspose", "strides", Kind::Spatial},
    {"ConvTranspose", "dilations", Kind::Spatial},
    {"ConvTranspose", "pads", Kind::StaticPads},
    {"ConvTranspose", "output_padding", Kind::Spatial},
    {"ConvTranspose", "group", Kind::Int},
    {"MaxPool", "kernel_shape", Kind::Spatial},
    {"MaxPool", "strides", Kind::Spatial},
    {"MaxPool", "dilations", Kind::Spatial},
    {"MaxPool", "pads", Kind::SpatialPads},
    {"AveragePool", "kernel_shape", Kind::Spatial},
    {"AveragePool", "strides", Kind::Spatial},
    {"AveragePool", "dilations", Kind::Spatial},
    {"AveragePool", "pads", Kind::SpatialPads},
    {"Conv", "auto_pad", Kind::Absent},
    {"ConvTranspose", "auto_pad", Kind::Absent},
    {"ConvTranspose", "output_shape", Kind::Absent},
    {"MaxPool", "auto_pad", Kind::Absent},
    {"AveragePool", "auto_pad", Kind::Absent},
    {"Resize", "axes", Kind::Absent},
    {"Resize", "keep_aspect_ratio_policy", Kind::Absent},
});

bool distinct_axes(const std::vector<int64_t>* axes, size_t rank) {
  if (!axes) return false;
  std::vector<bool> seen(rank);
  for (int64_t a : *axes) {
    if (a < 0 || static_cast<size_t>(a) >= rank || seen[static_cast<size_t>(a)]) return false;
    seen[static_cast<size_t>(a)] = true;
  }
  return true;
}

bool has_form(const Graph& g, const Node& n, const Rule& rule) {
  const auto rank_of = [&](const std::vector<ValueId>& list) {
    return list.empty() || list[0] == kNone ? size_t{0} : g.value(list[0]).shape.size();
  };
  const size_t rank = rank_of(n.inputs);
  const size_t spatial = rank < 2 ? 0 : rank - 2;
  const auto* i = n.attrs.get<int64_t>(rule.attribute);
  const auto* ints = n.attrs.get<std::vector<int64_t>>(rule.attribute);
  const auto* exprs = n.attrs.get<std::vector<Expr>>(rule.attribute);
  switch (rule.kind) {
    case Kind::Int:
      return i;
    case Kind::Axis:
      return i && *i >= 0 && static_cast<size_t>(*i) < rank;
    case Kind::Axes:
      return distinct_axes(ints, rank);
    case Kind::Permutation:
      return distinct_axes(ints, rank) && ints->size() == rank;
    case Kind::Scales: {
      const auto* floats = n.attrs.get<std::vector<float>>(rule.attribute);
      return floats && floats->size() == rank;
    }
    case Kind::Sizes:
      return exprs && exprs->size() == rank_of(n.outputs);
    case Kind::PerAxis:
      return exprs && exprs->size() == rank;
    case Kind::Pads:
      return exprs && exprs->size() == 2 * rank;
    case Kind::Exprs:
      return exprs;
    case Kind::String:
      return n.attrs.get<std::string>(rule.attribute);
    case Kind::Spatial:
      return ints && ints->size() == spatial;
    case Kind::SpatialPads:
      return (ints && ints->size() == 2 * spatial) || (exprs && exprs->size() == 2 * spatial);
    case Kind::StaticPads:
      return ints && ints->size() == 2 * spatial;
    case Kind::Absent:
      return !n.attrs.has(rule.attribute);
  }
  return false;
}

}  // namespace

Status check_core_form(const Graph& g, const Node& n) {
  if (!ops::find(n.domain, n.op)) return internal_error("is not an operator of the registry");
  for (const Rule& rule : kRules) {
    if (n.op != rule.op || has_form(g, n, rule)) continue;
    return internal_error("attribute '" + std::string(rule.attribute) +
                          (rule.kind == Kind::Absent
                               ? "' does not exist in core form"
                               : "' is missing or not as the core form has it"));
  }
  if (n.op == "Resize") {
    const Rule scales{"Resize", "scales", Kind::Scales}, sizes{"Resize", "sizes", Kind::Sizes};
    const Rule& given = n.attrs.has("scales") ? scales : sizes;
    if (n.attrs.has("scales") == n.attrs.has("sizes") || !has_form(g, n, given)) {
      return internal_error("a core Resize has either scales or sizes, of all axes");
    }
  }
  if (n.op == "Slice") {
    for (const Expr& step : n.attrs.get_exprs("steps")) {
      if (!step.is_const() || step.value() == 0) {
        return internal_error("steps of a core Slice are constants other than 0");
      }
    }
  }
  if (n.attrs.has("channels_last")) {
    const auto* flag = n.attrs.get<int64_t>("channels_last");
    if (flag == nullptr || (*flag != 0 && *flag != 1))
      return internal_error("attribute 'channels_last' is 0 or 1");
  }
  if (n.op == "Conv" && n.inputs.size() != 2) return internal_error("a core Conv has two inputs");
  if (n.op == "MatMul") {
    for (ValueId v : n.inputs) {
      if (v == kNone || g.value(v).shape.size() < 2) {
        return internal_error("inputs of a core MatMul have rank 2 or more");
      }
    }
  }
  return {};
}

}  // namespace reprise::graph
