#include "apps/bisect/launch_alone.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "codegen/interpreter/interpreter.h"
#include "runtime/base/align.h"
#include "runtime/plan/bind.h"
#include "runtime/weights/weights.h"

namespace reprise::app {

namespace {

using graph::ValueId;

// A kernel's result may differ from the host's by this many times the change that random rounding
// errors cause in the host's result. A kernel rounds at other places than the host, and more often
// in long sums.
constexpr double kSlack = 32;

bool is_scratch(const Compiled& compiled, plan::BufferId id) {
  const plan::Buffer& b = compiled.plan().buffers[id];
  return b.kind != plan::BufferKind::Weight && compiled.values.count(b.name) == 0;
}

/// The launch of a step and, before it, those whose scratch memory it reads.
std::vector<const plan::Launch*> with_scratch(const Compiled& compiled, size_t step) {
  std::vector<const plan::Launch*> out;
  std::set<plan::BufferId> wanted;
  for (size_t s = step + 1; s-- > 0;) {
    const auto* launch = std::get_if<plan::Launch>(&compiled.plan().steps[s].what);
    if (launch == nullptr) continue;
    bool is_needed = s == step;
    for (size_t i = 0; i < launch->buffers.size(); ++i)
      is_needed |= launch->writes[i] && wanted.count(launch->buffers[i]) > 0;
    if (!is_needed) continue;
    out.insert(out.begin(), launch);
    for (size_t i = 0; i < launch->buffers.size(); ++i) {
      if (!launch->writes[i] && is_scratch(compiled, launch->buffers[i]))
        wanted.insert(launch->buffers[i]);
    }
  }
  return out;
}

/// Builds a plan with launches of fixed sizes and its own buffers.
class Isolation {
 public:
  Isolation(const Compiled& compiled, const Values& values)
      : from_(compiled.plan()),
        values_(values),
        ids_(compiled.values),
        package_(std::make_shared<package::Package>()) {
    const package::Package& p = *compiled.package;
    package_->model_name = p.model_name;
    package_->weights = p.weights;
    package_->stored_weights = p.stored_weights;
    package_->explanation.precision = p.explanation.precision;
    package_->variants.push_back(p.variants.front());
    package_->variants.front().plan = {};
  }

  Result<LaunchAlone> run(const std::vector<const plan::Launch*>& launches) {
    plan::Plan& to = package_->variants.front().plan;
    to.weights = from_.weights;
    for (const plan::Launch* launch : launches) RP_TRY(add(to, *launch));
    plan::compute_hazards(to, {});
    out_.package = package_;
    return std::move(out_);
  }

 private:
  Status add(plan::Plan& to, const plan::Launch& launch) {
    plan::Launch own = launch;
    const auto next = static_cast<uint32_t>(to.kernels.size());
    const auto [kernel, is_new] = kernels_.emplace(launch.kernel, next);
    own.kernel = kernel->second;
    if (is_new) to.kernels.push_back(from_.kernels[launch.kernel]);
    for (Expr& e : own.grid) RP_TRY(fix(e));
    for (Expr& e : own.scalars) RP_TRY(fix(e));
    RP_TRY(fix(own.iterations));
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const plan::BufferId b = launch.buffers[i];
      if (known_.count(b) == 0) {
        RP_ASSIGN(known_[b], add(to, from_.buffers[b], launch.writes[i]));
      }
      own.buffers[i] = known_[b];
    }
    to.steps.push_back({std::move(own), {}, 0});
    return {};
  }

  Status fix(Expr& e) const {
    RP_ASSIGN(const int64_t v, e.eval(values_.symbols));
    e = v;
    return {};
  }

  Result<plan::BufferId> add(plan::Plan& to, plan::Buffer b, bool written) {
    for (Expr& e : b.shape) RP_TRY(fix(e));
    const auto value = ids_.find(b.name);
    if (b.kind == plan::BufferKind::Weight) {
      // Unchanged.
    } else if (value == ids_.end()) {
      b.kind = plan::BufferKind::Arena;  // memory that only the launch uses
    } else {
      RP_TRY(bind(b, value->second, written));
    }
    return to.buffers.push_back(std::move(b));
  }

