#include "tests/fuzz/lib/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "codegen/kernel/scalar_ops.h"
#include "codegen/ops/op.h"
#include "codegen/ops/support.h"
#include "codegen/passes/pass.h"
#include "runtime/base/eval_attrs.h"
#include "runtime/host/host_kernels.h"
#include "runtime/host/support.h"
#include "tests/fuzz/lib/mover.h"
#include "tests/fuzz/lib/recurrent_range.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

double unit_roundoff(DType t) {
  switch (t) {
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    case DType::F64:
      return 0x1p-24;  // computed on the host, but from values that devices computed
    default:
      return 0x1p-24;
  }
}

double smallest_normal(DType t) {
  return t == DType::F16 ? 0x1p-14 : 0x1p-126;
}

double smallest_number(DType t) {
  return t == DType::F16 ? 0x1p-24 : t == DType::BF16 ? 0x1p-133 : 0x1p-149;
}

bool all_finite(const HostTensor& t) {
  for (int64_t i = 0; is_float(t.dtype()) && i < t.count(); ++i) {
    if (!std::isfinite(test::number(t, i))) return false;
  }
  return true;
}

namespace {

using graph::ValueId;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();  // of symbols

/// What an operator's results, or the elements that it reads, may be off by.
struct OperatorError {
  double relative = 0, absolute = 0;  // of a result
  double of_terms = 0;                // relative, of each element that is summed
};

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
  return op == "Exp" || op == "Mul" || op == "Div" || op == "Pow";
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

/// Where a result lies between elements is rounded, too.
bool interpolates(const graph::Node& n) {
  if (n.op == "Resize" || n.op == "Upsample")
    return n.attrs.get_string("mode", "nearest") != "nearest";
  return n.op == "GridSample" || n.op == "RoiAlign";
}

/// The spatial axes, and those of another size.
std::vector<bool> interpolated_axes(const HostTensor& x, const HostTensor& y) {
  std::vector<bool> out;
  for (size_t axis = 0; axis < x.dims().size(); ++axis)
    out.push_back(axis >= 2 || axis >= y.dims().size() || x.dims()[axis] != y.dims()[axis]);
  return out;
}

OperatorError error_of(const graph::Node& n, DType t, DType memory) {
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

/// One run of a graph on the host.
class Run {
 public:
  Run(const graph::Graph& g, std::vector<int64_t> symbols, const Errors& errors)
      : g_(g), symbols_(std::move(symbols)), errors_(errors), mover_(errors.seed, errors.memory) {
    if (errors.seed != 0) {
      poles_ = errors.exact != nullptr && mover_.between(0, 1) < 0.5;
      rounds_ = mover_.between(0, 1) < 0.75;
      keeps_tiny_ = mover_.between(0, 1) < 0.5;
    }
    derive_sizes(g_, symbols_);
  }

  Result<TensorMap> run(const Tensors& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) define(g_.inputs[i], inputs[i]);
    for (const auto& n : g_.nodes()) {
      RP_TRY(node(*n).with_context("node '" + n->name + "' (" + n->op + ")"));
    }
    for (const ValueId v : g_.outputs) {
      values_[v] = HostTensor(*value(v));
    }
    return std::move(values_);
  }

 private:
  const HostTensor* value(ValueId v) const {
    if (v == graph::kNone) return nullptr;
    const auto found = values_.find(v);
    return found != values_.end() ? &found->second : &*g_.value(v).constant;
  }

  Result<std::vector<int64_t>> dims(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) {
      RP_ASSIGN(const int64_t d, e.eval(symbols_));
      out.push_back(d);
    }
    return out;
  }

