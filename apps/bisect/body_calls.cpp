#include "apps/bisect/body_calls.h"

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/compile/host_plan.h"
#include "codegen/graph/whole.h"
#include "runtime/host/control_flow_kind.h"
#include "runtime/host_plan/control_flow.h"

namespace reprise::app {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using Tensors = std::vector<HostTensor>;

constexpr int64_t kMostIterations = 64;

/// A body as a model, with what the node gives it beside what the operator passes.
struct BodyModel {
  std::unique_ptr<Graph> graph;
  Tensors captured;
};

/// The sources of the symbols are the dims of inputs.
Status set_sources(Graph& g) {
  std::vector<bool> known(g.symbols.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Shape& shape = g.value(g.inputs[i]).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto symbol = shape[d].as_symbol();
      if (!symbol || known[static_cast<size_t>(*symbol)]) continue;
      known[static_cast<size_t>(*symbol)] = true;
      g.symbol_sources[static_cast<size_t>(*symbol)] = {
          SymbolSource::Kind::InputDim, static_cast<int32_t>(i), static_cast<int32_t>(d), {}};
    }
  }
  for (const ValueId v : g.inputs) {
    for (const Expr& e : g.value(v).shape) {
      const std::vector<SymbolId> symbols = e.symbols();
      if (std::ranges::all_of(symbols, [&](SymbolId s) { return known[static_cast<size_t>(s)]; }))
        continue;
      return unsupported("the size " + e.str(g.symbols) + " of '" + g.value(v).name +
                         "' depends on a symbol that is no dim of what the body reads");
    }
  }
  for (size_t s = 0; s < g.symbols.size(); ++s) {
    SymbolSource& source = g.symbol_sources[s];
    if (!known[s] && source.kind == SymbolSource::Kind::InputDim)
      source = {SymbolSource::Kind::HostOutput, kNone.number(), 0, {}};
  }
  return {};
}

Result<BodyModel> model_of(const Graph& g, const Node& n, size_t which, const Values& values) {
  BodyModel out;
  out.graph = n.subgraphs[which].second->clone();
  Graph& body = *out.graph;
  if (body.name.empty()) body.name = n.subgraphs[which].first;
  const size_t first = n.inputs.size() - body.captures.size();
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const ValueId inner = body.captures[i], outer = n.inputs[first + i];
    if (inner == kNone || outer == kNone) continue;
    const graph::Value& value = g.value(outer);
    if (value.constant && value.constant->dtype() == body.value(inner).dtype) {
      const HostTensor constant = graph::whole(value);
      body.replace_uses(inner, body.add_constant(body.value(inner).name, constant));
      continue;
    }
    body.inputs.push_back(inner);
    out.captured.push_back(values.at(outer));
  }
  body.captures.clear();
  body.inherited_symbols = 0;
  RP_TRY(set_sources(body));
  return out;
}

class Calls {
 public:
  Calls(const Graph& g, const Node& n, const Values& values,
        const std::function<Result<bool>(BodyCall)>& visit)
      : g_(g), n_(n), values_(values), visit_(visit) {}

  Status run() {
    switch (host::control_flow_of(n_.op.str())) {
      case host::ControlFlow::If:
        return run_if();
      case host::ControlFlow::Loop:
        return run_loop();
      case host::ControlFlow::Scan:
        return run_scan();
      case host::ControlFlow::None:
        break;
    }
    return {};
  }

 private:
  const HostTensor* input(size_t i) const {
    const ValueId v = i < n_.inputs.size() ? n_.inputs[i] : kNone;
    return v == kNone ? nullptr : &values_.at(v);
  }

  Status run_if() {
    RP_ASSIGN(const int64_t condition, scalar_of(*input(0), DType::Bool, "the condition"));
    const size_t which = condition != 0 ? 0 : 1;
    RP_ASSIGN(body_, model_of(g_, n_, which, values_));
    return visit({}, n_.subgraphs[which].first + " of node '" + n_.name + "'").status();
  }

