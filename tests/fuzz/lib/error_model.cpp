#include "tests/fuzz/lib/error_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/kernel/ir/scalar_ops.h"
#include "codegen/ops/row/op.h"
#include "runtime/host/support.h"
#include "tests/fuzz/lib/recurrent_range.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

using graph::ValueId;

/// Loop lengths of sums, as the operands say.
double terms_of(const graph::Node& n, const std::vector<const HostTensor*>& in,
                const HostTensor& out) {
  if (n.op == "MatMul") return static_cast<double>(in[0]->dims().back());
  if (n.op == "Conv" || n.op == "ConvTranspose") {
    return static_cast<double>(in[1]->count()) /
           static_cast<double>(std::max<int64_t>(1, in[1]->dims()[0]));
  }
  return static_cast<double>(in[0]->count()) /
         static_cast<double>(std::max<int64_t>(1, out.count()));
}

/// Its results are 0 only for operands that are 0 or not finite, but for the range of the dtype.
bool makes_factors(std::string_view op) {
  static constexpr std::string_view kFactors[] = {"Exp", "Mul",     "Div", "DivRn",
                                                  "Pow", "Sigmoid", "Cast"};
  return std::find(std::begin(kFactors), std::end(kFactors), op) != std::end(kFactors);
}

bool is_product(std::string_view op) {
  return op == "ReduceProd" || op == "CumProd";
}

bool moves_only(const ops::OpDef& def) {
  static constexpr std::string_view kMoves[] = {
      "Concat",   "Pad",   "Gather",     "GatherElements",  "GatherND",  "Tile",
      "Trilu",    "Where", "ShapeValue", "ScatterElements", "ScatterND", "Scatter",
      "Compress", "TopK",  "Unique",     "ReverseSequence", "OneHot",    "EyeLike"};
  return def.lowering == ops::Lowering::View ||
         std::find(std::begin(kMoves), std::end(kMoves), def.name) != std::end(kMoves);
}

/// Gives one of its operands, or its negative. Kernels compare or compute to do so, which may take
/// numbers below the normal ones as 0.
bool selects(const ops::OpDef& def) {
  static constexpr std::string_view kSelects[] = {"Neg", "Abs", "ReduceMax", "ReduceMin",
                                                  "MaxPool"};
  return std::find(std::begin(kSelects), std::end(kSelects), def.name) != std::end(kSelects);
}

/// Reads at positions that are given as numbers. Their rounding counts also for a pixel beside the
/// padding, or the only one of a maximum, where no neighbour makes up for its weight.
bool reads_at_positions(const graph::Node& n) {
  return n.op == "GridSample" || n.op == "RoiAlign";
}

/// Where a result lies between elements is rounded, too.
bool interpolates(const graph::Node& n) {
  if (n.op == "Resize" || n.op == "Upsample")
    return n.attrs.get_string("mode", "nearest") != "nearest";
  return reads_at_positions(n);
}

/// Converts a tensor of floats.
Status convert(DType dtype, HostTensor& t) {
  if (t.dtype() == dtype || !is_float(t.dtype())) return {};
  RP_ASSIGN(const std::vector<double> values, host::load_all(t));
  RP_ASSIGN(t, host::store_all(dtype, t.dims(), values));
  return {};
}

/// Makes 16-bit floats fp32, which has digits for the errors of sums that are computed in fp32.
Status widen(std::vector<const HostTensor*>& inputs, Tensors& wide) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || !is_float(inputs[i]->dtype()) || size_of(inputs[i]->dtype()) != 2)
      continue;
    wide[i] = *inputs[i];
    RP_TRY(convert(DType::F32, wide[i]));
    inputs[i] = &wide[i];
  }
  return {};
}

double largest_magnitude(const HostTensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    const double v = std::fabs(test::number(t, i));
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  return largest;
}

/// The spatial axes, and those of another size.
std::vector<bool> interpolated_axes(const HostTensor& x, const HostTensor& y) {
  std::vector<bool> out;
  for (size_t axis = 0; axis < x.dims().size(); ++axis)
    out.push_back(axis >= 2 || axis >= y.dims().size() || x.dims()[axis] != y.dims()[axis]);
  return out;
}

}  // namespace

