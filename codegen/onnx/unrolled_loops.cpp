#include "codegen/onnx/unrolled_loops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/import.h"
#include "codegen/ops/row/op.h"

namespace reprise::onnx {

namespace {

/// Limits of what is written out: iterations, and nodes of all iterations together.
constexpr int64_t kMaxIterations = 256;
constexpr int64_t kMaxNodes = 4096;

int64_t count_nodes(const Graph& g) {
  int64_t count = 0;
  for (const auto& n : g.nodes()) {
    ++count;
    for (const auto& [label, body] : n->subgraphs) count += count_nodes(*body);
  }
  return count;
}

}  // namespace

bool may_unroll(int64_t iterations, const Graph& body) {
  return iterations > 0 && iterations <= kMaxIterations &&
         iterations * count_nodes(body) <= kMaxNodes;
}

Result<ValueId> add_axis_node(Graph& g, const std::string& loop, const std::string& op,
                              std::vector<ValueId> inputs, int64_t axis) {
  graph::NodeSpec node;
  node.op = op;
  node.opset = 13;
  node.inputs = std::move(inputs);
  if (op == "Unsqueeze" || op == "Squeeze") {
    node.inputs.push_back(
        g.add_constant("axis", HostTensor::from<int64_t>(DType::I64, {1}, {axis})));
  } else {
    node.attrs.set("axis", axis);
  }
  const ValueId out = g.add_unknown(loop + "/" + op);
  node.outputs = {out};
  RP_TRY(ops::infer(g, *g.add_node(std::move(node))));
  return out;
}

Result<ValueId> UnrolledLoop::add_node(const std::string& op, std::vector<ValueId> inputs,
                                       int64_t axis) {
  return add_axis_node(g_, form_.name(), op, std::move(inputs), axis);
}

/// What iteration i takes of scanned input k.
Result<ValueId> UnrolledLoop::slice(size_t k, int64_t i) {
  const int64_t length = g_.value(form_.scanned[k]).shape[form_.in_axes[k]].value();
  const int64_t at = form_.in_reversed[k] ? length - 1 - i : i;
  const ValueId index = g_.add_constant("index", HostTensor::from<int64_t>(DType::I64, {}, {at}));
  return add_node("Gather", {form_.scanned[k], index}, static_cast<int64_t>(form_.in_axes[k]));
}

Result<std::vector<ValueId>> UnrolledLoop::write_iteration(int64_t i,
                                                           const std::vector<ValueId>& carried) {
  Frame frame = *scope_.frame;
  frame.prefix += form_.name() + "/" + std::to_string(i) + "/";
  Scope inner = scope_.nested();
  inner.frame = &frame;
  std::vector<ValueId> passed;
  if (!form_.is_scan) {
    passed = {g_.add_constant("iteration", HostTensor::from<int64_t>(DType::I64, {}, {i})),
              g_.add_constant("condition", HostTensor::from<uint8_t>(DType::Bool, {}, {1}))};
  }
  passed.insert(passed.end(), carried.begin(), carried.end());
  for (size_t k = 0; k < form_.scanned.size(); ++k) {
    RP_ASSIGN(const ValueId v, slice(k, i));
    passed.push_back(v);
  }
  for (size_t k = 0; k < passed.size(); ++k)
    RP_TRY(import_.names.define(inner, form_.body->input(static_cast<int>(k)).name(), passed[k]));
  RP_TRY(inline_body(import_, inner, *form_.body));
  std::vector<ValueId> returned;
  for (const wire::ValueInfo& o : form_.body->output()) {
    const std::optional<ValueId> v = import_.names.resolve(inner, o.name());
    if (!v || *v == kNone) return invalid_model("nothing defines the output " + shown(o.name()));
    returned.push_back(*v);
  }
  return returned;
}

/// Output k of the stacked ones.
Result<ValueId> UnrolledLoop::stacked(const std::vector<ValueId>& parts, size_t k) {
  const auto axis = static_cast<int64_t>(form_.out_axes[k]);
  std::vector<ValueId> single;
  for (const ValueId v : parts) {
    RP_ASSIGN(const ValueId one, add_node("Unsqueeze", {v}, axis));
    single.push_back(one);
  }
  if (form_.is_scan && form_.out_reversed[k]) std::reverse(single.begin(), single.end());
  return single.size() == 1 ? Result<ValueId>(single[0])
                            : add_node("Concat", std::move(single), axis);
}

Result<std::vector<ValueId>> UnrolledLoop::write(int64_t iterations) {
  const size_t first = form_.is_scan ? 0 : 1;
  const size_t n_carried = form_.carried.size();
  std::vector<ValueId> carried = form_.carried;
  std::vector<std::vector<ValueId>> parts(static_cast<size_t>(form_.body->output_size()) - first -
                                          n_carried);
  for (int64_t i = 0; i < iterations; ++i) {
    auto returned = write_iteration(i, carried);
    if (!returned.ok()) return returned.status().with_context("iteration " + std::to_string(i));
    carried.assign(returned->begin() + static_cast<std::ptrdiff_t>(first),
                   returned->begin() + static_cast<std::ptrdiff_t>(first + n_carried));
    for (size_t k = 0; k < parts.size(); ++k)
      parts[k].push_back((*returned)[first + n_carried + k]);
  }
  std::vector<ValueId> outputs(static_cast<size_t>(form_.node.output_size()), kNone);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (form_.node.output(static_cast<int>(i)).empty()) continue;
    if (i < n_carried) {
      outputs[i] = carried[i];
    } else {
      RP_ASSIGN(outputs[i], stacked(parts[i - n_carried], i - n_carried));
    }
  }
  return outputs;
}

}  // namespace reprise::onnx
