// Conditions of If and Loop that follow from constants.
#include <unordered_map>

#include "codegen/onnx/builder.h"
#include "codegen/ops/op.h"
#include "runtime/base/eval_attrs.h"
#include "runtime/host/host_kernels.h"

namespace reprise::onnx {

namespace {

/// Limits of what is computed for one condition: nodes, and elements of each tensor.
constexpr size_t kMaxConditionNodes = 64;
constexpr int64_t kMaxElements = 64;

/// Computes small tensors from constants with the host's kernels.
class Evaluator {
 public:
  explicit Evaluator(const Graph& g) : g_(g) {}

  /// Null if the value depends on more than constants, or a limit is exceeded.
  const HostTensor* value(ValueId v) {
    const graph::Value& of = g_.value(v);
    if (of.constant) return of.constant->count() <= kMaxElements ? &*of.constant : nullptr;
    const graph::Node* n = of.producer;
    if (n == nullptr) return nullptr;
    auto it = results_.find(n);
    if (it == results_.end()) {
      if (results_.size() == kMaxConditionNodes) return nullptr;
      results_.emplace(n, std::vector<HostTensor>());  // counts for the limit
      it = results_.insert_or_assign(n, computed(*n)).first;
    }
    for (size_t i = 0; i < it->second.size(); ++i) {
      if (n->outputs[i] == v) return &it->second[i];
    }
    return nullptr;
  }

 private:
  /// The outputs of a node. None if they are not known.
  std::vector<HostTensor> computed(const graph::Node& n) {
    if (!n.subgraphs.empty() || ops::is_random(n)) return {};
    for (const ValueId v : n.outputs) {
      if (v == kNone) continue;
      const graph::Value& out = g_.value(v);
      if (!out.has_shape || is_container(out.dtype) || !is_static(out.shape)) return {};
      if (element_count(out.shape).value() > kMaxElements) return {};
    }
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
    return results.ok() ? *std::move(results) : std::vector<HostTensor>();
  }

  const Graph& g_;
  std::unordered_map<const graph::Node*, std::vector<HostTensor>> results_;
};

}  // namespace

std::optional<bool> known_condition(const Graph& g, ValueId condition) {
  const graph::Value& v = g.value(condition);
  if (v.elements && v.elements->size() == 1 && v.elements->front().is_const()) {
    return v.elements->front().value() != 0;
  }
  Evaluator evaluator(g);
  const HostTensor* known = evaluator.value(condition);
  if (known == nullptr || known->dtype() != DType::Bool || known->count() != 1) return std::nullopt;
  return known->data<uint8_t>()[0] != 0;
}

}  // namespace reprise::onnx
