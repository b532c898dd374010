#include "tests/fuzz/lib/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/graph/whole.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"
#include "runtime/host/host_kernels.h"
#include "runtime/operators/eval_attrs.h"
#include "tests/fuzz/lib/control_flow.h"
#include "tests/fuzz/lib/error_model.h"
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

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr int64_t kNotKnown = std::numeric_limits<int64_t>::min();  // of symbols

/// One run of a graph on the host.
class Run {
 public:
  /// `errors` and `exact` may be null.
  Run(const Evaluation& e, std::vector<int64_t> symbols, ErrorModel* errors, const Trace* exact)
      : e_(e), g_(e.graph()), symbols_(std::move(symbols)), errors_(errors), exact_(exact) {
    derive_sizes(g_, symbols_);
    trace_.of = &e;
  }

  /// `inputs`: those of the graph, then what it captures.
  Result<Trace> run(const Tensors& inputs) {
    for (const ValueId v : g_.values().ids()) {
      if (g_.value(v).joined) define(v, graph::whole(g_.value(v)));
    }
    size_t next = 0;
    for (const auto* list : {&g_.inputs, &g_.captures}) {
      for (const ValueId v : *list) {
        if (v == kNone) continue;
        bind(g_.value(v).shape, inputs[next]);
        define(v, inputs[next++]);
      }
    }
    for (const auto& n : g_.nodes()) {
      const Status s = is_control_flow(*n) ? control_flow(*n) : node(*n);
      RP_TRY(s.with_context("node '" + n->name + "' (" + n->op + ")"));
    }
    for (const ValueId v : g_.outputs) {
      trace_.values[v] = HostTensor(*value(v));
    }
    return std::move(trace_);
  }

 private:
  const HostTensor* value(ValueId v) const {
    if (v == kNone) return nullptr;
    const auto found = trace_.values.find(v);
    return found != trace_.values.end() ? &found->second : &*g_.value(v).constant;
  }
  std::vector<const HostTensor*> inputs_of(const Node& n) const {
    std::vector<const HostTensor*> out;
    for (const ValueId v : n.inputs) out.push_back(value(v));
    return out;
  }