  Status bind(plan::Buffer& b, ValueId v, bool written) {
    if (!values_.has(v)) return internal_error("tensor '" + b.name + "' has no value on the host");
    std::vector<plan::Slot>& slots = written ? package_->io.outputs : package_->io.inputs;
    HostTensor t = to_storage(values_.at(v), b.dtype);
    b.kind = written ? plan::BufferKind::Output : plan::BufferKind::Input;
    b.index = static_cast<int32_t>(slots.size());
    b.shape.assign(t.dims().begin(), t.dims().end());
    slots.push_back({b.name, b.dtype, b.shape});
    if (written) {
      out_.writes.push_back(v);
      out_.expected.push_back(std::move(t));
    } else {
      out_.reads.push_back(v);
      out_.inputs.names.push_back(b.name);
      out_.inputs.tensors.push_back(std::move(t));
    }
    return {};
  }

  const plan::Plan& from_;
  const Values& values_;
  const std::unordered_map<std::string, ValueId>& ids_;
  std::shared_ptr<package::Package> package_;
  // Of the isolated plan, by those of the plan.
  std::map<plan::BufferId, plan::BufferId> known_;
  std::map<uint32_t, uint32_t> kernels_;
  LaunchAlone out_;
};

}  // namespace

Result<Compiled> compile_graph(const graph::Graph& model, const CompileOptions& options) {
  Compiled out;
  CompileOptions own = options;
  own.on_pass = [&](const std::string& pass, const graph::Graph& g) {
    out.passes.emplace_back(pass, g.clone());
  };
  own.on_kernel_ir = [&](const std::string&, const kernel::Kernel& k) {
    out.kernels.emplace(k.name, k);
  };
  RP_ASSIGN(package::Package package, compile(model.clone(), own, &out.report));
  out.package = std::make_shared<package::Package>(std::move(package));
  out.optimised = out.passes.empty() ? model.clone() : out.passes.back().second->clone();
  for (const ValueId v : out.optimised->values().ids())
    out.values.emplace(out.optimised->value(v).name, v);
  return out;
}

bool writes_only_scratch(const Compiled& compiled, const plan::Launch& launch) {
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    if (launch.writes[i] && !is_scratch(compiled, launch.buffers[i])) return false;
  }
  return true;
}

Result<LaunchAlone> isolate(const Compiled& compiled, size_t step, const Values& values) {
  return Isolation(compiled, values).run(with_scratch(compiled, step));
}

namespace {

using Memory = IdVector<plan::BufferId, std::vector<std::byte>>;

Status interpret(const plan::Launch& launch, const kernel::Kernel& kernel, Memory& memory) {
  kernel::Launch run;
  for (const plan::BufferId b : launch.buffers) run.buffers.emplace_back(memory[b]);
  for (const Expr& e : launch.scalars) run.scalars.push_back(static_cast<uint32_t>(e.value()));
  for (size_t d = 0; d < 3; ++d) run.grid[d] = static_cast<uint32_t>(launch.grid[d].value());
  if (run.grid[0] == 0 || run.grid[1] == 0 || run.grid[2] == 0) return {};
  RP_ASSIGN(const kernel::Outcome outcome, kernel::interpret(kernel, run));
  if (outcome.error != kernel::ErrorCode::None)
    return internal_error("the kernel reports an error in its data");
  return {};
}

}  // namespace

