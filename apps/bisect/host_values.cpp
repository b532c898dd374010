#include "apps/bisect/host_values.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/bisect/composed_nodes.h"
#include "codegen/compile/host_plan.h"
#include "codegen/graph/whole.h"
#include "codegen/passes/pass.h"
#include "runtime/base/random.h"
#include "runtime/host/host_kernels.h"
#include "runtime/host_plan/host_step.h"
#include "runtime/plan/bind.h"

namespace reprise::app {

namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr double kUnits = 2;  // the error that Noise adds, in units in the last place

float largest_of(DType t) {
  return t == DType::F16 ? 65504.0F : bf16_to_float(0x7f7f);
}

}  // namespace

HostTensor to_storage(const HostTensor& t, DType storage) {
  if (t.dtype() != DType::F32 || (storage != DType::F16 && storage != DType::BF16)) return t;
  HostTensor out(storage, t.dims());
  const float largest = largest_of(storage);
  for (int64_t i = 0; i < t.count(); ++i) {
    float v = t.data<float>()[i];
    if (std::isfinite(v)) v = std::clamp(v, -largest, largest);
    out.mutable_data<uint16_t>()[i] = storage == DType::F16 ? float_to_f16(v) : float_to_bf16(v);
  }
  return out;
}

HostTensor from_storage(const HostTensor& t, DType dtype) {
  if (dtype != DType::F32 || (t.dtype() != DType::F16 && t.dtype() != DType::BF16)) return t;
  HostTensor out(dtype, t.dims());
  for (int64_t i = 0; i < t.count(); ++i) {
    const uint16_t bits = t.data<uint16_t>()[i];
    out.mutable_data<float>()[i] =
        t.dtype() == DType::F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  return out;
}

double Noise::next() {
  return static_cast<double>(splitmix64(state_) >> 11) * 0x1p-52 - 1;
}

HostTensor Noise::add(const HostTensor& t) {
  const auto changed = [&](auto load, auto store, double dtype_unit) {
    const double unit = std::max(dtype_unit, least_unit_);
    HostTensor out(t.dtype(), t.dims());
    for (int64_t i = 0; i < t.count(); ++i) store(out, i, load(i) * (1 + kUnits * unit * next()));
    return out;
  };
  switch (t.dtype()) {
    case DType::F32:
      return changed([&](int64_t i) { return double{t.data<float>()[i]}; },
                     [](HostTensor& o, int64_t i, double v) {
                       o.mutable_data<float>()[i] = static_cast<float>(v);
                     },
                     0x1p-23);
    case DType::F64:
      return changed([&](int64_t i) { return t.data<double>()[i]; },
                     [](HostTensor& o, int64_t i, double v) { o.mutable_data<double>()[i] = v; },
                     0x1p-52);
    case DType::F16:
      return changed([&](int64_t i) { return double{f16_to_float(t.data<uint16_t>()[i])}; },
                     [](HostTensor& o, int64_t i, double v) {
                       o.mutable_data<uint16_t>()[i] = float_to_f16(static_cast<float>(v));
                     },
                     0x1p-10);
    case DType::BF16:
      return changed([&](int64_t i) { return double{bf16_to_float(t.data<uint16_t>()[i])}; },
                     [](HostTensor& o, int64_t i, double v) {
                       o.mutable_data<uint16_t>()[i] = float_to_bf16(static_cast<float>(v));
                     },
                     0x1p-7);
    default:
      return t;
  }
}

HostGraph::HostGraph(const graph::Graph& g)
    : g_(g), io_(make_interface(g)), package_(std::make_unique<package::Package>()) {
  for (const graph::Value& v : g.values())
    plan_.buffers.push_back({v.name, plan::BufferKind::Arena, -1, v.dtype, v.shape});
  loaded_ = load();
}

HostGraph::~HostGraph() = default;

Status HostGraph::load() {
  RP_ASSIGN(composed_, ComposedNodes::of(g_));
  return load_bodies();
}

Status HostGraph::load_bodies() {
  WeightStore weights(*package_);
  BodyStore store(*package_, weights);
  for (const auto& n : g_.nodes()) {
    if (n->subgraphs.empty()) continue;
    RP_ASSIGN(bodies_of_[n.get()], store.of(*n));
  }
  RP_ASSIGN(bodies_, HostBodies::load(*package_));
  return {};
}

Result<Values> HostGraph::run(std::span<const HostTensor> inputs, Noise* noise) const {
  Values values;
  values.of.resize(g_.values().size());
  std::vector<std::span<const int64_t>> dims;
  for (const HostTensor& t : inputs) dims.emplace_back(t.dims());
  RP_TRY(plan::bind_symbols(io_, dims, {}, values.symbols));
  for (size_t i = 0; i < inputs.size(); ++i) values.of[g_.inputs[i]] = inputs[i];
  for (const ValueId id : g_.values().ids()) {
    const graph::Value& v = g_.value(id);
    if (v.constant) values.of[id] = from_storage(graph::whole(v), v.dtype);
  }
  for (const auto& n : g_.nodes()) RP_TRY(run(*n, values, noise));
  return values;
}

namespace {

/// The plan's buffers are the graph's values.
std::vector<plan::BufferId> buffers_of(const std::vector<ValueId>& values) {
  std::vector<plan::BufferId> out;
  out.reserve(values.size());
  for (const ValueId v : values) out.push_back(plan::BufferId(v.number()));
  return out;
}

}  // namespace

Status HostGraph::run(std::span<const Node* const> nodes, Values& values, Noise* noise) const {
  for (const Node* n : nodes) RP_TRY(run(*n, values, noise));
  return {};
}

Result<std::vector<HostTensor>> HostGraph::call(const Node& n, const Values& values,
                                                std::vector<int64_t>& symbols, Noise* noise) const {
  RP_TRY(loaded_);
  if (composed_ && passes::lacks_host_kernel(n)) return composed_->run(n, values, symbols, noise);
  plan::HostCall call{n.op, n.name, n.opset, n.attrs, buffers_of(n.inputs), buffers_of(n.outputs),
                      {},   {},     {}};
  if (!n.subgraphs.empty()) call.bodies = bodies_of_.at(&n);
  std::vector<HostTensor> noisy(n.inputs.size());
  std::vector<const HostTensor*> inputs(n.inputs.size(), nullptr);
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId v = n.inputs[i];
    if (v == kNone) continue;
    if (!values.has(v)) {
      return internal_error("node '" + n.name + "' (" + n.op + ") reads '" + g_.value(v).name +
                            "', which has no value");
    }
    inputs[i] = &values.at(v);
    if (noise == nullptr || g_.value(v).constant || !is_float(inputs[i]->dtype())) continue;
    noisy[i] = noise->add(*inputs[i]);
    inputs[i] = &noisy[i];
  }
  return run_host_call({plan_, io_, bodies_, {Deadline::max()}}, call, inputs, symbols);
}

