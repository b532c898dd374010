#include "codegen/compile/device_bodies.h"

#include <algorithm>
#include <optional>

#include "codegen/compile/body_store.h"
#include "codegen/compile/compile_context.h"
#include "codegen/compile/run_passes.h"
#include "codegen/compile/variants.h"
#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/dims.h"
#include "codegen/options/compile_hooks.h"
#include "runtime/host/control_flow_kind.h"

namespace reprise {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

/// Values that the body captures and that are constants of the caller become constants of the body,
/// so that passes fold them and kernels read them as weights.
void capture_constants(const Graph& caller, const Node& n, Graph& body) {
  const size_t first = n.inputs.size() - body.captures.size();
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const ValueId inner = body.captures[i];
    const ValueId outer = n.inputs[first + i];
    if (inner == kNone || outer == kNone) continue;
    const graph::Value& value = caller.value(outer);
    if (!value.constant || value.constant->dtype() != body.value(inner).dtype) continue;
    const std::string name = body.value(inner).name;
    const ValueId own = value.joined ? body.add_joined(name, *value.joined)
                                     : body.add_constant(name, HostTensor(*value.constant));
    body.replace_uses(inner, own);
    body.captures[i] = kNone;
  }
}

/// The caller gives all symbols their values before the body starts, but those that are dims of
/// results of the body's own nodes.
void set_sources(Graph& body) {
  for (SymbolSource& s : body.symbol_sources) {
    if (s.kind == SymbolSource::Kind::Derived) continue;
    const ValueId v(s.index);
    const bool own = s.kind == SymbolSource::Kind::HostOutput && body.values().has(v) &&
                     body.value(v).producer != nullptr;
    if (!own) s = {SymbolSource::Kind::Caller, kNone.number(), 0, {}};
  }
}

/// Why a value cannot be passed to a body in device memory; empty if it can.
std::string why_not_passed(const Graph& g, ValueId v) {
  const graph::Value& value = g.value(v);
  if (!is_host_only(value.dtype) && value.dtype != DType::Invalid) return {};
  return "'" + value.name + "' has dtype " + std::string(name_of(value.dtype)) +
         ", which has no device form";
}

/// The values of the body that iterations pass on: the first of them among the inputs and among the
/// outputs, and how many there are.
struct Carried {
  size_t input = 0, output = 0, count = 0;
};

Carried carried_of(const Node& n, const Graph& body) {
  if (host::control_flow_of(n.op) == host::ControlFlow::Loop)
    return {2, 1, std::max<size_t>(body.inputs.size(), 2) - 2};
  const auto scanned = static_cast<size_t>(n.attrs.get_int("num_scan_inputs", 0));
  return {0, 0, body.inputs.size() - std::min(body.inputs.size(), scanned)};
}

/// Why iterations must run on the host; empty if a device can run them.
std::string why_iterations_on_host(const Node& n, const Graph& body) {
  if (n.opset == 8 && host::control_flow_of(n.op) == host::ControlFlow::Scan)
    return "a scan of opset 8, which has a batch, runs on the host";
  const Carried carried = carried_of(n, body);
  if (carried.input + carried.count > body.inputs.size() ||
      carried.output + carried.count > body.outputs.size())
    return "its body takes or returns too few values";
  for (size_t i = 0; i < carried.count; ++i) {
    const graph::Value& before = body.value(body.inputs[carried.input + i]);
    const graph::Value& after = body.value(body.outputs[carried.output + i]);
    if (before.shape == after.shape) continue;
    return "the shape of '" + before.name + "' changes between iterations, from " +
           shape_str(before.shape, body.symbols) + " to " + shape_str(after.shape, body.symbols);
  }
  return {};
}

/// Why the body must run on the host; empty if a device can run it.
std::string why_host(const Node& n, const Graph& body) {
  for (const auto* list : {&body.inputs, &body.captures}) {
    for (const ValueId v : *list) {
      if (v == kNone) continue;
      if (std::string why = why_not_passed(body, v); !why.empty()) return why;
    }
  }
  for (const ValueId v : body.outputs)
    if (std::string why = why_not_passed(body, v); !why.empty()) return why;
  if (host::control_flow_of(n.op) == host::ControlFlow::None) return n.op + " runs on the host";
  const bool branch = host::control_flow_of(n.op) == host::ControlFlow::If;
  return branch ? std::string() : why_iterations_on_host(n, body);
}

bool has_kernels(const Graph& g) {
  return std::ranges::any_of(g.nodes(), [](const auto& n) {
    const ops::OpDef* def = ops::find(*n);
    return def != nullptr && def->lowering != ops::Lowering::None;
  });
}

/// Makes kernels write what an iteration returns unchanged, and what it returns twice. Otherwise
/// the host would copy it after each iteration.
void write_results(const Node& n, Graph& g) {
  if (host::control_flow_of(n.op) == host::ControlFlow::If || !has_kernels(g)) return;
  std::vector<ValueId> outputs(g.outputs.begin(), g.outputs.end());
  for (size_t i = carried_of(n, g).output; i < outputs.size(); ++i) {
    const ValueId v = outputs[i];
    const bool computed = g.value(v).producer != nullptr &&
                          std::find(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(i),
                                    v) == outputs.begin() + static_cast<ptrdiff_t>(i);
    if (computed) continue;
    graph::NodeSpec copy = ops::reshape_node(g.value(v).shape);
    copy.name = g.unique_name(g.value(v).name + "/copy");
    copy.inputs = {v};
    outputs[i] = g.add_value(copy.name, g.value(v).dtype, g.value(v).shape);
    copy.outputs = {outputs[i]};
    if (i < g.output_names.size()) g.output_names[i] = copy.name;
    g.add_node(std::move(copy));
  }
  g.set_outputs(std::move(outputs));
}

