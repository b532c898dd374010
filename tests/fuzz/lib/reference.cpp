#include "tests/fuzz/lib/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "codegen/graph/text.h"
#include "codegen/kernel/scalar_ops.h"
#include "codegen/ops/op.h"
#include "codegen/passes/pass.h"
#include "runtime/host/host_kernels.h"
#include "runtime/host/support.h"
#include "tests/support/random_source.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

using graph::ValueId;

/// Half the distance of 1 from its neighbour.
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

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();  // of symbols

double smallest_normal(DType t) {
  return t == DType::F16 ? 0x1p-14 : 0x1p-126;
}

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

bool moves_only(const ops::OpDef& def) {
  static constexpr std::string_view kMoves[] = {"Concat",         "Pad",        "Gather",
                                                "GatherElements", "GatherND",   "Tile",
                                                "Trilu",          "Neg",        "Abs",
                                                "Where",          "ReduceMax",  "ReduceMin",
                                                "MaxPool",        "ShapeValue", "ScatterElements",
                                                "ScatterND",      "Scatter",    "Compress",
                                                "TopK",           "Unique",     "ReverseSequence",
                                                "OneHot",         "EyeLike"};
  return def.lowering == ops::Lowering::View ||
         std::find(std::begin(kMoves), std::end(kMoves), def.name) != std::end(kMoves);
}

OperatorError error_of(const graph::Node& n, DType t, DType memory) {
  const ops::OpDef* def = ops::find(n.domain, n.op);
  const double u = std::max(unit_roundoff(t), unit_roundoff(memory)), u32 = unit_roundoff(memory);
  if (def == nullptr || !is_float(t)) return {};
  // Tensors of lower precision in memory: whatever is stored is rounded.
  const double stored = memory == DType::F32 ? 0 : 2 * u;
  if (moves_only(*def)) return {stored, 0, 0};
  if (def->row) {
    const kernel::ScalarRow& r = kernel::row(*def->row);
    if (r.f32_ulp == 0 && r.f32_abs == 0) return {stored, 0, 0};
    return {2 * std::max(u, 2 * r.f32_ulp * u32), r.f32_abs, 0};
  }
  if (n.op == "Cast") return {2 * u, 0, 0};
  if (n.op == "Range") return {4 * u, 0, 0};  // its operands decide its size
  // Where a result lies between elements is rounded, too.
  const bool between =
      n.op == "Resize" || n.op == "Upsample" || n.op == "GridSample" || n.op == "RoiAlign";
  return {4 * u, 0, (between ? 64 : 2) * u32};
}

/// Moves the elements of a tensor of floats.
class Mover {
 public:
  Mover(uint64_t seed, DType memory) : rng_(seed), half_(memory == DType::F16) {}
  /// What comes of infinities.
  double anything() { return rng_.chance(0.4) ? NAN : rng_.chance(0.5) ? INFINITY : -INFINITY; }

  double between(double low, double high) { return rng_.real(low, high); }
  /// Some of the numbers below the smallest normal one become 0; false where there are none.
  bool flush(const HostTensor& t, HostTensor& out) {
    if (!is_float(t.dtype())) return false;
    const double tiny = smallest_normal(t.dtype());
    const auto small = [&](double v) { return v != 0 && std::fabs(v) < tiny; };
    auto values = host::load_all(t);
    if (!values.ok() || std::none_of(values->begin(), values->end(), small)) return false;
    for (double& v : *values) {
      if (small(v) && rng_.chance(0.5)) v = 0;
    }
    auto stored = host::store_all(t.dtype(), t.dims(), *values);
    if (stored.ok()) out = std::move(*stored);
    return stored.ok();
  }

  HostTensor moved(const HostTensor& t, double relative, double absolute) {
    auto values = host::load_all(t);
    if (!values.ok()) return t;
    const double tiny = smallest_normal(t.dtype());
    for (double& v : *values) {
      if (v == 0) {
        v = rng_.chance(0.5) ? 0.0 : -0.0;
      } else if (std::fabs(v) < tiny) {
        if (rng_.chance(0.5)) v = 0;
      }
      if (!std::isfinite(v)) continue;
      // Often to the edge of what is allowed: that is where decisions change.
      const double by = rng_.chance(0.5) ? rng_.real(-1, 1) : rng_.chance(0.5) ? 1 : -1;
      // Below its smallest normal number, fp16 rounds to multiples of 2^-24.
      v += by * (relative * std::fabs(v) + absolute + (half_ ? 0x1p-25 : 0));
      // The largest number stands for what fp16 does not hold.
      if (half_ && rng_.chance(0.5)) v = std::clamp(v, -65504.0, 65504.0);
    }
    auto out = host::store_all(t.dtype(), t.dims(), *values);
    return out.ok() ? *out : t;
  }