  Status run_loop() {
    RP_ASSIGN(body_, model_of(g_, n_, 0, values_));
    const size_t carried = n_.subgraphs[0].second->inputs.size() - 2;
    int64_t trips = std::numeric_limits<int64_t>::max(), going = 1;
    if (input(0) != nullptr) {
      RP_ASSIGN(trips, scalar_of(*input(0), DType::I64, "the number of iterations"));
    }
    if (input(1) != nullptr) {
      RP_ASSIGN(going, scalar_of(*input(1), DType::Bool, "the condition"));
    }
    Tensors states;
    for (size_t i = 0; i < carried; ++i) states.push_back(*input(2 + i));
    for (int64_t i = 0; i < std::min(trips, kMostIterations) && going != 0; ++i) {
      Tensors passed{HostTensor::from<int64_t>(DType::I64, {}, {i}),
                     HostTensor::from<uint8_t>(DType::Bool, {}, {1})};
      passed.insert(passed.end(), states.begin(), states.end());
      RP_ASSIGN(const Tensors results, visit(std::move(passed), iteration(i)));
      if (found_) return {};
      RP_ASSIGN(going, scalar_of(results[0], DType::Bool, "the condition"));
      std::copy_n(results.begin() + 1, carried, states.begin());
    }
    return {};
  }

  Status run_scan() {
    if (n_.opset == 8) return {};  // runs on the host
    RP_ASSIGN(body_, model_of(g_, n_, 0, values_));
    const Graph& body = *n_.subgraphs[0].second;
    const size_t passed_count = body.inputs.size();
    std::vector<int64_t> ranks;
    for (size_t i = 0; i < passed_count; ++i) ranks.push_back(input(i)->rank());
    plan::HostCall call;
    call.op = n_.op.str();
    call.opset = n_.opset;
    call.attrs = n_.attrs;
    RP_ASSIGN(const ScanForm f, read_scan_form(call, make_interface(body), 0, ranks));
    Tensors states;
    for (size_t i = 0; i < f.states; ++i) states.push_back(*input(i));
    const int64_t length = input(f.states)->dims()[f.in_axes[0]];
    for (int64_t i = 0; i < std::min(length, kMostIterations); ++i) {
      Tensors passed = states;
      for (size_t k = 0; k < f.scanned; ++k) {
        const int64_t at = f.in_reversed[k] ? length - 1 - i : i;
        RP_ASSIGN(HostTensor element,
                  slice_at(*input(f.states + k), f.in_axes[k], static_cast<size_t>(at)));
        passed.push_back(std::move(element));
      }
      RP_ASSIGN(const Tensors results, visit(std::move(passed), iteration(i)));
      if (found_) return {};
      std::copy_n(results.begin(), f.states, states.begin());
    }
    return {};
  }

  std::string iteration(int64_t i) const {
    return "iteration " + std::to_string(i) + " of the body of node '" + n_.name + "'";
  }

  /// Returns what the host computes.
  Result<Tensors> visit(Tensors passed, std::string name) {
    BodyCall call;
    call.model = body_.graph->clone();
    call.name = std::move(name);
    passed.insert(passed.end(), body_.captured.begin(), body_.captured.end());
    for (const ValueId v : call.model->inputs)
      call.inputs.names.push_back(call.model->value(v).name);
    call.inputs.tensors = std::move(passed);
    RP_ASSIGN(const Values values, HostGraph(*call.model).run(call.inputs.tensors));
    Tensors results;
    for (const ValueId v : call.model->outputs) results.push_back(values.at(v).detached());
    RP_ASSIGN(found_, visit_(std::move(call)));
    return results;
  }

  const Graph& g_;
  const Node& n_;
  const Values& values_;
  const std::function<Result<bool>(BodyCall)>& visit_;
  BodyModel body_;
  bool found_ = false;
};

}  // namespace

bool runs_bodies_on_device(const plan::Plan& plan, const Node& n) {
  return std::ranges::any_of(plan.steps, [&](const plan::Step& s) {
    const auto* call = std::get_if<plan::HostCall>(&s.what);
    return call != nullptr && call->node == n.name && !call->device_bodies.empty();
  });
}

Status for_each_body_call(const Graph& g, const Node& n, const Values& values,
                          const std::function<Result<bool>(BodyCall)>& visit) {
  return Calls(g, n, values, visit).run().with_context("node '" + n.name + "' (" + n.op + ")");
}

}  // namespace reprise::app
