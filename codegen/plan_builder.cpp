#include "codegen/plan_builder.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/emit/spirv/spirv.h"
#include "codegen/kernel/share.h"
#include "runtime/host/host_kernels.h"

namespace reprise {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

double ms_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count();
}

/// Buffers of a plan by the graph's values.
class Buffers {
 public:
  Buffers(const Graph& g, plan::Plan& p, WeightStore& weights)
      : g_(g), p_(p), weights_(weights), told_(plan::told_by_inputs(g.symbol_sources)) {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      add(g.inputs[i], plan::BufferKind::Input, static_cast<int32_t>(i));
    }
    // A value that is an output twice, an input or a constant is copied into its other slots.
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const ValueId v = g.outputs[i];
      const bool own = by_value_.count(v) == 0 && !g.value(v).constant;
      if (own) {
        add(v, plan::BufferKind::Output, static_cast<int32_t>(i));
        continue;
      }
      const plan::BufferId from = of(v);
      const auto id = static_cast<plan::BufferId>(p.buffers.size());
      p.buffers.push_back({g.output_name(i), plan::BufferKind::Output, static_cast<int32_t>(i),
                           g.value(v).dtype, g.value(v).shape});
      p.aliases.push_back({from, id});
    }
  }

  plan::BufferId of(ValueId v) {
    if (v == kNone) return -1;
    if (auto it = by_value_.find(v); it != by_value_.end()) return it->second;
    const graph::Value& value = g_.value(v);
    if (!value.constant) return add(v, intermediate(value.shape), -1);
    plan::Weight w;
    w.name = value.name;
    w.segment = weights_.add(*value.constant);
    p_.weights.push_back(std::move(w));
    return add(v, plan::BufferKind::Weight, static_cast<int32_t>(p_.weights.size()) - 1);
  }

  /// A constant in the packed form that a kernel reads.
  plan::BufferId packed(ValueId v, const lower::PackedOperand& form) {
    const auto key = std::make_tuple(v, form.batch, form.k, form.n, form.tile_n, form.transposed);
    if (auto it = packed_.find(key); it != packed_.end()) return it->second;
    const graph::Value& value = g_.value(v);
    plan::Weight w;
    w.name = value.name;
    w.segment = weights_.add(*value.constant);
    w.packing = plan::Weight::Packing::Tiles;
    w.batch = form.batch;
    w.k = form.k;
    w.n = form.n;
    w.tile_n = form.tile_n;
    w.transposed = form.transposed;
    p_.weights.push_back(std::move(w));
    const auto id = static_cast<plan::BufferId>(p_.buffers.size());
    p_.buffers.push_back({value.name, plan::BufferKind::Weight,
                          static_cast<int32_t>(p_.weights.size()) - 1, graph::storage_of(value),
                          value.shape});
    packed_.emplace(key, id);
    return id;
  }

  /// Memory of one launch, shaped as v and rounded no more than registers are.
  plan::BufferId scratch(ValueId v) {
    const graph::Value& value = g_.value(v);
    p_.buffers.push_back(
        {value.name + " (kept)", intermediate(value.shape), -1, value.dtype, value.shape});
    return static_cast<plan::BufferId>(p_.buffers.size()) - 1;
  }

 private:
  plan::BufferId add(ValueId v, plan::BufferKind kind, int32_t index) {
    const graph::Value& value = g_.value(v);
    const auto id = static_cast<plan::BufferId>(p_.buffers.size());
    p_.buffers.push_back({value.name, kind, index, graph::storage_of(value), value.shape});
    by_value_[v] = id;
    return id;
  }

  /// Sizes that only the run can tell cannot share the arena.
  plan::BufferKind intermediate(const Shape& shape) const {
    std::vector<SymbolId> symbols;
    for (const Expr& e : shape) e.collect_symbols(symbols);
    const bool told = std::all_of(symbols.begin(), symbols.end(),
                                  [&](SymbolId s) { return told_[static_cast<size_t>(s)]; });
    return told ? plan::BufferKind::Arena : plan::BufferKind::Growable;
  }

  const Graph& g_;
  plan::Plan& p_;
  WeightStore& weights_;
  std::vector<bool> told_;  // by symbol
  std::map<ValueId, plan::BufferId> by_value_;
  std::map<std::tuple<ValueId, int64_t, int64_t, int64_t, uint32_t, bool>, plan::BufferId> packed_;
};