 private:
  test::RandomSource rng_;
  bool half_;
};

/// One run of a graph on the host.
class Run {
 public:
  Run(const graph::Graph& g, std::vector<int64_t> symbols, uint64_t seed, DType memory)
      : g_(g), symbols_(std::move(symbols)), seed_(seed), memory_(memory), mover_(seed, memory) {
    symbols_.resize(g.symbols.size(), kUnknown);
    derive();
  }

  Result<Tensors> run(const Tensors& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[g_.inputs[i]] = inputs[i];
    for (const auto& n : g_.nodes()) {
      RP_TRY(node(*n).with_context("node '" + n->name + "' (" + n->op + ")"));
    }
    Tensors out;
    for (const ValueId v : g_.outputs) out.push_back(*value(v));
    return out;
  }

 private:
  const HostTensor* value(ValueId v) const {
    if (v == graph::kNone) return nullptr;
    if (g_.value(v).constant) return &*g_.value(v).constant;
    return &values_.at(v);
  }

  Result<std::vector<int64_t>> dims(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) {
      RP_ASSIGN(const int64_t d, e.eval(symbols_));
      out.push_back(d);
    }
    return out;
  }

  Result<AttrMap> attrs_of(const graph::Node& n) const {
    AttrMap attrs;
    for (const auto& [name, a] : n.attrs) {
      const auto* exprs = std::get_if<std::vector<Expr>>(&a);
      if (exprs == nullptr) {
        attrs.set(name, a);
        continue;
      }
      RP_ASSIGN(auto ints, dims(*exprs));
      attrs.set(name, std::move(ints));
    }
    return attrs;
  }

  Status node(const graph::Node& n) {
    const host::Kernel kernel = host::find(n.op);
    if (kernel == nullptr) return unsupported("there is no host kernel");
    std::vector<const HostTensor*> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(value(v));
    Tensors flushed(inputs.size());  // operands below the smallest normal number may be read as 0
    const ops::OpDef* def = ops::find(n.domain, n.op);
    for (size_t i = 0; seed_ != 0 && def != nullptr && !moves_only(*def) && i < inputs.size();
         ++i) {
      if (inputs[i] != nullptr && mover_.flush(*inputs[i], flushed[i])) inputs[i] = &flushed[i];
    }
    RP_ASSIGN(const AttrMap attrs, attrs_of(n));
    host::Call call{n.op, n.opset, attrs, inputs, n.outputs.size()};
    const ValueId first = n.outputs[0];
    if (first != graph::kNone && g_.value(first).has_shape) {
      const auto known = dims(g_.value(first).shape);
      if (known.ok()) call.output_dims = *known;
    }
    RP_ASSIGN(Tensors results, kernel(call));
    if (seed_ != 0) RP_TRY(put_errors(n, kernel, call, inputs, results));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] != graph::kNone) define(n.outputs[i], std::move(results[i]));
    }
    return {};
  }

  Status put_errors(const graph::Node& n, host::Kernel kernel, host::Call& call,
                    std::vector<const HostTensor*>& inputs, Tensors& results) {
    OperatorError e = error_of(n, results[0].dtype(), memory_);
    // Errors cancel where a value meets itself. So some runs have none, and only numbers below the
    // normal ones and the signs of zeros change in them.
    if (seed_ % 4 == 0) e = {e.relative > 0 ? 1e-300 : 0, 0, 0};
    if (e.of_terms > 0 && !inputs.empty() && inputs[0] != nullptr && is_float(inputs[0]->dtype())) {
      // Rounding of partial sums, as if each term had been read with an error.
      const double terms = terms_of(n, inputs, results[0]);
      const HostTensor moved = mover_.moved(*inputs[0], e.of_terms * (1 + std::sqrt(terms)), 0);
      const HostTensor* given = std::exchange(inputs[0], &moved);
      call.inputs = inputs;
      RP_ASSIGN(results, kernel(call));
      inputs[0] = given;
      RP_TRY(overflow(kernel, call, inputs, results));
    }
    if (n.op == "Sin" || n.op == "Cos" || n.op == "Tan") {
      turns(*inputs[0], results[0], n.op == "Tan");
    }
    if (n.op == "Mul" || n.op == "Resize") RP_TRY(zero_products(kernel, call, inputs, results));
    if (e.relative == 0 && e.absolute == 0) return {};
    for (HostTensor& t : results) {
      if (is_float(t.dtype())) t = mover_.moved(t, e.relative, e.absolute);
    }
    return {};
  }

  /// Of angles beyond 2^19 no accuracy is stated (kernel/semantics.md).
  void turns(const HostTensor& angles, HostTensor& results, bool unbounded) {
    auto values = host::load_all(results);
    if (!values.ok() || angles.count() != results.count()) return;
    for (int64_t i = 0; i < angles.count(); ++i) {
      const double angle = std::fabs(test::number(angles, i));
      if (angle > 0x1p19 && std::isfinite(angle)) {
        (*values)[static_cast<size_t>(i)] = unbounded ? mover_.anything() : mover_.between(-1, 1);
      }
    }
    auto stored = host::store_all(results.dtype(), results.dims(), *values);
    if (stored.ok()) results = std::move(*stored);
  }

  /// 0 times an infinity or NaN may be 0: Vulkan leaves it to drivers, and SwiftShader folds it
  /// where the 0 is a constant, as factors and weights of interpolation are.
  Status zero_products(host::Kernel kernel, host::Call& call,
                       const std::vector<const HostTensor*>& inputs, Tensors& results) {
    if (!is_float(results[0].dtype())) return {};
    Tensors finite(inputs.size());
    std::vector<const HostTensor*> given = inputs;
    bool changed = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr || !is_float(inputs[i]->dtype())) continue;
      RP_ASSIGN(std::vector<double> values, host::load_all(*inputs[i]));
      for (double& v : values) {
        if (std::isfinite(v)) continue;
        v = 1;
        changed = true;
      }
      RP_ASSIGN(finite[i], host::store_all(inputs[i]->dtype(), inputs[i]->dims(), values));
      given[i] = &finite[i];
    }
    if (!changed || mover_.between(0, 1) < 0.5) return {};
    call.inputs = given;
    RP_ASSIGN(const Tensors without, kernel(call));
    call.inputs = inputs;
    if (without[0].dims() != results[0].dims()) return {};
    if (without[0].dims() != results[0].dims()) return {};
    RP_ASSIGN(std::vector<double> values, host::load_all(results[0]));
    for (int64_t i = 0; i < results[0].count(); ++i) {
      const double v = test::number(without[0], i);
      if (!std::isnan(values[static_cast<size_t>(i)])) continue;
      if (call.op == "Resize" || v == 0) values[static_cast<size_t>(i)] = v;
    }
    RP_ASSIGN(results[0], host::store_all(results[0].dtype(), results[0].dims(), values));
    return {};
  }

  /// Sums and products of some of the terms may leave the range, while the host's result in double
  /// does not. There anything may come of it.
  Status overflow(host::Kernel kernel, host::Call& call,
                  const std::vector<const HostTensor*>& inputs, Tensors& results) {
    const bool product = call.op == "ReduceProd";
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
      const double tiny = call.op == "ReduceProd" ? smallest_normal(results[o].dtype()) : 0;
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
    using Kind = plan::SymbolSource::Kind;
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      const plan::SymbolSource& source = g_.symbol_sources[s];
      if (source.index != v) continue;
      const auto at = static_cast<size_t>(source.axis);
      if (source.kind == Kind::HostOutput && at < t.dims().size()) symbols_[s] = t.dims()[at];
      if (source.kind == Kind::HostElement && source.axis < t.count()) {
        symbols_[s] = static_cast<int64_t>(test::number(t, source.axis));
      }
    }
    values_[v] = std::move(t);
    derive();
  }

  void derive() {
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      if (g_.symbol_sources[s].kind != plan::SymbolSource::Kind::Derived) continue;
      const auto size = g_.symbol_sources[s].value.eval(symbols_);
      if (size.ok()) symbols_[s] = *size;
    }
  }

  const graph::Graph& g_;
  std::vector<int64_t> symbols_;
  uint64_t seed_;
  DType memory_;
  Mover mover_;
  std::map<ValueId, HostTensor> values_;
};