ErrorModel::ErrorModel(uint64_t seed, DType memory) : memory_(memory), mover_(seed, memory) {
  poles_ = mover_.between(0, 1) < 0.5;
  rounds_ = mover_.between(0, 1) < 0.75;
  keeps_tiny_ = mover_.between(0, 1) < 0.5;
}

/// What an operator's results, or the elements that it reads, may be off by.
ErrorModel::OperatorError ErrorModel::error_of(const graph::Node& n, DType t, DType memory) {
  const ops::OpDef* def = ops::find(n);
  const double u = std::max(unit_roundoff(t), unit_roundoff(memory)), u32 = unit_roundoff(memory);
  if (def == nullptr || !is_float(t)) return {};
  // Tensors of lower precision in memory: whatever is stored is rounded.
  const double stored = memory == DType::F32 ? 0 : 2 * u;
  if (moves_only(*def) || selects(*def)) return {stored, 0, 0};
  if (def->row) {
    const kernel::ScalarRow& r = kernel::row(*def->row);
    if (r.f32_ulp == 0 && r.f32_abs == 0) return {stored, 0, 0};
    return {2 * std::max(u, 2 * r.f32_ulp * u32), r.f32_abs, 0};
  }
  if (n.op == "Cast") return {2 * u, 0, 0};
  if (n.op == "Range") return {4 * u, 0, 0};  // its operands decide its size
  return {4 * u, 0, 2 * u32};
}

Status ErrorModel::change_operands(const graph::Node& n, const TensorMap* exact,
                                   std::vector<const HostTensor*>& inputs, Tensors& own) {
  own.resize(inputs.size() + 2);
  if (n.op == "BitCast" && is_float(inputs[0]->dtype())) {
    own[inputs.size()] = *inputs[0];
    mover_.sign_of_nan(own[inputs.size()]);
    inputs[0] = &own[inputs.size()];
  }
  // Operands below the smallest normal number may be read as 0.
  const ops::OpDef* def = ops::find(n);
  for (size_t i = 0; def != nullptr && !moves_only(*def) && i < inputs.size(); ++i)
    if (inputs[i] != nullptr && mover_.flush(*inputs[i], own[i])) inputs[i] = &own[i];
  return pole(n, exact, inputs, own.back());
}

Status ErrorModel::change_results(const graph::Node& n, host::Kernel kernel, host::Call& call,
                                  std::vector<const HostTensor*>& inputs, Tensors& results) {
  if (keeps_tiny_) RP_TRY(keep_tiny(n, inputs, results[0]));
  return put_errors(n, kernel, call, inputs, results);
}

/// Near a pole small errors become large ones in a way that no number of runs shows: where the
/// error of what is divided by is as large as itself, it becomes 0 or NaN. Half of the runs go
/// without: NaN everywhere would hide which way TopK and comparisons may fall out.
Status ErrorModel::pole(const graph::Node& n, const TensorMap* exact_values,
                        std::vector<const HostTensor*>& inputs, HostTensor& divisor) {
  static constexpr std::string_view kPoles[] = {"Div",   "DivRn", "Reciprocal",
                                                "Rsqrt", "Log",   "Pow"};
  if (!poles_ || exact_values == nullptr ||
      std::find(std::begin(kPoles), std::end(kPoles), n.op) == std::end(kPoles) ||
      !is_float(inputs[0]->dtype()))
    return {};
  const size_t at = n.op == "Div" || n.op == "DivRn" ? 1 : 0;
  const auto exact = exact_values->find(n.inputs[at]);
  if (exact == exact_values->end() || exact->second.dims() != inputs[at]->dims()) return {};
  RP_ASSIGN(std::vector<double> values, host::load_all(*inputs[at]));
  bool changed = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const double right = test::number(exact->second, static_cast<int64_t>(i));
    if (!(std::fabs(values[i] - right) >= 0.5 * std::fabs(right)) || values[i] == right) continue;
    values[i] = mover_.between(0, 1) < 0.5 ? 0 : NAN;
    changed = true;
  }
  if (!changed) return {};
  RP_ASSIGN(divisor, host::store_all(inputs[at]->dtype(), inputs[at]->dims(), values));
  inputs[at] = &divisor;
  return {};
}