plan::HostCall host_call(const Node& n, Buffers& buffers, std::string reason) {
  plan::HostCall call;
  call.op = n.op;
  call.node = n.name;
  call.opset = n.opset;
  call.attrs = n.attrs;
  call.reason = std::move(reason);
  for (ValueId v : n.inputs) call.inputs.push_back(buffers.of(v));
  for (ValueId v : n.outputs) call.outputs.push_back(buffers.of(v));
  return call;
}

Status require_host_kernel(const Node& n) {
  const bool standard = n.domain.empty() || n.domain == "ai.onnx";
  if (n.subgraphs.empty() && standard && host::find(n.op) != nullptr) return {};
  return unsupported("node '" + n.name + "' (" + n.op +
                     ") has neither a device nor a host kernel; replace the operator in the model");
}

/// A kernel may use what its variant's predicate asks of a device, and nothing else.
Status covered(const kernel::Requirements& need, const Predicate& p, const std::string& kernel) {
  const struct {
    bool needed, promised;
    const char* name;
  } features[] = {
      {need.int64, p.needs_int64, "64-bit integers"},
      {need.float16, p.needs_float16, "fp16 arithmetic"},
      {need.float64, false, "64-bit floats"},
      {need.storage8, p.needs_storage8, "8-bit storage"},
      {need.storage16, p.needs_storage16, "16-bit storage"},
      {need.subgroup_arithmetic, p.needs_subgroup_arithmetic, "subgroup arithmetic"},
      {need.subgroup_shuffle, p.needs_subgroup_shuffle, "subgroup shuffles"},
      {need.subgroup_extended_types, p.needs_subgroup_extended_types,
       "subgroup operations on 64-bit integers and fp16"},
      {need.matrix && need.matrix != p.matrix, false, "cooperative matrices"},
      {need.subgroup_size != 0 && need.subgroup_size != p.subgroup_size, false,
       "another subgroup size"},
      {need.workgroup_invocations > p.workgroup_invocations, false, "larger workgroups"},
      {need.shared_bytes > p.shared_bytes, false, "more shared memory"},
  };
  for (const auto& f : features) {
    if (!f.needed || f.promised) continue;
    return internal_error("kernel '" + kernel + "' needs " + f.name +
                          ", which its variant does not ask for");
  }
  return {};
}

/// Kernels of one variant. Launches share those that are equal, or equal but for numbers.
class KernelTable {
 public:
  KernelTable(plan::Plan& p, const lower::Target& target, const CompileOptions& options)
      : p_(p), target_(target), options_(options) {}

  /// Takes the kernel of the plan's next step.
  Status add(kernel::Kernel k, LowerReport& report) {
    const auto start = std::chrono::steady_clock::now();
    kernel::LegalizeFor features;
    features.int64 = target_.predicate.needs_int64;
    features.float16 = target_.predicate.needs_float16;
    features.word_loads = target_.wide_loads;
    features.storage8 = target_.predicate.needs_storage8;
    features.storage16 = target_.predicate.needs_storage16;
    RP_TRY(kernel::legalize(k, features).with_context("kernel '" + k.name + "'"));
    kernel::simplify(k);
    kernels_.push_back(std::move(k));
    steps_.push_back(p_.steps.size());
    report.legalize_ms += ms_since(start);
    return {};
  }

  /// Gives the launches their kernels.
  Status finish(LowerReport& report) {
    const auto start = std::chrono::steady_clock::now();
    RP_ASSIGN(kernel::SharedKernels shared, kernel::share(kernels_));
    for (kernel::Kernel& k : shared.kernels) RP_TRY(emit(std::move(k)));
    for (size_t i = 0; i < steps_.size(); ++i) {
      auto& launch = std::get<plan::Launch>(p_.steps[steps_[i]].what);
      launch.kernel = static_cast<uint32_t>(shared.uses[i].kernel);
      launch.scalars.insert(launch.scalars.end(), shared.uses[i].scalars.begin(),
                            shared.uses[i].scalars.end());
    }
    report.emit_ms += ms_since(start);
    return {};
  }