Result<std::vector<HostTensor>> interpret(const LaunchAlone& alone,
                                          const std::map<std::string, kernel::Kernel>& kernels) {
  const plan::Plan& p = alone.plan();
  Memory memory(p.buffers.size());
  for (const plan::BufferId b : p.buffers.ids()) {
    const plan::Buffer& buffer = p.buffers[b];
    RP_ASSIGN(const uint64_t bytes, plan::eval_bytes(alone.package->io, buffer, {}, {}));
    memory[b].assign(bytes, std::byte{0x7f});
    std::span<const std::byte> given;
    if (buffer.kind == plan::BufferKind::Input)
      given = alone.inputs.tensors[static_cast<size_t>(buffer.index)].bytes();
    std::copy(given.begin(), given.end(), memory[b].begin());
    if (buffer.kind != plan::BufferKind::Weight) continue;
    const plan::Weight& w = p.weights[static_cast<size_t>(buffer.index)];
    RP_ASSIGN(const HostTensor raw, package::load_weight(*alone.package, w.segment));
    memory[b].resize(align_up(w.packing.packed_bytes(raw.bytes().size(), size_of(raw.dtype())), 4));
    RP_TRY(pack_weight(w, raw, memory[b]));
  }
  for (size_t step = 0; step < p.steps.size(); ++step) {
    const plan::Launch& launch = alone.launch(step);
    const auto kernel = kernels.find(p.kernels[launch.kernel].name);
    if (kernel == kernels.end()) return unsupported("the kernel's IR is not known");
    RP_TRY(interpret(launch, kernel->second, memory));
  }
  std::vector<HostTensor> out;
  for (const HostTensor& t : alone.expected) out.emplace_back(t.dtype(), t.dims());
  for (const plan::BufferId b : p.buffers.ids()) {
    if (p.buffers[b].kind != plan::BufferKind::Output) continue;
    const auto to = out[static_cast<size_t>(p.buffers[b].index)].mutable_bytes();
    std::copy_n(memory[b].begin(), to.size(), to.begin());
  }
  return out;
}

Status Slack::grow(const std::vector<HostTensor>& expected, const Values& exact,
                   const Recompute& recompute, int trials, double least_unit) {
  std::vector<std::vector<double>> right;
  right.reserve(expected.size());
  for (const HostTensor& t : expected) right.push_back(to_double(t));
  if (outputs_.empty()) {
    for (const std::vector<double>& r : right) outputs_.emplace_back(r.size(), 0);
  }
  for (; trials_ < trials; ++trials_) {
    Noise noise(static_cast<uint64_t>(trials_), exact, least_unit);
    RP_ASSIGN(const std::vector<HostTensor> moved, recompute(noise));
    for (size_t o = 0; o < expected.size(); ++o) {
      const std::vector<double> now = to_double(moved[o]);
      if (now.size() != right[o].size()) {
        // Data-dependent sizes changed, so elements cannot be compared.
        std::ranges::fill(outputs_[o], std::numeric_limits<double>::infinity());
        continue;
      }
      for (size_t i = 0; i < now.size(); ++i)
        outputs_[o][i] = std::max(outputs_[o][i], kSlack * element_error(now[i], right[o][i]));
    }
  }
  return {};
}

Result<Comparison> LaunchJudge::judge(const LaunchAlone& alone,
                                      const std::vector<HostTensor>& actual) const {
  const auto recompute = [&](Noise& noise) -> Result<std::vector<HostTensor>> {
    const std::vector<const graph::Node*> nodes = host_.between(alone.reads, alone.writes);
    Values moved = values_;
    RP_TRY(host_.run(nodes, moved, &noise));
    std::vector<HostTensor> out;
    for (size_t i = 0; i < alone.writes.size(); ++i)
      out.push_back(to_storage(moved.at(alone.writes[i]), alone.expected[i].dtype()));
    return out;
  };
  Slack slack;
  Comparison worst;
  for (size_t o = 0; o < actual.size(); ++o) {
    const HostTensor& expected = alone.expected[o];
    const Tolerance t = tolerance_in(precision_, Rule::Model, expected.dtype());
    Comparison c = compare(actual[o], expected, t);
    if (!c.ok) {
      RP_TRY(slack.grow(alone.expected, values_, recompute, Slack::kFew));
      c = compare(actual[o], expected, t, slack.of(o));
    }
    if (!c.ok) c.reason = "'" + g_.value(alone.writes[o]).name + "': " + c.reason;
    const bool worse = c.ok == worst.ok ? c.max_error > worst.max_error : worst.ok;
    if (worse || o == 0) worst = std::move(c);
  }
  return worst;
}

}  // namespace reprise::app
