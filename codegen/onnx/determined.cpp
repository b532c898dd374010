#include "codegen/onnx/determined.h"

#include <algorithm>

#include "codegen/ops/row/op.h"
#include "runtime/host/host_kernels.h"
#include "runtime/operators/eval_attrs.h"

namespace reprise::onnx {

namespace {

using graph::kNone;
using graph::ValueId;

/// Of what is computed whether or not an operator asks for it.
constexpr Determined::Limits kUnasked{1, int64_t{1} << 20, int64_t{1} << 12};
/// Of what an operator needs, such as a packed weight.
constexpr Determined::Limits kAsked{256, int64_t{1} << 33, int64_t{1} << 33};

/// Whether the result shares the memory of operand 0.
bool shares_memory(const graph::Node& n) {
  static constexpr std::string_view kViews[] = {"Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                                "Identity"};
  return n.domain.empty() && std::ranges::find(kViews, std::string_view(n.op)) != std::end(kViews);
}

}  // namespace

const HostTensor* Determined::value(ValueId v) {
  const graph::Value& of = g_.value(v);
  if (const HostTensor* known = of.contents())
    return known->count() <= limits_.operands ? known : nullptr;
  const graph::Node* n = of.producer;
  if (n == nullptr) return nullptr;
  auto it = results_.find(n);
  if (it == results_.end()) {
    if (results_.size() == limits_.nodes) return nullptr;
    results_.emplace(n, std::vector<HostTensor>());  // counts for the limit
    it = results_.insert_or_assign(n, computed(*n)).first;
  }
  for (size_t i = 0; i < it->second.size(); ++i) {
    if (n->outputs[i] == v) return &it->second[i];
  }
  return nullptr;
}

bool Determined::may_compute(const graph::Node& n) const {
  if (!n.subgraphs.empty() || ops::is_random(n)) return false;
  return std::ranges::all_of(n.outputs, [&](ValueId v) {
    if (v == kNone) return true;
    const graph::Value& out = g_.value(v);
    return out.has_shape && !is_container(out.dtype) && is_static(out.shape) &&
           element_count(out.shape).value() <= limits_.results;
  });
}

/// The outputs of a node. None if they are not known.
std::vector<HostTensor> Determined::computed(const graph::Node& n) {
  if (!may_compute(n)) return {};
  std::vector<const HostTensor*> inputs;
  for (const ValueId v : n.inputs) {
    inputs.push_back(v == kNone ? nullptr : value(v));
    if (v != kNone && inputs.back() == nullptr) return {};
  }
  const host::Kernel kernel = host::find(n.op);
  const Result<AttrMap> attrs = eval_attrs(n.attrs, {});
  if (kernel == nullptr || !attrs.ok()) return {};
  host::Call call{n.op, n.opset, *attrs, inputs, n.outputs.size()};
  if (n.outputs.front() != kNone) call.output_dims = static_dims(g_.value(n.outputs[0]).shape);
  auto results = kernel(call);
  return results.ok() && fit(n, *results) ? *std::move(results) : std::vector<HostTensor>();
}

/// Whether the results have the types that inference found.
bool Determined::fit(const graph::Node& n, const std::vector<HostTensor>& results) const {
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    const graph::Value& v = g_.value(n.outputs[i]);
    if (results[i].dtype() != v.dtype || results[i].dims() != static_dims(v.shape)) return false;
  }
  return true;
}

void determine_results(graph::Graph& g, const graph::Node& n) {
  const bool known = !n.inputs.empty() && std::ranges::all_of(n.inputs, [&](ValueId v) {
    return v == kNone || g.value(v).contents() != nullptr;
  });
  if (!known) return;
  Determined constants(g, shares_memory(n) ? kAsked : kUnasked);
  for (const ValueId v : n.outputs) {
    if (v == kNone) continue;
    if (const HostTensor* t = constants.value(v)) g.value(v).determined = *t;
  }
}

bool determine_operands(graph::Graph& g, const graph::Node& n) {
  Determined constants(g, kAsked);
  bool any = false;
  for (const ValueId v : n.inputs) {
    if (v == kNone || g.value(v).contents() != nullptr) continue;
    const HostTensor* t = constants.value(v);
    if (t == nullptr) continue;
    g.value(v).determined = *t;
    any = true;
  }
  return any;
}

}  // namespace reprise::onnx