  /// Those of the plan, in order, where they are to be probed.
  std::vector<kernel::Kernel> take_emitted() { return std::move(emitted_); }

 private:
  Status emit(kernel::Kernel k) {
    k.name = unique(k.name);
    plan::KernelCode code;
    code.name = k.name;
    code.workgroup = k.workgroup;
    code.n_buffers = static_cast<uint32_t>(k.buffers.size());
    code.n_scalars = static_cast<uint32_t>(k.scalars.size());
    const kernel::Requirements need = kernel::requirements(k);
    RP_TRY(covered(need, target_.predicate, k.name));
    code.shared_bytes = need.shared_bytes;
    code.subgroup_size = need.subgroup_size;
    const bool for_cuda = target_.predicate.api == Api::Cuda;
    if (for_cuda) {
      RP_ASSIGN(code.cuda, emit::cuda(k));
    } else {
      emit::SpirvOptions spirv_options;
      spirv_options.wide_loads = target_.wide_loads;
      spirv_options.pointer_casts = target_.predicate.needs_int64;
      RP_ASSIGN(code.spirv, emit::spirv(k, spirv_options));
    }
    if (options_.on_kernel) {
      // A schedule for subgroups of another size is never chosen for CUDA.
      const bool shown = k.required_subgroup_size == 0 || k.required_subgroup_size == 32;
      std::string text = code.cuda;
      if (!for_cuda && shown) {
        RP_ASSIGN(text, emit::cuda(k));
      }
      options_.on_kernel(target_.name, k.name, kernel::print(k), code.spirv, text);
    }
    if (options_.on_kernel_ir) options_.on_kernel_ir(target_.name, k);
    p_.kernels.push_back(std::move(code));
    if (options_.probes) emitted_.push_back(std::move(k));
    return {};
  }

  std::string unique(const std::string& base) {
    std::string name = base;
    for (int i = 2; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return name;
  }

  plan::Plan& p_;
  const lower::Target& target_;
  const CompileOptions& options_;
  std::vector<kernel::Kernel> kernels_;
  std::vector<size_t> steps_;  // parallel to the kernels
  std::vector<kernel::Kernel> emitted_;
  std::set<std::string> names_;
};

std::vector<std::string> origins_of(const lower::Group& group) {
  std::vector<std::string> out;
  for (const Node* n : group.nodes) {
    for (const std::string& o : n->origins) {
      if (std::find(out.begin(), out.end(), o) == out.end()) out.push_back(o);
    }
  }
  return out;
}

Result<plan::Launch> make_launch(const lower::Group& group, lower::Lowered lowered,
                                 Buffers& buffers, KernelTable& kernels, LowerReport& report) {
  plan::Launch launch;
  launch.group = lowered.kernel.name;
  launch.schedule = lowered.schedule;
  launch.grid = lowered.grid;
  launch.scalars = lowered.scalars;
  launch.nodes = origins_of(group);
  for (const lower::LoweredBuffer& b : lowered.buffers) {
    launch.buffers.push_back(b.packed    ? -1
                             : b.scratch ? buffers.scratch(b.value)
                                         : buffers.of(b.value));
    launch.writes.push_back(b.writes);
  }
  for (const lower::PackedOperand& p : lowered.packed) {
    const auto i = static_cast<size_t>(p.buffer);
    launch.buffers[i] = buffers.packed(lowered.buffers[i].value, p);
  }
  RP_TRY(kernels.add(std::move(lowered.kernel), report));
  return launch;
}

}  // namespace

uint32_t WeightStore::add(const HostTensor& t) {
  const uint64_t hash = package::hash_bytes(t.bytes());
  auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const HostTensor& w = package_.weights[it->second];
    if (w.dtype() == t.dtype() && w.dims() == t.dims() && w.bytes().size() == t.bytes().size() &&
        std::equal(w.bytes().begin(), w.bytes().end(), t.bytes().begin())) {
      return it->second;
    }
  }
  const auto index = static_cast<uint32_t>(package_.weights.size());
  package_.weights.push_back(t);
  package_.weight_hashes.push_back(hash);
  by_hash_.emplace(hash, index);
  return index;
}

