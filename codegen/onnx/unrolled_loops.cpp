// Writes the iterations of short Loops and Scans into the graph, one after another.
#include <algorithm>
#include <optional>

#include "codegen/onnx/loops.h"
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

bool LoopBuilder::writes_out() const {
  const auto count = iterations();
  return count && *count > 0 && *count <= kMaxIterations && !batched() &&
         *count * count_nodes(*iteration_) <= kMaxNodes;
}

/// Adds a node of opset 13 with one output.
Result<ValueId> LoopBuilder::emit(const std::string& op, std::vector<ValueId> inputs,
                                  int64_t axis) {
  graph::NodeSpec node;
  node.op = op;
  node.opset = 13;
  node.inputs = std::move(inputs);
  if (op == "Unsqueeze" || op == "Squeeze") {
    node.inputs.push_back(
        g_.add_constant("axis", HostTensor::from<int64_t>(DType::I64, {1}, {axis})));
  } else {
    node.attrs.set("axis", axis);
  }
  const ValueId out = g_.add_unknown(loop_name() + "/" + op);
  node.outputs = {out};
  RP_TRY(ops::infer(g_, *g_.add_node(std::move(node))));
  return out;
}

/// What iteration i takes of scanned input k.
Result<ValueId> LoopBuilder::slice(size_t k, int64_t i) {
  const int64_t length = g_.value(scanned_[k]).shape[in_axes_[k]].value();
  const int64_t at = in_reversed_[k] ? length - 1 - i : i;
  const ValueId index = g_.add_constant("index", HostTensor::from<int64_t>(DType::I64, {}, {at}));
  return emit("Gather", {scanned_[k], index}, static_cast<int64_t>(in_axes_[k]));
}

Result<std::vector<ValueId>> LoopBuilder::write_iteration(int64_t i,
                                                          const std::vector<ValueId>& carried) {
  Frame frame = *scope_.frame;
  frame.prefix += loop_name() + "/" + std::to_string(i) + "/";
  Scope inner;
  inner.graph = &g_;
  inner.outer = &scope_;
  inner.frame = &frame;
  std::vector<ValueId> passed;
  if (!is_scan_) {
    passed = {g_.add_constant("iteration", HostTensor::from<int64_t>(DType::I64, {}, {i})),
              g_.add_constant("condition", HostTensor::from<uint8_t>(DType::Bool, {}, {1}))};
  }
  passed.insert(passed.end(), carried.begin(), carried.end());
  for (size_t k = 0; k < scanned_.size(); ++k) {
    RP_ASSIGN(const ValueId v, slice(k, i));
    passed.push_back(v);
  }
  for (size_t k = 0; k < passed.size(); ++k)
    RP_TRY(b_.define(inner, body_->input(static_cast<int>(k)).name(), passed[k]));
  RP_TRY(b_.add_initialisers(inner, *body_));
  RP_TRY(b_.add_declared(inner, *body_));
  RP_TRY(b_.add_nodes(inner, body_->node()));
  std::vector<ValueId> returned;
  for (const wire::ValueInfo& o : body_->output()) {
    const std::optional<ValueId> v = b_.resolve(inner, o.name());
    if (!v || *v == kNone) return invalid_model("nothing defines the output " + shown(o.name()));
    returned.push_back(*v);
  }
  return returned;
}

/// Output k of the stacked ones.
Result<ValueId> LoopBuilder::stacked(const std::vector<ValueId>& parts, size_t k) {
  const auto axis = static_cast<int64_t>(out_axes_[k]);
  std::vector<ValueId> single;
  for (const ValueId v : parts) {
    RP_ASSIGN(const ValueId one, emit("Unsqueeze", {v}, axis));
    single.push_back(one);
  }
  if (is_scan_ && out_reversed_[k]) std::reverse(single.begin(), single.end());
  return single.size() == 1 ? Result<ValueId>(single[0]) : emit("Concat", std::move(single), axis);
}

Status LoopBuilder::write_out() {
  const int64_t count = *iterations();
  const size_t first = is_scan_ ? 0 : 1;
  const size_t n_carried = carried_.size();
  std::vector<ValueId> carried = carried_;
  std::vector<std::vector<ValueId>> parts(static_cast<size_t>(body_->output_size()) - first -
                                          n_carried);
  for (int64_t i = 0; i < count; ++i) {
    auto returned = write_iteration(i, carried);
    if (!returned.ok()) return returned.status().with_context("iteration " + std::to_string(i));
    carried.assign(returned->begin() + static_cast<std::ptrdiff_t>(first),
                   returned->begin() + static_cast<std::ptrdiff_t>(first + n_carried));
    for (size_t k = 0; k < parts.size(); ++k)
      parts[k].push_back((*returned)[first + n_carried + k]);
  }
  for (size_t i = 0; i < static_cast<size_t>(n_.output_size()); ++i) {
    if (n_.output(static_cast<int>(i)).empty()) continue;
    if (i < n_carried) {
      RP_TRY(name_output(i, carried[i]));
      continue;
    }
    RP_ASSIGN(const ValueId v, stacked(parts[i - n_carried], i - n_carried));
    RP_TRY(name_output(i, v));
  }
  return {};
}

}  // namespace reprise::onnx