bool same_bytes_at(const HostTensor& a, const HostTensor& b, int64_t i) {
  const size_t size = size_of(a.dtype());
  return std::memcmp(a.bytes().data() + static_cast<size_t>(i) * size,
                     b.bytes().data() + static_cast<size_t>(i) * size, size) == 0;
}

/// Within the last places, so that no analysis is needed.
bool near(const HostTensor& a, const HostTensor& b, int64_t i) {
  if (same_bytes_at(a, b, i)) return true;
  if (!is_float(a.dtype())) return false;
  const double x = test::number(a, i), y = test::number(b, i);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return std::fabs(x - y) <= 2 * unit_roundoff(a.dtype()) * std::max(std::fabs(x), std::fabs(y)) ||
         std::max(std::fabs(x), std::fabs(y)) < smallest_normal(a.dtype());
}

}  // namespace

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.bytes().size() == 0 ||
      std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0) {
    return true;
  }
  if (!is_float(a.dtype())) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (!same_bytes_at(a, b, i) &&
        !(std::isnan(test::number(a, i)) && std::isnan(test::number(b, i))))
      return false;
  }
  return true;
}

Result<Evaluation> Evaluation::of(const graph::Graph& model) {
  Evaluation e;
  e.g_ = model.clone();
  for (const passes::Pass& pass : passes::pipeline()) {
    if (pass.required) RP_TRY(pass.run(*e.g_));
  }
  return e;
}