/// A factor that is too small for its dtype in memory. A device may keep it in a wider one, and the
/// host computes a whole operator in double: the difference counts where it meets an infinity, or
/// in fp16 a large number.
Status ErrorModel::keep_tiny(const graph::Node& n, const std::vector<const HostTensor*>& inputs,
                             HostTensor& result) const {
  if (!is_float(result.dtype()) || !makes_factors(n.op)) return {};
  RP_ASSIGN(std::vector<double> values, host::load_all(result));
  if (std::ranges::find(values, 0.0) == values.end()) return {};
  std::vector<HostTensor> wide(inputs.size());
  std::vector<const HostTensor*> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(inputs[i]);
    if (!is_float(inputs[i]->dtype())) continue;
    wide[i] = *inputs[i];
    RP_TRY(convert(DType::F64, wide[i]));
    given[i] = &wide[i];
  }
  Tensors exact;
  if (n.op == "Cast") {
    exact.push_back(*inputs[0]);
  } else {
    RP_ASSIGN(exact, host::find(n.op)({n.op, n.opset, n.attrs, given, 1}));
  }
  const double tiny = smallest_number(result.dtype());
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = test::number(exact[0], static_cast<int64_t>(i));
    if (values[i] == 0 && v != 0) values[i] = std::copysign(tiny, v);
  }
  RP_ASSIGN(result, host::store_all(result.dtype(), result.dims(), values));
  return {};
}

Status ErrorModel::put_errors(const graph::Node& n, host::Kernel kernel, host::Call& call,
                              std::vector<const HostTensor*>& inputs, Tensors& results) {
  OperatorError e = error_of(n, results[0].dtype(), memory_);
  // Errors cancel where a value meets itself. So some runs have none, and only numbers below the
  // normal ones and the signs of zeros change in them.
  if (!rounds_) e = {e.relative > 0 ? 1e-300 : 0, 0, 0};
  if (n.op == "RecurrentSteps" && rounds_) return step_errors(kernel, call, inputs, results, e);
  if (e.of_terms > 0 && !inputs.empty() && inputs[0] != nullptr && is_float(inputs[0]->dtype())) {
    // Rounding of partial sums, as if each term had been read with an error.
    const double terms = terms_of(n, inputs, results[0]);
    Tensors wide(inputs.size());
    std::vector<const HostTensor*> given = inputs;
    RP_TRY(widen(given, wide));
    HostTensor moved = mover_.moved(*given[0], e.of_terms * (1 + std::sqrt(terms)), 0);
    // Terms below the smallest normal number may be taken as 0.
    double shift = terms * smallest_normal(DType::F32);
    if (interpolates(n)) {
      // Kernels compute positions and weights in fp32, whatever precision the tensors have.
      const double weight = 64 * unit_roundoff(DType::F32);
      if (reads_at_positions(n)) shift += weight * largest_magnitude(*inputs[0]);
      moved = mover_.blurred(moved, weight, interpolated_axes(*inputs[0], results[0]));
    }
    given[0] = &moved;
    call.inputs = given;
    const Tensors before = std::exchange(results, {});
    RP_ASSIGN(results, kernel(call));
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = mover_.shifted(results[i], shift);
      RP_TRY(convert(before[i].dtype(), results[i]));
      RP_TRY(cancelled(before[i], results[i]));
    }
    RP_TRY(overflow(kernel, call, inputs, results));
  }
  RP_TRY(ties(call, inputs, results));
  if (n.op == "Sin" || n.op == "Cos" || n.op == "Tan") {
    turns(*inputs[0], n.op == "Tan", results[0]);
  }
  if (e.relative == 0 && e.absolute == 0) return {};
  for (HostTensor& t : results) {
    if (is_float(t.dtype())) t = mover_.moved(t, e.relative, e.absolute);
  }
  return {};
}

/// Moves the projections of the input by what errors of the states change in the sums that they are
/// part of. A state is a sum of products with gates z and 1 - z: its error is that of 1, however
/// small it is, and a row of R multiplies it.
Status ErrorModel::state_errors(const std::vector<const HostTensor*>& inputs,
                                HostTensor& projections) {
  RP_ASSIGN(const std::vector<double> r, host::load_all(*inputs[kR]));
  RP_ASSIGN(std::vector<double> values, host::load_all(projections));
  const auto columns = static_cast<size_t>(inputs[kR]->dims().back());
  if (r.empty()) return {};
  double largest = 1;  // of a state
  if (inputs.size() > kH && inputs[kH] != nullptr)
    largest = std::max(largest, largest_magnitude(*inputs[kH]));
  const size_t rows = r.size() / columns;
  std::vector<double> shift(rows);
  for (size_t i = 0; i < r.size(); ++i)
    if (std::isfinite(r[i])) shift[i / columns] += std::fabs(r[i]);
  const double error = 4 * unit_roundoff(DType::F32) * largest;
  for (size_t i = 0; i < values.size(); ++i) {
    const double most = error * shift[i % rows];
    values[i] += mover_.between(-most, most);
  }
  RP_ASSIGN(projections, host::store_all(projections.dtype(), projections.dims(), values));
  return {};
}

