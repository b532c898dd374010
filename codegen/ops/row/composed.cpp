#include "codegen/ops/row/composed.h"

#include <algorithm>
#include <utility>

#include "codegen/ops/row/support.h"

namespace reprise::ops {

using graph::kNone;
using V = OpBuilder::V;

std::vector<V> Composer::add_node(graph::NodeSpec spec, size_t outputs) {
  std::vector<V> results(outputs, kNone);
  if (!ok()) return results;
  graph::Graph& g = rewriter().graph();
  graph::Node& n = rewriter().node();
  spec.name = n.name + "/" + spec.op;
  for (V& v : results) v = g.add_unknown(spec.name);
  while (!spec.inputs.empty() && spec.inputs.back() == kNone) spec.inputs.pop_back();
  spec.outputs = results;
  spec.origins = n.origins;
  spec.origin_op = n.origin_op.empty() ? n.op : n.origin_op;
  fail(infer(g, *g.add_node(std::move(spec), &n)));
  return ok() ? results : std::vector<V>(outputs, kNone);
}

std::vector<V> Composer::model_all(const std::string& op, std::vector<V> inputs, AttrMap attrs,
                                   size_t outputs, int64_t opset) {
  graph::NodeSpec spec;
  spec.op = op;
  spec.opset = opset;
  spec.inputs = std::move(inputs);
  spec.attrs = std::move(attrs);
  return add_node(std::move(spec), outputs);
}

V Composer::model(const std::string& op, std::vector<V> inputs, AttrMap attrs, int64_t opset) {
  return model_all(op, std::move(inputs), std::move(attrs), 1, opset)[0];
}

std::vector<V> Composer::microsoft_all(const std::string& op, std::vector<V> inputs, AttrMap attrs,
                                       size_t outputs) {
  graph::NodeSpec spec;
  spec.op = std::string(find(kMicrosoft, op)->name);
  spec.domain = kMicrosoft;
  spec.opset = 1;
  spec.inputs = std::move(inputs);
  spec.attrs = std::move(attrs);
  return add_node(std::move(spec), outputs);
}

V Composer::microsoft(const std::string& op, std::vector<V> inputs, AttrMap attrs) {
  return microsoft_all(op, std::move(inputs), std::move(attrs), 1)[0];
}

V Composer::channels_last(V v) {
  if (!ok()) return v;
  std::vector<int64_t> perm = iota(0, std::ssize(shape(v)));
  if (perm.size() < 3) refuse(Code::InvalidModel, "the data must have at least rank 3");
  if (ok()) std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return transpose(v, std::move(perm));
}

V Composer::channels_first(V v) {
  if (!ok()) return v;
  std::vector<int64_t> perm = iota(0, std::ssize(shape(v)));
  if (perm.size() < 3) refuse(Code::InvalidModel, "the data must have at least rank 3");
  if (ok()) std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return transpose(v, std::move(perm));
}

V Composer::activated(V v, const std::string& activation, const std::vector<float>& parameters) {
  const auto parameter = [&](size_t i, float otherwise) {
    return i < parameters.size() ? parameters[i] : otherwise;
  };
  if (activation.empty()) return v;
  if (activation == "Relu" || activation == "Tanh" || activation == "Sigmoid")
    return model(activation, {v});
  if (activation == "LeakyRelu")
    return model(activation, {v}, attributes({{"alpha", parameter(0, 0.01F)}}));
  if (activation == "HardSigmoid") {
    return model(activation, {v},
                 attributes({{"alpha", parameter(0, 0.2F)}, {"beta", parameter(1, 0.5F)}}));
  }
  if (activation == "HardSwish") return model(activation, {v});
  if (activation == "Clip" && parameters.size() == 2) {
    return model(activation, {v, scalar(dtype(v), static_cast<double>(parameters[0])),
                              scalar(dtype(v), static_cast<double>(parameters[1]))});
  }
  refuse(Code::Unsupported, "activation '" + activation + "' with " +
                                std::to_string(parameters.size()) +
                                " parameters; known: Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid, "
                                "HardSwish, Clip");
  return v;
}

AttrMap attributes(std::initializer_list<std::pair<const char*, Attr>> list) {
  AttrMap out;
  for (const auto& [name, attr] : list) out.set(name, attr);
  return out;
}

AttrMap Composer::given(std::initializer_list<std::string_view> names) {
  AttrMap out;
  for (const auto& [name, attr] : node().attrs) {
    if (std::ranges::find(names, name) != names.end()) out.set(name, attr);
  }
  return out;
}

void Composer::refuse(Code code, const std::string& message) {
  fail(InferContext(rewriter().graph(), rewriter().node()).error(code, message));
}

std::vector<int64_t> Composer::constant_ints(size_t input, const std::string& what) {
  const auto ints = InferContext(rewriter().graph(), rewriter().node()).constant_ints(input);
  if (!ints) refuse(Code::Unsupported, what + " must be constant; make it an initialiser");
  return ints.value_or(std::vector<int64_t>{});
}

namespace {

/// The nodes from `n` back to the first one that was added before it.
std::vector<graph::Node*> added_nodes(const graph::Graph& g, const graph::Node* before,
                                      const graph::Node& n) {
  std::vector<graph::Node*> out;
  for (auto it = g.nodes().rbegin(); it != g.nodes().rend() && it->get() != before; ++it) {
    if (it->get() == &n || graph::Graph::precedes(it->get(), &n)) out.push_back(it->get());
  }
  return out;
}

const graph::Node* node_before(const graph::Graph& g, const graph::Node& n) {
  for (auto it = g.nodes().rbegin(); it != g.nodes().rend(); ++it)
    if (graph::Graph::precedes(it->get(), &n)) return it->get();
  return nullptr;
}

/// Removes the nodes of a trial and the data of the constants that only they read.
void remove_trial(graph::Graph& g, const std::vector<graph::Node*>& nodes, size_t first_value) {
  for (graph::Node* n : nodes) g.erase_node(n);
  for (size_t i = first_value; i < g.values().size(); ++i) {
    graph::Value& v = g.value(V(static_cast<uint32_t>(i)));
    v.constant.reset();
  }
}

/// Symbols of dims that depend on data belong to values, which a trial discards.
Status require_no_data_dims(const InferContext& ctx, std::span<const SymbolSource> added) {
  if (std::ranges::none_of(added, [](const SymbolSource& s) { return s.known_from_call(); }))
    return {};
  return ctx.error(Code::Unsupported,
                   "the size of a result depends on data; make the inputs that decide it constant");
}

}  // namespace

Status infer_composed(InferContext& ctx) {
  graph::Graph& g = ctx.graph();
  graph::Node& n = ctx.node();
  const graph::Node* before = node_before(g, n);
  const size_t first_value = g.values().size(), first_symbol = g.symbol_sources.size();
  graph::NodeSpec copy{n, n.inputs.list(), {}};
  for (const V v : n.outputs) copy.outputs.push_back(v == kNone ? kNone : g.add_unknown(n.name));
  const std::vector<V> results = copy.outputs;
  graph::Node& trial = *g.add_node(std::move(copy), &n);
  Rewriter rw(g, trial);
  const Result<bool> replaced = find(n)->decompose(rw);
  std::vector<graph::Value> types;
  types.reserve(results.size());
  for (const V v : results) types.push_back(v == kNone ? graph::Value{} : g.value(v));
  remove_trial(g, added_nodes(g, before, trial), first_value);
  RP_TRY(replaced.status());
  RP_TRY(require_no_data_dims(ctx, std::span(g.symbol_sources).subspan(first_symbol)));
  ContentsContext known(g, n);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == kNone) continue;
    if (!types[i].has_shape)
      return ctx.error(Code::Internal,
                       "the decomposition does not give output " + std::to_string(i));
    ctx.set_output(i, types[i].dtype, types[i].shape);
    RP_TRY(ctx.status());
    if (types[i].elements) known.set_elements(i, *types[i].elements);
  }
  return {};
}

}  // namespace reprise::ops