Result<Tensors> Evaluation::run(const std::vector<int64_t>& symbols, const Tensors& inputs,
                                uint64_t seed, DType memory) const {
  return Run(*g_, symbols, seed, memory).run(inputs);
}

Status Reference::more_samples(size_t count) {
  if (exact_.empty()) {
    RP_ASSIGN(exact_, core_.run(symbols_, inputs_));
  }
  while (samples_.size() < count) {
    RP_ASSIGN(Tensors t, core_.run(symbols_, inputs_, samples_.size() + 1, memory_));
    samples_.push_back(std::move(t));
  }
  return {};
}

bool Reference::agrees(size_t output, int64_t i, const HostTensor& got, bool& skipped) const {
  const HostTensor& expected = expected_[output];
  const HostTensor& exact = exact_[output];
  bool unstable = false;
  double spread = 0;
  for (const Tensors& sample : samples_) {
    const HostTensor& t = sample[output];
    if (t.dims() != expected.dims()) return skipped = true;  // sizes depend on what is rounded
    if (!is_float(expected.dtype())) {
      unstable |= !same_bytes_at(t, exact, i);
      continue;
    }
    const double a = test::number(exact, i), b = test::number(t, i);
    if (std::isfinite(a) && std::isfinite(b)) {
      spread = std::max(spread, std::fabs(a - b));
    } else if (a != b && !(std::isnan(a) && std::isnan(b))) {
      unstable = true;
    }
  }
  if (unstable) return skipped = true;
  if (!is_float(expected.dtype())) return false;
  const double e = test::number(expected, i), g = test::number(got, i);
  // The host sums and divides in double: what overflows on the way, in the core form too, does not
  // overflow there.
  if (!std::isfinite(test::number(exact, i)) && std::isfinite(e) && std::fabs(e) > 1e12)
    return skipped = true;
  if (!std::isfinite(e) || !std::isfinite(g)) {
    if (e == g || (std::isnan(e) && std::isnan(g))) return true;
    // Formulas differ in what they make of an infinity: the core form's result is as good.
    const bool all =
        !std::isfinite(e) && !std::isfinite(g) && !std::isfinite(test::number(exact, i));
    return all && (skipped = true);
  }
  if (spread > 0.05 * std::fabs(e) && spread > 0.05) skipped = true;
  // Where errors are as large as the result, it does not grow with them evenly any more.
  const double times = spread >= std::fabs(e) ? 64 : 4;
  return std::fabs(e - g) <= times * spread + smallest_normal(expected.dtype());
}

Comparison Reference::compare(const Tensors& results) {
  Comparison c;
  for (size_t o = 0; o < expected_.size(); ++o) {
    const HostTensor& e = expected_[o];
    const HostTensor& got = results[o];
    const std::string name = "output " + std::to_string(o);
    if (got.dtype() != e.dtype() || got.dims() != e.dims()) {
      c.wrong = name + " is " + describe(got.dtype(), got.dims()) + ", expected " +
                describe(e.dtype(), e.dims());
      return c;
    }
    c.elements += e.count();
    for (int64_t i = 0; i < e.count(); ++i) {
      if (near(e, got, i)) continue;
      ++c.analysed;
      for (const size_t samples : {6, 32}) {
        bool skipped = false;
        const Status s = more_samples(samples);
        if (!s.ok()) {
          c.wrong = "the core form on the host: " + s.message();
          return c;
        }
        const bool fine = agrees(o, i, got, skipped);
        if (fine && skipped) ++c.skipped;
        if (fine) break;
        if (samples == 32) {
          c.wrong = name + " [" + std::to_string(i) + "] is " +
                    graph::text::real(test::number(got, i)) + ", expected " +
                    graph::text::real(test::number(e, i));
          return c;
        }
      }
    }
  }
  return c;
}

}  // namespace reprise::fuzz