plan::Interface make_interface(const Graph& g) {
  plan::Interface io;
  io.symbols = g.symbols;
  io.sources = g.symbol_sources;
  for (ValueId v : g.inputs)
    io.inputs.push_back({g.value(v).name, g.value(v).dtype, g.value(v).shape});
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const graph::Value& v = g.value(g.outputs[i]);
    io.outputs.push_back({g.output_name(i), v.dtype, v.shape});
  }
  io.guards.assign(g.guards.begin(), g.guards.end());
  return io;
}

void adopt_interface(const plan::Interface& io, plan::Plan& p) {
  for (plan::Buffer& b : p.buffers) {
    if (b.kind == plan::BufferKind::Input) b.shape = io.inputs[static_cast<size_t>(b.index)].shape;
    if (b.kind == plan::BufferKind::Output)
      b.shape = io.outputs[static_cast<size_t>(b.index)].shape;
  }
}

Result<plan::Plan> build_host_plan(const Graph& g, WeightStore& weights) {
  plan::Plan p;
  Buffers buffers(g, p, weights);
  for (const auto& n : g.nodes()) {
    RP_TRY(require_host_kernel(*n));
    plan::Step step;
    step.what = host_call(*n, buffers, "reference");
    p.steps.push_back(std::move(step));
  }
  plan::compute_hazards(p, g.symbol_sources);
  return p;
}

namespace {

/// The group's kernel by the schedule that the options choose.
Result<lower::Lowered> lower_chosen(const Graph& g, const lower::Group& group,
                                    const lower::Target& target, const CompileOptions& options,
                                    size_t launch, LowerReport& report) {
  RP_ASSIGN(lower::Lowered first, lower::lower(g, group, target));
  if (first.choices.size() < 2) return first;
  ScheduleQuestion question{target.name, kernel_name(group), launch, {}, first.choices};
  size_t choice = 0;
  if (options.choose_schedule) {
    std::string text = kernel::print(first.kernel);
    for (const Expr& e : first.grid) text += " " + e.str(g.symbols);
    for (const Expr& e : first.scalars) text += " " + e.str(g.symbols);
    const uint64_t hash = package::hash_bytes(std::as_bytes(std::span(text)));
    question.key = target.name + "-" + std::to_string(hash);
    choice = options.choose_schedule(question);
  }
  report.schedules.push_back({std::move(question), choice});
  if (choice == 0) return first;
  return lower::lower(g, group, target, choice);
}

}  // namespace

Result<plan::Plan> build_device_plan(const Graph& g, const lower::Fusion& fusion,
                                     const lower::Target& target, WeightStore& weights,
                                     const CompileOptions& options, LowerReport& report,
                                     const lower::Group** failed) {
  size_t launches = 0;
  plan::Plan p;
  Buffers buffers(g, p, weights);
  KernelTable kernels(p, target, options);
  for (const lower::Group& group : fusion.groups) {
    plan::Step step;
    if (group.kind == lower::GroupKind::Host) {
      RP_TRY(require_host_kernel(*group.nodes[0]));
      step.what = host_call(*group.nodes[0], buffers, group.host_reason);
    } else {
      const auto start = std::chrono::steady_clock::now();
      auto lowered = lower_chosen(g, group, target, options, launches++, report);
      report.lower_ms += ms_since(start);
      *failed = &group;
      if (!lowered.ok())
        return lowered.status().with_context("kernel '" + kernel_name(group) + "'");
      if (options.plant_in_kernel) options.plant_in_kernel(group, *lowered);
      RP_ASSIGN(auto launch, make_launch(group, std::move(*lowered), buffers, kernels, report));
      *failed = nullptr;
      step.what = std::move(launch);
    }
    p.steps.push_back(std::move(step));
  }
  RP_TRY(kernels.finish(report));
  const auto start = std::chrono::steady_clock::now();
  plan::compute_hazards(p, g.symbol_sources);
  report.plan_ms += ms_since(start);
  report.kernels = kernels.take_emitted();
  return p;
}

}  // namespace reprise