  Result<std::vector<int64_t>> dims(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) {
      RP_ASSIGN(const int64_t d, e.eval(symbols_));
      out.push_back(d);
    }
    return out;
  }

  Status node(const Node& n) {
    const host::Kernel kernel = host::find(n.op);
    if (kernel == nullptr) return unsupported("there is no host kernel");
    std::vector<const HostTensor*> inputs = inputs_of(n);
    Tensors own;
    const TensorMap* exact = exact_ == nullptr ? nullptr : &exact_->values;
    if (errors_ != nullptr) RP_TRY(errors_->change_operands(n, exact, inputs, own));
    RP_ASSIGN(AttrMap attrs, eval_attrs(n.attrs, symbols_));
    host::Call call{n.op, n.opset, attrs, inputs, n.outputs.size()};
    const ValueId first = n.outputs[0];
    if (first != kNone && g_.value(first).has_shape) {
      const auto known = dims(g_.value(first).shape);
      if (known.ok()) call.output_dims = *known;
    }
    RP_ASSIGN(Tensors results, kernel(call));
    if (errors_ != nullptr) RP_TRY(errors_->change_results(n, kernel, call, inputs, results));
    define_all(n, std::move(results));
    return {};
  }

  Status control_flow(const Node& n) {
    int64_t calls = 0;
    const ControlFlow c{
        n, inputs_of(n),
        [&](size_t which, Tensors passed) {
          return call_body(n, which, calls++, std::move(passed));
        },
        [&](size_t output) { return none_of(e_.body(n, 0).graph(), output, symbols_); }};
    RP_ASSIGN(Tensors results, run_control_flow(c));
    define_all(n, std::move(results));
    return {};
  }

  Result<Tensors> call_body(const Node& n, size_t which, int64_t number, Tensors passed) {
    const Evaluation& body = e_.body(n, which);
    const std::vector<ValueId>& captures = body.graph().captures;
    const std::vector<const HostTensor*> inputs = inputs_of(n);
    for (size_t i = 0; i < captures.size(); ++i)
      if (captures[i] != kNone) passed.push_back(*inputs[inputs.size() - captures.size() + i]);
    const Trace* exact = exact_ == nullptr ? nullptr : exact_->body(n, number);
    Run run(body, inherited(body.graph(), symbols_), errors_, exact);
    RP_ASSIGN(Trace trace, run.run(passed));
    Tensors out = body.outputs_of(trace.values);
    if (errors_ == nullptr) trace_.bodies.emplace(std::pair(&n, number), std::move(trace));
    return out;
  }

 public:
  static std::vector<int64_t> inherited(const Graph& body, const std::vector<int64_t>& symbols) {
    const size_t count = std::min(body.inherited_symbols, symbols.size());
    std::vector<int64_t> out(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
    out.resize(body.symbols.size(), kNotKnown);
    return out;
  }
  /// Dims that do not follow from the caller's symbols are 0.
  static HostTensor none_of(const Graph& body, size_t output, const std::vector<int64_t>& symbols) {
    const graph::Value& v = body.value(body.outputs[output]);
    const std::vector<int64_t> known = inherited(body, symbols);
    std::vector<int64_t> dims;
    for (const Expr& e : v.shape) {
      const auto d = e.eval(known);
      dims.push_back(d.ok() ? std::max<int64_t>(*d, 0) : 0);
    }
    return HostTensor(v.dtype, dims);
  }

 private:
  void define_all(const Node& n, Tensors results) {
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i] != kNone) define(n.outputs[i], std::move(results[i]));
  }

  /// Symbols that the caller gives no value are dims of what it passes.
  void bind(const Shape& shape, const HostTensor& t) {
    for (size_t d = 0; d < shape.size() && d < t.dims().size(); ++d) {
      const auto symbol = shape[d].as_symbol();
      if (symbol && symbols_[static_cast<size_t>(*symbol)] == kNotKnown)
        symbols_[static_cast<size_t>(*symbol)] = t.dims()[d];
    }
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
    trace_.values[v] = std::move(t);
    derive_sizes(g_, symbols_);
  }

  const Evaluation& e_;
  const Graph& g_;
  std::vector<int64_t> symbols_;
  ErrorModel* errors_;
  const Trace* exact_;
  Trace trace_;
};

/// Whether the node makes an infinity or NaN of finite operands. Element i of an output may come of
/// element i of inputs of its dims, and of all elements of the others.
bool overflows_in(const Node& n, const TensorMap& values) {
  const auto float_tensor = [&](ValueId v) -> const HostTensor* {
    const auto found = values.find(v);
    return found == values.end() || !is_float(found->second.dtype()) ? nullptr : &found->second;
  };
  const auto overflows = [&](const HostTensor& out, int64_t i) {
    return !std::isfinite(test::number(out, i)) && std::ranges::all_of(n.inputs, [&](ValueId v) {
      const HostTensor* in = float_tensor(v);
      if (in == nullptr) return true;
      return in->dims() == out.dims() ? std::isfinite(test::number(*in, i)) : all_finite(*in);
    });
  };
  return std::ranges::any_of(n.outputs, [&](ValueId v) {
    const HostTensor* out = float_tensor(v);
    for (int64_t i = 0; out != nullptr && i < out->count(); ++i)
      if (overflows(*out, i)) return true;
    return false;
  });
}

}  // namespace

void derive_sizes(const Graph& g, std::vector<int64_t>& symbols) {
  symbols.resize(g.symbols.size(), kNotKnown);
  for (size_t s = 0; s < g.symbols.size(); ++s) {
    if (g.symbol_sources[s].kind != SymbolSource::Kind::Derived) continue;
    const auto size = g.symbol_sources[s].value.eval(symbols);
    if (size.ok()) symbols[s] = *size;
  }
}

Result<Evaluation> Evaluation::of(const Graph& model) {
  Evaluation e;
  e.g_ = model.clone();
  for (const passes::Pass& pass : passes::pipeline()) {
    if (pass.required) RP_TRY(passes::run(pass, *e.g_));
  }
  for (const auto& n : e.g_->nodes()) {
    for (size_t i = 0; i < n->subgraphs.size(); ++i) {
      auto body = of(*n->subgraphs[i].second);
      if (!body.ok()) return body.status().with_context(n->subgraphs[i].first + " of " + n->name);
      e.bodies_[{n.get(), i}] = std::make_shared<Evaluation>(std::move(*body));
    }
  }
  return e;
}