/// Each step sums products of the states of the step before, so errors of all operands pass
/// through the steps. The digits of 1 - z that count are lost where a gate z is nearly 1. In an
/// LSTM with input_forget, they are a factor of the cell's state.
Status ErrorModel::step_errors(host::Kernel kernel, host::Call& call,
                               const std::vector<const HostTensor*>& inputs, Tensors& results,
                               const OperatorError& e) {
  const double terms = static_cast<double>(inputs[1]->dims().back());
  // The states that are multiplied are functions of sums x that exponentials of x are part of,
  // whose error is 3 + 2 |x| units (scalar_ops.def): where |x| is larger than 6, gates hardly
  // differ from 0 and 1.
  const double gates = (3 + 2 * 6) * unit_roundoff(DType::F32);
  Tensors moved(inputs.size());
  std::vector<const HostTensor*> given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || !is_float(inputs[i]->dtype())) continue;
    moved[i] = mover_.moved(*inputs[i], e.of_terms * (1 + std::sqrt(terms)) + gates, 0);
    given[i] = &moved[i];
  }
  RP_TRY(state_errors(inputs, moved[kX]));
  call.inputs = given;
  RP_ASSIGN(results, kernel(call));
  RP_ASSIGN(const std::vector<std::vector<bool>> open, beyond_fp32(call));
  call.inputs = inputs;
  const bool forgets = call.attrs.get_int("input_forget", 0) != 0 && inputs.size() > kC;
  const double cells = forgets && inputs[kC] != nullptr ? largest_magnitude(*inputs[kC]) : 0;
  for (size_t o = 0; o < results.size(); ++o) {
    HostTensor& t = results[o];
    t = mover_.moved(t, e.relative, e.relative * std::max(cells, largest_magnitude(t)));
    RP_ASSIGN(std::vector<double> values, host::load_all(t));
    for (size_t i = 0; i < values.size(); ++i)
      if (open[o][i]) values[i] = mover_.anything();
    RP_ASSIGN(t, host::store_all(t.dtype(), t.dims(), values));
  }
  return {};
}

/// A sum that its errors move by as much as itself may be 0: terms cancel.
Status ErrorModel::cancelled(const HostTensor& exact, HostTensor& moved) {
  if (!is_float(moved.dtype()) || exact.dims() != moved.dims()) return {};
  RP_ASSIGN(std::vector<double> values, host::load_all(moved));
  bool changed = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const double right = test::number(exact, static_cast<int64_t>(i));
    if (!(std::fabs(values[i] - right) >= std::fabs(right)) || values[i] == 0) continue;
    if (mover_.between(0, 1) < 0.5) continue;
    values[i] = 0;
    changed = true;
  }
  if (!changed) return {};
  RP_ASSIGN(moved, host::store_all(moved.dtype(), moved.dims(), values));
  return {};
}

