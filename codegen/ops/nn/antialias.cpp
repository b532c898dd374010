#include "codegen/ops/nn/antialias.h"

#include <algorithm>

#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "runtime/operators/resample.h"

namespace reprise::ops {

namespace {

using Weighted = std::vector<std::pair<int64_t, double>>;

/// Which elements of an axis each result is a sum of, and with which weights: the same number for
/// each result.
struct TapTable {
  std::vector<int32_t> elements;
  std::vector<double> weights;
  int64_t taps = 1;
};

/// Makes a list as long as `count`. Further taps take parts of the last one's weight: with a weight
/// of 0, they would turn an infinite element into NaN.
void lengthen(Weighted& taps, size_t count) {
  const auto parts = static_cast<double>(count - taps.size() + 1);
  taps.back().second /= parts;
  taps.resize(count, taps.back());
}

TapTable tap_table(const resample::Options& options, const resample::Axis& axis) {
  std::vector<Weighted> rows;
  TapTable table;
  for (int64_t i = 0; i < axis.out; ++i) {
    rows.push_back(resample::taps_of(options, axis, i).weights);
    table.taps = std::max(table.taps, std::ssize(rows.back()));
  }
  for (Weighted& row : rows) {
    lengthen(row, static_cast<size_t>(table.taps));
    for (const auto& [element, weight] : row) {
      table.elements.push_back(static_cast<int32_t>(element));
      table.weights.push_back(weight);
    }
  }
  return table;
}

OpBuilder::V resized(OpBuilder& c, OpBuilder::V x, size_t at, const resample::Axis& axis,
                     const resample::Options& options) {
  const TapTable table = tap_table(options, axis);
  Shape out = c.shape(x);
  out[at] = Expr(axis.out);
  AttrMap a;
  a.set("axis", static_cast<int64_t>(at));
  const OpBuilder::V elements =
      c.constant(HostTensor::from<int32_t>(DType::I32, {axis.out, table.taps}, table.elements));
  const OpBuilder::V terms = c.op("Gather", {x, elements}, std::move(a));
  std::vector<int64_t> dims(out.size() + 1 - at, 1);  // broadcast over the axes behind
  dims[0] = axis.out;
  dims[1] = table.taps;
  const OpBuilder::V weights = c.constant(float_tensor(c.dtype(x), dims, table.weights));
  return c.reshape(c.reduce("ReduceSum", c.mul(terms, weights), {static_cast<int64_t>(at) + 1}),
                   out);
}

resample::Options filter(const Attributes& attrs, const std::string& mode,
                         const std::string& coordinates) {
  resample::Options o;
  o.mode = *resample::mode_of(mode);
  o.coordinates = *resample::coordinates_of(coordinates);
  o.cubic_a = static_cast<double>(attrs.get_float("cubic_coeff_a"));
  o.exclude_outside = attrs.get_int("exclude_outside") != 0;
  o.antialias = true;
  return o;
}

}  // namespace

Result<bool> resize_antialiased(Rewriter& rw, const std::string& mode,
                                const std::string& coordinates, std::span<const float> scales) {
  OpBuilder c(rw);
  const Shape in = c.shape(c.in(0)), out = c.shape(rw.node().outputs[0]);
  const DType t = c.dtype(c.in(0));
  const resample::Options options = filter(c.attrs(), mode, coordinates);
  OpBuilder::V x = c.cast(c.in(0), accumulate_dtype(t));
  for (size_t d = 0; d < out.size() && c.ok(); ++d) {
    if (scales.empty() ? in[d] == out[d] : scales[d] == 1.0F) continue;
    resample::Axis axis{in[d].value(), out[d].value()};
    axis.scale = scales.empty() ? static_cast<double>(axis.out) / static_cast<double>(axis.in)
                                : static_cast<double>(scales[d]);
    x = resized(c, x, d, axis, options);
  }
  c.replace(0, c.cast(x, t));
  return c.finish();
}

}  // namespace reprise::ops