Status HostGraph::run(const Node& n, Values& values, Noise* noise) const {
  auto results = call(n, values, values.symbols, noise);
  // If floats determine sizes, as scales do, noise may make the call impossible.
  if (!results.ok() && noise != nullptr) {
    std::vector<int64_t> symbols = noise->exact().symbols;
    results = call(n, noise->exact(), symbols, nullptr);
  }
  if (!results.ok()) return results.status();
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNone) continue;
    const graph::Value& v = g_.value(n.outputs[i]);
    HostTensor t = (*results)[i].detached();
    if (noise != nullptr) t = noise->add(t);
    if (v.storage != DType::Invalid) t = from_storage(to_storage(t, v.storage), v.dtype);
    values.of[n.outputs[i]] = std::move(t);
  }
  return {};
}

std::vector<const Node*> HostGraph::between(std::span<const ValueId> known,
                                            std::span<const ValueId> wanted) const {
  const std::set<ValueId> stop(known.begin(), known.end());
  std::set<const Node*> needed;
  std::vector<ValueId> open(wanted.begin(), wanted.end());
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const Node* n = v == kNone || stop.count(v) > 0 ? nullptr : g_.value(v).producer;
    if (n == nullptr || !needed.insert(n).second) continue;
    open.insert(open.end(), n->inputs.begin(), n->inputs.end());
  }
  std::vector<const Node*> out;
  for (const auto& n : g_.nodes()) {
    if (needed.count(n.get()) > 0) out.push_back(n.get());
  }
  return out;
}

}  // namespace reprise::app