/// Numbers that are as good as equal compare in any way: no error that is put in makes two equal
/// that are not.
Status ErrorModel::ties(const host::Call& call, const std::vector<const HostTensor*>& inputs,
                        Tensors& results) {
  static constexpr std::string_view kComparisons[] = {"Equal",       "NotEqual", "Less",
                                                      "LessOrEqual", "Greater",  "GreaterOrEqual"};
  if (inputs.empty() || inputs[0] == nullptr || !is_float(inputs[0]->dtype()) ||
      std::find(std::begin(kComparisons), std::end(kComparisons), call.op) ==
          std::end(kComparisons))
    return {};
  double error = 64 * std::max(unit_roundoff(inputs[0]->dtype()), unit_roundoff(DType::F32));
  // Tensors of lower precision in memory: both numbers may have been rounded.
  if (memory_ != DType::F32) error = std::max(error, 4 * unit_roundoff(memory_));
  RP_ASSIGN(std::vector<double> low, host::load_all(*inputs[0]));
  std::vector<double> high = low;
  for (double& v : low) v -= error * std::fabs(v);
  for (double& v : high) v += error * std::fabs(v);
  const auto compared = [&](std::string_view op, const std::vector<double>& a) -> Result<Tensors> {
    RP_ASSIGN(const HostTensor t, host::store_all(inputs[0]->dtype(), inputs[0]->dims(), a));
    std::vector<const HostTensor*> given = inputs;
    given[0] = &t;
    return host::find(op)({op, call.opset, call.attrs, given, 1});
  };
  RP_ASSIGN(const Tensors above, compared("LessOrEqual", low));
  RP_ASSIGN(const Tensors below, compared("GreaterOrEqual", high));
  auto* bits = results[0].mutable_data<uint8_t>();
  for (int64_t i = 0; i < results[0].count(); ++i) {
    const bool near_by = test::number(above[0], i) != 0 && test::number(below[0], i) != 0;
    if (near_by) bits[i] = mover_.between(0, 1) < 0.5 ? 1 : 0;
  }
  return {};
}

/// Angles beyond 2^19 have an absolute error of 4e-6, amplified by the poles of Tan; from 2^22 on
/// they give NaN (kernel/semantics.md).
void ErrorModel::turns(const HostTensor& angles, bool has_poles, HostTensor& results) {
  auto values = host::load_all(results);
  if (!values.ok() || angles.count() != results.count()) return;
  for (int64_t i = 0; i < angles.count(); ++i) {
    const double angle = std::fabs(test::number(angles, i));
    if (angle > 0x1p19 && std::isfinite(angle)) {
      double& result = (*values)[static_cast<size_t>(i)];
      const bool bounded = angle < 0x1p22 && !has_poles;
      result = bounded ? result + mover_.between(-4e-6, 4e-6) : mover_.anything();
    }
  }
  auto stored = host::store_all(results.dtype(), results.dims(), *values);
  if (stored.ok()) results = std::move(*stored);
}

/// Sums and products of some of the terms may leave the range, while the host's result in double
/// does not. There anything may come of it.
Status ErrorModel::overflow(host::Kernel kernel, host::Call& call,
                            const std::vector<const HostTensor*>& inputs, Tensors& results) {
  const bool product = is_product(call.op);
  RP_TRY(leaves_range(kernel, call, inputs, results, [product](double v) {
    return product ? std::max(v, 1.0) : v;  // of the terms that enlarge it
  }));
  if (!product) return {};
  return leaves_range(kernel, call, inputs, results, [](double v) { return std::min(v, 1.0); });
}

/// `bound`: what the magnitude of an element counts for in the largest (or smallest) partial
/// result.
template <typename F>
Status ErrorModel::leaves_range(host::Kernel kernel, host::Call& call,
                                const std::vector<const HostTensor*>& inputs, Tensors& results,
                                const F& bound) {
  Tensors sizes(inputs.size());
  std::vector<const HostTensor*> given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || !is_float(inputs[i]->dtype())) continue;
    RP_ASSIGN(std::vector<double> values, host::load_all(*inputs[i]));
    for (double& v : values) v = bound(std::isfinite(v) ? std::fabs(v) : 0);
    RP_ASSIGN(sizes[i], host::store_all(inputs[i]->dtype(), inputs[i]->dims(), values));
    given[i] = &sizes[i];
  }
  call.inputs = given;
  RP_ASSIGN(const Tensors bounds, kernel(call));
  call.inputs = inputs;
  for (size_t o = 0; o < results.size(); ++o) {
    if (!is_float(results[o].dtype()) || bounds[o].dims() != results[o].dims()) continue;
    const double tiny = is_product(call.op) ? smallest_normal(results[o].dtype()) : 0;
    RP_ASSIGN(std::vector<double> values, host::load_all(results[o]));
    for (int64_t i = 0; i < results[o].count(); ++i) {
      const double b = test::number(bounds[o], i);
      if (std::isinf(b)) values[static_cast<size_t>(i)] = mover_.anything();
      if (b < tiny && mover_.between(0, 1) < 0.5) values[static_cast<size_t>(i)] = 0;
    }
    RP_ASSIGN(results[o], host::store_all(results[o].dtype(), results[o].dims(), values));
  }
  return {};
}

}  // namespace reprise::fuzz