  Status node(const graph::Node& n) {
    const host::Kernel kernel = host::find(n.op);
    if (kernel == nullptr) return unsupported("there is no host kernel");
    std::vector<const HostTensor*> inputs;
    for (const ValueId v : n.inputs) {
      inputs.push_back(value(v));
    }
    HostTensor with_own_bits;
    if (errors_.seed != 0 && n.op == "BitCast" && is_float(g_.value(n.inputs[0]).dtype)) {
      with_own_bits = *inputs[0];
      mover_.sign_of_nan(with_own_bits);
      inputs[0] = &with_own_bits;
    }
    Tensors flushed(inputs.size());  // operands below the smallest normal number may be read as 0
    const ops::OpDef* def = ops::find(n);
    for (size_t i = 0;
         errors_.seed != 0 && def != nullptr && !moves_only(*def) && i < inputs.size(); ++i) {
      if (inputs[i] != nullptr && mover_.flush(*inputs[i], flushed[i])) inputs[i] = &flushed[i];
    }
    HostTensor divisor;
    RP_TRY(pole(n, inputs, divisor));
    RP_ASSIGN(AttrMap attrs, eval_attrs(n.attrs, symbols_));
    host::Call call{n.op, n.opset, attrs, inputs, n.outputs.size()};
    const ValueId first = n.outputs[0];
    if (first != graph::kNone && g_.value(first).has_shape) {
      const auto known = dims(g_.value(first).shape);
      if (known.ok()) call.output_dims = *known;
    }
    RP_ASSIGN(Tensors results, kernel(call));
    if (keeps_tiny_) RP_TRY(keep_tiny(n, inputs, results[0]));
    if (errors_.seed != 0) RP_TRY(put_errors(n, kernel, call, inputs, results));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] != graph::kNone) define(n.outputs[i], std::move(results[i]));
    }
    return {};
  }

  /// Near a pole small errors become large ones in a way that no number of runs shows: where the
  /// error of what is divided by is as large as itself, it becomes 0 or NaN. Half of the runs go
  /// without: NaN everywhere would hide which way TopK and comparisons may fall out.
  Status pole(const graph::Node& n, std::vector<const HostTensor*>& inputs, HostTensor& divisor) {
    static constexpr std::string_view kPoles[] = {"Div", "Reciprocal", "Rsqrt", "Log", "Pow"};
    if (!poles_ || std::find(std::begin(kPoles), std::end(kPoles), n.op) == std::end(kPoles) ||
        !is_float(inputs[0]->dtype()))
      return {};
    const size_t at = n.op == "Div" ? 1 : 0;
    const auto exact = errors_.exact->find(n.inputs[at]);
    if (exact == errors_.exact->end() || exact->second.dims() != inputs[at]->dims()) return {};
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

  /// A factor that is too small for fp32, and for the host is not, as it computes the whole
  /// operator in double: the difference counts where it meets an infinity.
  Status keep_tiny(const graph::Node& n, const std::vector<const HostTensor*>& inputs,
                   HostTensor& result) const {
    if (!is_float(result.dtype()) || !makes_factors(n.op)) return {};
    RP_ASSIGN(std::vector<double> values, host::load_all(result));
    if (std::ranges::find(values, 0.0) == values.end()) return {};
    std::vector<HostTensor> wide(inputs.size());
    std::vector<const HostTensor*> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      given.push_back(inputs[i]);
      if (!is_float(inputs[i]->dtype())) continue;
      RP_ASSIGN(const std::vector<double> operand, host::load_all(*inputs[i]));
      RP_ASSIGN(wide[i], host::store_all(DType::F64, inputs[i]->dims(), operand));
      given[i] = &wide[i];
    }
    RP_ASSIGN(const Tensors exact, host::find(n.op)({n.op, n.opset, n.attrs, given, 1}));
    const double tiny = smallest_number(result.dtype());
    for (size_t i = 0; i < values.size(); ++i) {
      const double v = test::number(exact[0], static_cast<int64_t>(i));
      if (values[i] == 0 && v != 0) values[i] = std::copysign(tiny, v);
    }
    RP_ASSIGN(result, host::store_all(result.dtype(), result.dims(), values));
    return {};
  }

  Status put_errors(const graph::Node& n, host::Kernel kernel, host::Call& call,
                    std::vector<const HostTensor*>& inputs, Tensors& results) {
    OperatorError e = error_of(n, results[0].dtype(), errors_.memory);
    // Errors cancel where a value meets itself. So some runs have none, and only numbers below the
    // normal ones and the signs of zeros change in them.
    if (!rounds_) e = {e.relative > 0 ? 1e-300 : 0, 0, 0};
    if (n.op == "RecurrentSteps" && rounds_) return step_errors(kernel, call, inputs, results, e);
    if (e.of_terms > 0 && !inputs.empty() && inputs[0] != nullptr && is_float(inputs[0]->dtype())) {
      // Rounding of partial sums, as if each term had been read with an error.
      const double terms = terms_of(n, inputs, results[0]);
      HostTensor moved = mover_.moved(*inputs[0], e.of_terms * (1 + std::sqrt(terms)), 0);
      if (interpolates(n)) {
        // Kernels compute positions and weights in fp32, whatever precision the tensors have.
        const double weight = 64 * unit_roundoff(DType::F32);
        moved = mover_.blurred(moved, weight, interpolated_axes(*inputs[0], results[0]));
      }
      const HostTensor* given = std::exchange(inputs[0], &moved);
      call.inputs = inputs;
      const Tensors before = std::exchange(results, {});
      RP_ASSIGN(results, kernel(call));
      inputs[0] = given;
      for (size_t i = 0; i < results.size(); ++i) {
        // Terms below the smallest normal number may be taken as 0.
        results[i] = mover_.shifted(results[i], terms * smallest_normal(DType::F32));
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

  /// Each step sums products of the states of the step before, so errors of all operands pass
  /// through the steps. The digits of 1 - z that count are lost where a gate z is nearly 1.
  Status step_errors(host::Kernel kernel, host::Call& call,
                     const std::vector<const HostTensor*>& inputs, Tensors& results,
                     const OperatorError& e) {
    const double terms = static_cast<double>(inputs[1]->dims().back());
    Tensors moved(inputs.size());
    std::vector<const HostTensor*> given = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr || !is_float(inputs[i]->dtype())) continue;
      moved[i] = mover_.moved(*inputs[i], e.of_terms * (1 + std::sqrt(terms)), 0);
      given[i] = &moved[i];
    }
    call.inputs = given;
    RP_ASSIGN(results, kernel(call));
    RP_ASSIGN(const std::vector<std::vector<bool>> open, beyond_fp32(call));
    call.inputs = inputs;
    for (size_t o = 0; o < results.size(); ++o) {
      HostTensor& t = results[o];
      double largest = 0;
      for (int64_t i = 0; i < t.count(); ++i) {
        const double v = std::fabs(test::number(t, i));
        if (std::isfinite(v)) largest = std::max(largest, v);
      }
      t = mover_.moved(t, e.relative, e.relative * largest);
      RP_ASSIGN(std::vector<double> values, host::load_all(t));
      for (size_t i = 0; i < values.size(); ++i)
        if (open[o][i]) values[i] = mover_.anything();
      RP_ASSIGN(t, host::store_all(t.dtype(), t.dims(), values));
    }
    return {};
  }

  /// A sum that its errors move by as much as itself may be 0: terms cancel.
  Status cancelled(const HostTensor& exact, HostTensor& moved) {
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
  Status ties(const host::Call& call, const std::vector<const HostTensor*>& inputs,
              Tensors& results) {
    static constexpr std::string_view kComparisons[] = {
        "Equal", "NotEqual", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
    if (inputs.empty() || inputs[0] == nullptr || !is_float(inputs[0]->dtype()) ||
        std::find(std::begin(kComparisons), std::end(kComparisons), call.op) ==
            std::end(kComparisons))
      return {};
    double error = 64 * std::max(unit_roundoff(inputs[0]->dtype()), unit_roundoff(DType::F32));
    // Tensors of lower precision in memory: both numbers may have been rounded.
    if (errors_.memory != DType::F32) error = std::max(error, 4 * unit_roundoff(errors_.memory));
    RP_ASSIGN(std::vector<double> low, host::load_all(*inputs[0]));
    std::vector<double> high = low;
    for (double& v : low) v -= error * std::fabs(v);
    for (double& v : high) v += error * std::fabs(v);
    const auto compared = [&](std::string_view op,
                              const std::vector<double>& a) -> Result<Tensors> {
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
  void turns(const HostTensor& angles, bool has_poles, HostTensor& results) {
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
  Status overflow(host::Kernel kernel, host::Call& call,
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
  Status leaves_range(host::Kernel kernel, host::Call& call,
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

  /// Binds the symbols that this value's run decides.
  void define(ValueId v, HostTensor t) {
    using Kind = SymbolSource::Kind;
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      const SymbolSource& source = g_.symbol_sources[s];
      if (source.index != v.number()) continue;
      const auto at = static_cast<size_t>(source.axis);
      if (source.kind == Kind::HostOutput && at < t.dims().size()) symbols_[s] = t.dims()[at];
    }
    values_[v] = std::move(t);
    derive_sizes(g_, symbols_);
  }

  const graph::Graph& g_;
  std::vector<int64_t> symbols_;
  const Errors& errors_;
  Mover mover_;
  // What sort of run it is, each drawn by itself.
  bool poles_ = false;  // a divisor that errors move by as much as itself is 0 or NaN
  bool rounds_ = true;  // else only numbers below the normal ones and the signs of zeros change
  bool keeps_tiny_ = false;  // what becomes 0 only in fp32 is the smallest number instead
  TensorMap values_;
};

}  // namespace

void derive_sizes(const graph::Graph& g, std::vector<int64_t>& symbols) {
  symbols.resize(g.symbols.size(), kUnknown);
  for (size_t s = 0; s < g.symbols.size(); ++s) {
    if (g.symbol_sources[s].kind != SymbolSource::Kind::Derived) continue;
    const auto size = g.symbol_sources[s].value.eval(symbols);
    if (size.ok()) symbols[s] = *size;
  }
}

Result<Evaluation> Evaluation::of(const graph::Graph& model) {
  Evaluation e;
  e.g_ = model.clone();
  for (const passes::Pass& pass : passes::pipeline()) {
    if (pass.required) RP_TRY(passes::run(pass, *e.g_));
  }
  return e;
}

Result<TensorMap> Evaluation::trace(const std::vector<int64_t>& symbols, const Tensors& inputs,
                                    const Errors& errors) const {
  return Run(*g_, symbols, errors).run(inputs);
}

/// Whether some node makes an element that `made` holds for of elements that `of` holds for.
/// Element i of an output may come of element i of inputs of its dims, and of all elements of the
/// others.
template <typename Made, typename Of>
bool Evaluation::any_makes(const TensorMap& values, const Made& made, const Of& of) const {
  const auto float_tensor = [&](ValueId v) -> const HostTensor* {
    const auto found = values.find(v);
    return found == values.end() || !is_float(found->second.dtype()) ? nullptr : &found->second;
  };
  const auto every = [&](const HostTensor& t) {
    for (int64_t i = 0; i < t.count(); ++i)
      if (!of(test::number(t, i))) return false;
    return true;
  };
  const auto makes = [&](const graph::Node& n, const HostTensor& out, int64_t i) {
    return made(n, test::number(out, i)) && std::ranges::all_of(n.inputs, [&](ValueId v) {
             const HostTensor* in = float_tensor(v);
             if (in == nullptr) return true;
             return in->dims() == out.dims() ? of(test::number(*in, i)) : every(*in);
           });
  };
  return std::ranges::any_of(g_->nodes(), [&](const std::unique_ptr<graph::Node>& n) {
    return std::ranges::any_of(n->outputs, [&](ValueId v) {
      const HostTensor* out = float_tensor(v);
      for (int64_t i = 0; out != nullptr && i < out->count(); ++i)
        if (makes(*n, *out, i)) return true;
      return false;
    });
  });
}

bool Evaluation::overflows(const TensorMap& values) const {
  return any_makes(
      values, [](const graph::Node&, double v) { return !std::isfinite(v); },
      [](double v) { return std::isfinite(v); });
}

Tensors Evaluation::outputs_of(const TensorMap& values) const {
  Tensors out;
  for (const ValueId v : g_->outputs) out.push_back(values.at(v));
  return out;
}

}  // namespace reprise::fuzz