Result<Evaluation> Evaluation::of_node(const Graph& g, const Node& n) {
  Graph alone;
  alone.symbols = g.symbols;
  alone.symbol_sources = g.symbol_sources;
  for (SymbolSource& s : alone.symbol_sources)
    if (s.kind != SymbolSource::Kind::Derived) s.index = kNone.number();
  graph::NodeSpec copy{n, {}, {}};
  for (const ValueId v : n.inputs) {
    copy.inputs.push_back(kNone);
    if (v == kNone) continue;
    const graph::Value& given = g.value(v);
    ValueId& here = copy.inputs.back();
    here = given.constant ? alone.add_constant(given.name, graph::whole(given))
                          : alone.add_value(given.name, given.dtype, given.shape);
    if (!given.constant) alone.inputs.push_back(here);
  }
  for (const ValueId v : n.outputs)
    copy.outputs.push_back(v == kNone ? kNone : alone.add_unknown(g.value(v).name));
  Node* const added = alone.add_node(std::move(copy));
  RP_TRY(ops::infer(alone, *added));
  std::vector<ValueId> outputs;
  for (const ValueId v : added->outputs)
    if (v != kNone) outputs.push_back(v);
  alone.set_outputs(outputs);
  return of(alone);
}

Evaluation Evaluation::of_bodies(const Node& n) {
  Evaluation e;
  for (size_t i = 0; i < n.subgraphs.size(); ++i) {
    auto body = std::make_shared<Evaluation>();
    body->g_ = n.subgraphs[i].second;
    for (const auto& inner : body->g_->nodes()) {
      for (const auto& [at, evaluation] : of_bodies(*inner).bodies_) body->bodies_[at] = evaluation;
    }
    e.bodies_[{&n, i}] = std::move(body);
  }
  return e;
}

Result<Trace> Evaluation::trace(const std::vector<int64_t>& symbols, const Tensors& inputs,
                                const Errors& errors) const {
  std::optional<ErrorModel> model;
  if (errors.seed != 0) model.emplace(errors.seed, errors.memory);
  return Run(*this, symbols, model ? &*model : nullptr, errors.exact).run(inputs);
}

Result<Tensors> Evaluation::run(const Node& n, const std::vector<const HostTensor*>& inputs,
                                const std::vector<int64_t>& symbols) const {
  const auto call = [&](size_t which, Tensors passed) -> Result<Tensors> {
    const Evaluation& e = body(n, which);
    const std::vector<ValueId>& captures = e.graph().captures;
    for (size_t i = 0; i < captures.size(); ++i)
      if (captures[i] != kNone) passed.push_back(*inputs[inputs.size() - captures.size() + i]);
    RP_ASSIGN(const Trace t,
              Run(e, Run::inherited(e.graph(), symbols), nullptr, nullptr).run(passed));
    return e.outputs_of(t.values);
  };
  return run_control_flow({n, inputs, call, [&](size_t output) {
                             return Run::none_of(body(n, 0).graph(), output, symbols);
                           }});
}

bool Evaluation::overflows(const Trace& trace) {
  const auto& nodes = trace.of->graph().nodes();
  return std::ranges::any_of(nodes,
                             [&](const auto& n) { return overflows_in(*n, trace.values); }) ||
         std::ranges::any_of(trace.bodies, [](const auto& b) { return overflows(b.second); });
}

bool Evaluation::has_infinities() const {
  const auto has = [](const graph::Value& v) { return v.constant && !all_finite(graph::whole(v)); };
  return std::ranges::any_of(g_->values(), has) ||
         std::ranges::any_of(bodies_, [](const auto& b) { return b.second->has_infinities(); });
}

Tensors Evaluation::outputs_of(const TensorMap& values) const {
  Tensors out;
  for (const ValueId v : g_->outputs) out.push_back(values.at(v));
  return out;
}

}  // namespace reprise::fuzz
