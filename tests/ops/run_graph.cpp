#include "tests/ops/run_graph.h"

#include <gtest/gtest.h>

#include <map>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/support.h"
#include "runtime/host/host_kernels.h"
#include "runtime/operators/eval_attrs.h"
#include "runtime/plan/bind.h"
#include "tests/ops/element_runner.h"

namespace reprise::test {

std::unique_ptr<graph::Graph> must_parse(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  return g.ok() ? std::move(*g) : nullptr;
}

Status decompose_all(graph::Graph& g) {
  bool changed = true;
  while (changed) {
    changed = false;
    std::vector<graph::Node*> nodes;
    for (const auto& n : g.nodes()) nodes.push_back(n.get());
    for (graph::Node* n : nodes) {
      const ops::OpDef* def = ops::find(*n);
      if (def == nullptr || def->decompose == nullptr) continue;
      ops::Rewriter rw(g, *n);
      RP_ASSIGN(const bool replaced, def->decompose(rw));
      if (!replaced) continue;
      g.erase_node(n);
      changed = true;
    }
  }
  return {};
}

namespace {

class Run {
 public:
  Run(const graph::Graph& g, Engine engine) : g_(g), engine_(engine) {}

  Status bind(const std::vector<HostTensor>& inputs) {
    symbols_.assign(g_.symbols.size(), std::numeric_limits<int64_t>::min());
    for (size_t i = 0; i < inputs.size(); ++i) values_[g_.inputs[i]] = inputs[i];
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      const SymbolSource& source = g_.symbol_sources[s];
      if (source.kind != SymbolSource::Kind::InputDim) continue;
      symbols_[s] =
          inputs[static_cast<size_t>(source.index)].dims()[static_cast<size_t>(source.axis)];
    }
    const plan::Interface io = interface();
    plan::derive_symbols(io, symbols_);
    return plan::check_guards(io, symbols_);
  }

  const HostTensor* tensor(graph::ValueId v) const {
    if (v == graph::kNone) return nullptr;
    const graph::Value& value = g_.value(v);
    if (value.constant) return &*value.constant;
    const auto it = values_.find(v);
    return it == values_.end() ? nullptr : &it->second;
  }

  Status step(const graph::Node& n) {
    std::vector<const HostTensor*> inputs;
    for (graph::ValueId v : n.inputs) inputs.push_back(tensor(v));
    // Scans and recurrent layers have kernel templates instead of element().
    const ops::OpDef* core = ops::core_def(n);
    if (engine_ == Engine::Elements && core != nullptr && (core->row || core->element != nullptr)) {
      for (size_t i = 0; i < n.outputs.size(); ++i) {
        if (n.outputs[i] == graph::kNone) continue;
        RP_ASSIGN(values_[n.outputs[i]], run_element(g_, n, i, inputs, symbols_));
      }
      ++interpreted;
      return {};
    }
    RP_ASSIGN(auto results, on_host(n, inputs));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] == graph::kNone) continue;
      RP_TRY(learn_dims(n.outputs[i], results[i]));
      values_[n.outputs[i]] = std::move(results[i]);
    }
    return {};
  }

  int interpreted = 0;

 private:
  Result<std::vector<HostTensor>> on_host(const graph::Node& n,
                                          const std::vector<const HostTensor*>& inputs) {
    const host::Kernel kernel = host::find(n.op);
    if (kernel == nullptr) return unsupported("no host kernel for " + n.op);
    RP_ASSIGN(const AttrMap attrs, eval_attrs(n.attrs, symbols_));
    std::optional<std::vector<int64_t>> dims;
    if (n.outputs[0] != graph::kNone) {
      if (auto known = evaluate(g_.value(n.outputs[0]).shape); known.ok()) dims = *known;
    }
    const host::Call call{n.op, n.opset, attrs, inputs, n.outputs.size(), dims};
    auto r = kernel(call);
    if (!r.ok()) return r.status().with_context(n.name);
    return r;
  }

  Result<std::vector<int64_t>> evaluate(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) {
      RP_ASSIGN(const int64_t v, e.eval(symbols_));
      out.push_back(v);
    }
    return out;
  }

  /// Data-dependent dims become known; inferred ones must agree with what was computed.
  Status learn_dims(graph::ValueId v, const HostTensor& t) {
    for (size_t s = 0; s < g_.symbols.size(); ++s) {
      const SymbolSource& source = g_.symbol_sources[s];
      if (source.kind == SymbolSource::Kind::HostOutput && source.index == v.number()) {
        symbols_[s] = t.dims()[static_cast<size_t>(source.axis)];
      }
    }
    plan::derive_symbols(interface(), symbols_);
    const graph::Value& value = g_.value(v);
    RP_ASSIGN(const auto dims, evaluate(value.shape));
    if (dims == t.dims() && t.dtype() == value.dtype) return {};
    return internal_error("'" + value.name + "' is inferred " + describe(value.dtype, dims) +
                          ", computed " + describe(t.dtype(), t.dims()));
  }

  plan::Interface interface() const {
    plan::Interface io;
    io.symbols = g_.symbols;
    io.sources = g_.symbol_sources;
    for (const graph::ValueId v : g_.inputs)
      io.inputs.push_back({g_.value(v).name, g_.value(v).dtype, g_.value(v).shape});
    io.guards.assign(g_.guards.begin(), g_.guards.end());
    return io;
  }

  const graph::Graph& g_;
  Engine engine_;
  std::map<graph::ValueId, HostTensor> values_;
  std::vector<int64_t> symbols_;
};

}  // namespace

Result<std::vector<HostTensor>> run_graph(const graph::Graph& g,
                                          const std::vector<HostTensor>& inputs, Engine engine,
                                          int* on_interpreter) {
  Run run(g, engine);
  RP_TRY(run.bind(inputs));
  for (const auto& n : g.nodes()) RP_TRY(run.step(*n));
  std::vector<HostTensor> out;
  for (graph::ValueId v : g.outputs) {
    const HostTensor* t = run.tensor(v);
    if (t == nullptr) return internal_error("output '" + g.value(v).name + "' was not computed");
    out.push_back(*t);
  }
  if (on_interpreter != nullptr) *on_interpreter = run.interpreted;
  return out;
}

std::vector<double> numbers(const HostTensor& t) {
  graph::Value v;
  v.constant = t;
  return ops::constant_numbers(v).value_or(std::vector<double>{});
}

}  // namespace reprise::test
