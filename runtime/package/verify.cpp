// Checks that the parts of a package fit each other; plan::verify() checks each plan.
#include <algorithm>

#include "runtime/facts/cuda_arch.h"
#include "runtime/host/control_flow_kind.h"
#include "runtime/package/code_store.h"
#include "runtime/package/decode.h"
#include "runtime/package/image.h"
#include "runtime/package/joined.h"

namespace reprise::package {
namespace {

Status check_weight(const Package& p, const plan::Plan& plan, const plan::Buffer& b) {
  const plan::Weight& w = plan.weights[static_cast<size_t>(b.index)];
  const std::string where = "weight '" + w.name + "'";
  if (w.segment >= p.weights.size()) {
    return corrupt_package(where + ": segment " + std::to_string(w.segment) + " does not exist");
  }
  const HostTensor& raw = p.weights[w.segment];
  const auto count = checked_element_count(static_dims(b.shape), b.dtype);
  if (!count.ok()) return count.status().with_context(where);
  int64_t packed = 1;
  for (const int64_t dim : w.packing.dims) packed *= dim;
  if (raw.dtype() != b.dtype || raw.count() != *count ||
      (!w.packing.is_raw() && packed != *count)) {
    return corrupt_package(where + ": the plan expects " + describe(b.dtype, static_dims(b.shape)) +
                           ", segment " + std::to_string(w.segment) + " is " +
                           describe(raw.dtype(), raw.dims()));
  }
  return {};
}

/// How deep bodies may nest, because each level takes memory on the stack of the thread that runs
/// it.
constexpr size_t kMaxNesting = 64;

/// The bodies that a plan may call: the first ones of the package and of its variant, and how deep
/// each of them nests.
struct Callable {
  std::span<const plan::Body> host;
  std::span<const size_t> host_depth;
  std::span<const DeviceBody> device = {};
  std::span<const size_t> device_depth = {};
};

/// Checks that a body fits the call. `B` is plan::Body or DeviceBody.
template <typename B>
Status check_body_of(const plan::HostCall& call, const plan::Interface& io, const B& body) {
  if (body.inherited_symbols > io.symbols.size())
    return corrupt_package("its body has symbols that it does not have");
  for (const uint32_t c : body.captures) {
    if (c >= call.inputs.size() || call.inputs[c].is_none())
      return corrupt_package("its body captures input " + std::to_string(c) +
                             ", which does not exist");
  }
  return {};
}

/// Checks the bodies of a call in a plan whose symbols are those of `io`. `depth` becomes at least
/// that of its bodies.
template <typename B>
Status check_bodies(const plan::HostCall& call, const plan::Interface& io,
                    const std::vector<uint32_t>& list, std::span<const B> bodies,
                    std::span<const size_t> depths, size_t& depth) {
  const size_t expected = host::body_count(host::control_flow_of(call.op));
  if (list.size() != expected)
    return corrupt_package("it has " + std::to_string(list.size()) + " bodies instead of " +
                           std::to_string(expected));
  for (const uint32_t b : list) {
    if (b >= bodies.size()) return corrupt_package("body " + std::to_string(b) + " does not exist");
    RP_TRY(check_body_of(call, io, bodies[b]));
    depth = std::max(depth, depths[b]);
  }
  return {};
}

/// Checks a plan that may call these bodies. Returns how deep bodies nest in it.
Result<size_t> check_plan(const Package& p, const plan::Plan& plan, const plan::Interface& io,
                          const Callable& bodies) {
  RP_TRY(plan::verify(plan, io));
  for (const plan::Buffer& b : plan.buffers) {
    if (b.kind == plan::BufferKind::Weight) RP_TRY(check_weight(p, plan, b));
  }
  size_t depth = 0;
  for (const plan::Step& step : plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (call == nullptr) continue;
    const std::string where = "node '" + call->node + "' (" + call->op + ")";
    RP_TRY(check_bodies(*call, io, call->bodies, bodies.host, bodies.host_depth, depth)
               .with_context(where));
    if (call->device_bodies.empty()) continue;
    RP_TRY(check_bodies(*call, io, call->device_bodies, bodies.device, bodies.device_depth, depth)
               .with_context(where + ", on the device"));
  }
  if (++depth > kMaxNesting)
    return corrupt_package("bodies nest deeper than " + std::to_string(kMaxNesting) + " levels");
  return depth;
}

Status only_host_calls(const plan::Plan& plan) {
  const bool host = std::ranges::all_of(plan.steps, [](const plan::Step& s) {
    return std::holds_alternative<plan::HostCall>(s.what);
  });
  return host ? Status() : corrupt_package("it launches a kernel");
}

/// Checks that the initial values of states exist and fit.
Status check_states(const Package& p) {
  for (const plan::StateSlot& s : p.io.states) {
    if (s.initial == plan::StateSlot::kZeros) continue;
    const std::string where = "state '" + s.name + "'";
    if (s.grows()) return corrupt_package(where + " grows, but does not begin without rows");
    if (s.initial >= p.weights.size())
      return corrupt_package(where + ": segment " + std::to_string(s.initial) + " does not exist");
    const HostTensor& raw = p.weights[s.initial];
    if (raw.dtype() == s.dtype && raw.dims() == static_dims(s.shape)) continue;
    return corrupt_package(where + ": its initial value is " + describe(raw.dtype(), raw.dims()) +
                           ", not " + describe(s.dtype, static_dims(s.shape)));
  }
  return {};
}

/// Checks that the values of inputs that runs may leave out exist and fit, and that the values for
/// which the model was compiled do.
Status check_input_values(const Package& p) {
  for (const plan::Slot& s : p.io.inputs) {
    const std::string where = "input '" + s.name + "'";
    const Expr count = element_count(s.shape);
    if (!s.expected.empty() && !count.is_const(static_cast<int64_t>(s.expected.size())))
      return corrupt_package(where + ": its values do not fit its shape");
    if (s.initial == plan::Slot::kNone) continue;
    if (s.initial >= p.weights.size())
      return corrupt_package(where + ": segment " + std::to_string(s.initial) + " does not exist");
    const HostTensor& raw = p.weights[s.initial];
    if (raw.dtype() == s.dtype && raw.dims().size() == s.shape.size()) continue;
    return corrupt_package(where + ": its value is " + describe(raw.dtype(), raw.dims()) +
                           ", not " + std::string(name_of(s.dtype)) + " of rank " +
                           std::to_string(s.shape.size()));
  }
  return {};
}

/// Checks what a body states about itself.
template <typename B>
Status check_captures(const B& b) {
  if (b.captures.size() > b.io.inputs.size())
    return corrupt_package("it captures more values than it has inputs");
  if (b.inherited_symbols > b.io.symbols.size())
    return corrupt_package("it inherits more symbols than it has");
  if (!b.io.states.empty()) return corrupt_package("it has states, which only a model has");
  return {};
}

/// Checks all bodies on the host. Returns how deep each of them nests.
Result<std::vector<size_t>> check_host_bodies(const Package& p) {
  std::vector<size_t> depths;
  for (size_t i = 0; i < p.bodies.size(); ++i) {
    const plan::Body& b = p.bodies[i];
    const std::string where = "body " + std::to_string(i) + ", " + b.name;
    RP_TRY(check_captures(b).with_context(where));
    RP_TRY(only_host_calls(b.plan).with_context(where));
    const auto depth = check_plan(p, b.plan, b.io, {std::span(p.bodies).first(i), depths});
    if (!depth.ok()) return depth.status().with_context(where);
    depths.push_back(*depth);
  }
  return depths;
}

Result<CudaArch> architecture(const Predicate& needs) {
  const auto arch = CudaArch::parse(needs.cuda_arch);
  if (arch) return *arch;
  return corrupt_package("it is compiled for '" + needs.cuda_arch +
                         "', which is not an architecture of CUDA");
}

Status refer_to(const Package& p, uint32_t index, CodeForm form) {
  if (index == kNoCode || (p.code && p.code->has(index, form))) return {};
  return corrupt_package("its code " + std::to_string(index) + " does not exist");
}

/// Checks the code of kernels. Stored code is checked when it is loaded.
/// `bytes` are those of the code of the whole variant so far.
Status check_code(const Package& p, const CompiledPlan& v, uint64_t& bytes) {
  const bool cuda = v.predicate.api == Api::Cuda;
  if (cuda) RP_TRY(architecture(v.predicate).status());
  if (v.stored.empty()) {
    for (const plan::KernelCode& k : v.plan.kernels) RP_TRY(verify_code(v.predicate, k));
    return {};
  }
  if (v.stored.size() != v.plan.kernels.size())
    return corrupt_package(std::to_string(v.plan.kernels.size()) + " kernels have the code of " +
                           std::to_string(v.stored.size()));
  for (size_t k = 0; k < v.stored.size(); ++k) {
    const StoredCode& s = v.stored[k];
    const std::string where = "kernel '" + v.plan.kernels[k].name + "'";
    RP_TRY(refer_to(p, s.spirv, CodeForm::Spirv).with_context(where));
    RP_TRY(refer_to(p, s.cuda, CodeForm::Cuda).with_context(where));
    RP_TRY(refer_to(p, s.image, CodeForm::Image).with_context(where));
    if (cuda && s.image == kNoCode)
      return corrupt_package(where + ": it has no image for " + v.predicate.cuda_arch);
    if (p.code) bytes += p.code->bytes(s.spirv) + p.code->bytes(s.cuda) + p.code->bytes(s.image);
  }
  if (bytes <= kMaxVariantCodeBytes) return {};
  return corrupt_package("its kernels claim " + std::to_string(bytes) + " bytes of code, of " +
                         std::to_string(kMaxVariantCodeBytes) + " at most");
}

Status check_probes(const CompiledPlan& v) {
  if (v.probes.empty()) return {};
  if (v.probes.size() != v.plan.kernels.size()) {
    return corrupt_package(std::to_string(v.probes.size()) + " probes are for " +
                           std::to_string(v.plan.kernels.size()) + " kernels");
  }
  for (uint32_t k = 0; k < v.probes.size(); ++k) RP_TRY(plan::verify_probe(v.plan, k, v.probes[k]));
  return {};
}

/// Checks the sizes that a plan serves: each symbol is that of an input's dim, so that it has its
/// value before a run chooses its plan.
Status check_sizes(const SizedPlan& s, const plan::Interface& io) {
  std::vector<bool> seen(io.symbols.size(), false);
  for (const SymbolValues& v : s.sizes) {
    const auto i = static_cast<size_t>(v.symbol);
    if (v.symbol < 0 || i >= seen.size() || seen[i] ||
        io.sources[i].kind != SymbolSource::Kind::InputDim)
      return corrupt_package("symbol " + std::to_string(v.symbol) + " cannot choose it");
    if (v.min < 0 || v.min > v.max)
      return corrupt_package("'" + io.symbols[i].name + "' has no value from " +
                             std::to_string(v.min) + " to " + std::to_string(v.max));
    seen[i] = true;
  }
  return s.sizes.empty() ? corrupt_package("it serves all sizes") : Status();
}

Status check_variant(const Package& p, const Variant& v, std::span<const size_t> host_depths) {
  std::vector<size_t> depths;
  uint64_t code_bytes = 0;
  for (size_t i = 0; i < v.bodies.size(); ++i) {
    const DeviceBody& b = v.bodies[i];
    const std::string where = "body " + std::to_string(i) + ", " + b.name;
    if (!(b.predicate == v.predicate))
      return corrupt_package("it is for other devices than its variant").with_context(where);
    RP_TRY(check_captures(b).with_context(where));
    const auto depth =
        check_plan(p, b.plan, b.io, {p.bodies, host_depths, std::span(v.bodies).first(i), depths});
    if (!depth.ok()) return depth.status().with_context(where);
    depths.push_back(*depth);
    RP_TRY(check_probes(b).with_context(where));
    RP_TRY(check_code(p, b, code_bytes).with_context(where));
  }
  const Callable callable{p.bodies, host_depths, v.bodies, depths};
  RP_TRY(check_plan(p, v.plan, p.io, callable).status());
  RP_TRY(check_probes(v));
  RP_TRY(check_code(p, v, code_bytes));
  if (v.plans.size() > kMostPlans)
    return corrupt_package("it has " + std::to_string(v.plans.size()) + " plans");
  for (size_t i = 0; i < v.plans.size(); ++i) {
    const SizedPlan& s = v.plans[i];
    const std::string where = "plan " + std::to_string(i + 1);
    if (!(s.predicate == v.predicate))
      return corrupt_package("it is for other devices than its variant").with_context(where);
    RP_TRY(check_plan(p, s.plan, p.io, callable).status().with_context(where));
    RP_TRY(check_sizes(s, p.io).with_context(where));
    RP_TRY(check_probes(s).with_context(where));
    RP_TRY(check_code(p, s, code_bytes).with_context(where));
  }
  return {};
}

}  // namespace

Status verify_code(const Predicate& needs, const plan::KernelCode& k) {
  const std::string where = "kernel '" + k.name + "'";
  RP_TRY(plan::verify_spirv(k.spirv).with_context(where));
  if (needs.api != Api::Cuda) return {};
  RP_ASSIGN(const CudaArch arch, architecture(needs));
  const Status s = k.image.empty() ? corrupt_package("it has no image for " + arch.str())
                   : arch.ptx      ? check_ptx(k.image)
                                   : check_cubin(k.image);
  return s.with_context(where);
}

namespace {

Status verify_parts(const Package& p) {
  RP_TRY(check_joined(p));
  RP_ASSIGN(const std::vector<size_t> depths, check_host_bodies(p));
  RP_TRY(check_plan(p, p.host_plan, p.io, {p.bodies, depths}).status().with_context("host plan"));
  RP_TRY(only_host_calls(p.host_plan).with_context("host plan"));
  RP_TRY(check_states(p));
  RP_TRY(check_input_values(p));
  for (const Variant& v : p.variants)
    RP_TRY(check_variant(p, v, depths).with_context("variant '" + v.name + "'"));
  return {};
}

}  // namespace

Status verify(const Package& p) {
  return as_corrupt(verify_parts(p));
}

}  // namespace reprise::package