bool is_kernel(const lower::Group& group) {
  return lower::has_kernels(group);
}

}  // namespace

DeviceBodies::DeviceBodies() = default;
DeviceBodies::~DeviceBodies() = default;

Status DeviceBodies::prepare(CompileContext& context) {
  options_ = context.options;
  // These are about the model's own kernels and passes.
  options_.fusion_decisions.reset();
  options_.on_pass = nullptr;
  options_.progress = nullptr;
  options_.on_kernel_ir = nullptr;
  if (options_.hooks) {  // those of graphs are for the model's
    auto own = std::make_shared<CompileHooks>(*options_.hooks);
    own->graph = nullptr;
    options_.hooks = std::move(own);
  }
  return prepare_graph(context);
}

Status DeviceBodies::prepare_graph(CompileContext& context) {
  for (const auto& n : context.model.nodes()) {
    if (n->subgraphs.empty()) continue;
    RP_ASSIGN(Use use, prepare_node(context, *n));
    uses_.emplace(n.get(), std::move(use));
  }
  return {};
}

Result<DeviceBodies::Use> DeviceBodies::prepare_node(CompileContext& context, const Node& n) {
  const size_t first = entries_.size();
  Use use;
  bool any_kernel = false;
  for (const auto& [label, body] : n.subgraphs) {
    use.reason = why_host(n, *body);
    if (!use.reason.empty()) break;
    const Status added = add_entry(context, n, label, *body);
    if (!added.ok()) {
      if (added.code() == Code::Internal) return added;
      use.reason = "the device cannot run its " + label + ": " + added.message();
      break;
    }
    const Entry& entry = *entries_.back();
    any_kernel =
        any_kernel || std::any_of(entry.fusion.groups.begin(), entry.fusion.groups.end(),
                                  [this](const lower::Group& group) {
                                    const Use* inner = of(*group.nodes[0]);
                                    return is_kernel(group) || (inner && !inner->bodies.empty());
                                  });
    use.bodies.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  if (use.reason.empty() && !any_kernel) use.reason = "its bodies have no kernel";
  if (use.reason.empty()) return use;
  std::move(entries_.begin() + static_cast<std::ptrdiff_t>(first), entries_.end(),
            std::back_inserter(unused_));
  entries_.resize(first);
  use.bodies.clear();
  return use;
}

Status DeviceBodies::add_entry(CompileContext& context, const Node& n, const std::string& label,
                               const Graph& body) {
  auto entry = std::make_unique<Entry>();
  entry->graph = body.clone();
  Graph& g = *entry->graph;
  capture_constants(context.model, n, g);
  entry->form.name = label + " of node '" + n.name + "'";
  entry->options = options_;
  if (options_.on_kernel) {
    entry->options.on_kernel = [outer = options_.on_kernel, name = entry->form.name](
                                   const std::string& variant, const std::string& kernel,
                                   const std::string& ir, const std::vector<uint32_t>& spirv,
                                   const std::string& cuda) {
      outer(variant + " " + name, kernel, ir, spirv, cuda);
    };
  }
  if (options_.choose_schedule) {
    entry->options.choose_schedule = [outer = options_.choose_schedule,
                                      first = first_site(entries_.size())](ScheduleSite site) {
      site.number += first;
      return outer(site);
    };
  }
  entry->context = std::make_unique<CompileContext>(g, context, entry->options, entry->report);
  passes::PassReport report;
  RP_TRY(run_passes(*entry->context, report));
  write_results(n, g);
  ops::resolve_guards(g);
  set_sources(g);
  package::DeviceBody& form = entry->form;
  form.io = body_interface(g);
  form.captures = captured_inputs(n, g);
  form.inherited_symbols = g.inherited_symbols;
  RP_TRY(prepare_graph(*entry->context));
  RP_ASSIGN(entry->fusion, lower::fuse(g, fusion_options(*entry->context)));
  entries_.push_back(std::move(entry));
  return {};
}

void DeviceBodies::share(const Graph& model, std::shared_ptr<const Graph> copy) {
  auto to = copy->nodes().begin();
  for (const auto& n : model.nodes()) {
    if (const Use* use = of(*n)) uses_.insert_or_assign(to->get(), Use(*use));
    ++to;
  }
  copies_.push_back(std::move(copy));
}

const DeviceBodies::Use* DeviceBodies::of(const Node& n) const {
  const auto at = uses_.find(&n);
  return at == uses_.end() ? nullptr : &at->second;
}

Status DeviceBodies::require_no_host(const lower::Fusion& fusion) const {
  for (const lower::Group& group : fusion.groups) {
    if (is_kernel(group)) continue;
    const Node& n = *group.nodes[0];
    const Use* use = of(n);
    if (use && !use->bodies.empty()) {
      for (const uint32_t b : use->bodies) RP_TRY(require_no_host(entries_[b]->fusion));
      continue;
    }
    return unsupported("fullgraph: node '" + n.name + "' (" + n.op +
                       ") would run on the host: " + (use ? use->reason : group.host_reason) +
                       "; compile without --fullgraph to allow it")
        .about(n.origins);
  }
  return {};
}

}  // namespace reprise
