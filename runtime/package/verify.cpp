// Checks that the parts of a package fit each other; plan::verify() checks each plan.
#include <algorithm>

#include "runtime/cuda_arch.h"
#include "runtime/host/control_flow_kind.h"
#include "runtime/package/code_store.h"
#include "runtime/package/decode.h"
#include "runtime/package/image.h"

namespace reprise::package {
namespace {

Status check_weight(const Package& p, const plan::Plan& plan, const plan::Buffer& b) {
  const plan::Weight& w = plan.weights[static_cast<size_t>(b.index)];
  const std::string where = "weight '" + w.name + "'";
  if (w.segment >= p.weights.size()) {
    return invalid_model(where + ": segment " + std::to_string(w.segment) + " does not exist");
  }
  const HostTensor& raw = p.weights[w.segment];
  const auto count = checked_element_count(static_dims(b.shape), b.dtype);
  if (!count.ok()) return count.status().with_context(where);
  const bool tiles = w.packing == plan::Weight::Packing::Tiles;
  if (raw.dtype() != b.dtype || raw.count() != *count || (tiles && w.batch * w.k * w.n != *count)) {
    return invalid_model(where + ": the plan expects " + describe(b.dtype, static_dims(b.shape)) +
                         ", segment " + std::to_string(w.segment) + " is " +
                         describe(raw.dtype(), raw.dims()));
  }
  return {};
}

/// Checks the bodies of a call in a plan whose symbols are those of `io`. They are among the first
/// `count` of the package.
Status check_bodies(const Package& p, const plan::Interface& io, const plan::HostCall& call,
                    size_t count) {
  const size_t expected = host::body_count(host::control_flow_of(call.op));
  const std::string where = "node '" + call.node + "' (" + call.op + ")";
  if (call.bodies.size() != expected)
    return invalid_model(where + " has " + std::to_string(call.bodies.size()) +
                         " bodies instead of " + std::to_string(expected));
  for (const uint32_t b : call.bodies) {
    if (b >= count) return invalid_model(where + ": body " + std::to_string(b) + " does not exist");
    const plan::Body& body = p.bodies[b];
    if (body.inherited_symbols > io.symbols.size())
      return invalid_model(where + ": its body has symbols that it does not have");
    for (const uint32_t c : body.captures) {
      if (c >= call.inputs.size() || call.inputs[c].is_none())
        return invalid_model(where + ": its body captures input " + std::to_string(c) +
                             ", which does not exist");
    }
  }
  return {};
}

/// Checks a plan that may call the first `bodies` bodies of the package.
Status check_plan(const Package& p, const plan::Plan& plan, const plan::Interface& io,
                  size_t bodies) {
  RP_TRY(plan::verify(plan, io));
  for (const plan::Buffer& b : plan.buffers) {
    if (b.kind == plan::BufferKind::Weight) RP_TRY(check_weight(p, plan, b));
  }
  for (const plan::Step& step : plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (call != nullptr) RP_TRY(check_bodies(p, io, *call, bodies));
  }
  return {};
}

Status only_host_calls(const plan::Plan& plan) {
  const bool host = std::ranges::all_of(plan.steps, [](const plan::Step& s) {
    return std::holds_alternative<plan::HostCall>(s.what);
  });
  return host ? Status() : invalid_model("it launches a kernel");
}

Status check_body(const Package& p, size_t index) {
  const plan::Body& b = p.bodies[index];
  if (b.captures.size() > b.io.inputs.size())
    return invalid_model("it captures more values than it has inputs");
  if (b.inherited_symbols > b.io.symbols.size())
    return invalid_model("it inherits more symbols than it has");
  RP_TRY(only_host_calls(b.plan));
  return check_plan(p, b.plan, b.io, index);
}

Result<CudaArch> architecture(const Predicate& needs) {
  const auto arch = CudaArch::parse(needs.cuda_arch);
  if (arch) return *arch;
  return invalid_model("it is compiled for '" + needs.cuda_arch +
                       "', which is not an architecture of CUDA");
}

Status refer_to(const Package& p, uint32_t index, CodeForm form) {
  if (index == kNoCode || (p.code && p.code->has(index, form))) return {};
  return invalid_model("its code " + std::to_string(index) + " does not exist");
}

/// Checks the code of kernels. Stored code is checked when it is loaded.
Status check_code(const Package& p, const Variant& v) {
  const bool cuda = v.predicate.api == Api::Cuda;
  if (cuda) RP_TRY(architecture(v.predicate).status());
  if (v.stored.empty()) {
    for (const plan::KernelCode& k : v.plan.kernels) RP_TRY(verify_code(v.predicate, k));
    return {};
  }
  if (v.stored.size() != v.plan.kernels.size())
    return invalid_model(std::to_string(v.plan.kernels.size()) + " kernels have the code of " +
                         std::to_string(v.stored.size()));
  uint64_t bytes = 0;
  for (size_t k = 0; k < v.stored.size(); ++k) {
    const StoredCode& s = v.stored[k];
    const std::string where = "kernel '" + v.plan.kernels[k].name + "'";
    RP_TRY(refer_to(p, s.spirv, CodeForm::Spirv).with_context(where));
    RP_TRY(refer_to(p, s.cuda, CodeForm::Cuda).with_context(where));
    RP_TRY(refer_to(p, s.image, CodeForm::Image).with_context(where));
    if (cuda && s.image == kNoCode)
      return invalid_model(where + ": it has no image for " + v.predicate.cuda_arch);
    if (p.code) bytes += p.code->bytes(s.spirv) + p.code->bytes(s.cuda) + p.code->bytes(s.image);
  }
  if (bytes <= kMaxVariantCodeBytes) return {};
  return invalid_model("its kernels claim " + std::to_string(bytes) + " bytes of code, of " +
                       std::to_string(kMaxVariantCodeBytes) + " at most");
}

Status check_probes(const Variant& v) {
  if (v.probes.empty()) return {};
  if (v.probes.size() != v.plan.kernels.size()) {
    return invalid_model(std::to_string(v.probes.size()) + " probes are for " +
                         std::to_string(v.plan.kernels.size()) + " kernels");
  }
  for (uint32_t k = 0; k < v.probes.size(); ++k) RP_TRY(plan::verify_probe(v.plan, k, v.probes[k]));
  return {};
}

}  // namespace

Status verify_code(const Predicate& needs, const plan::KernelCode& k) {
  const std::string where = "kernel '" + k.name + "'";
  RP_TRY(plan::verify_spirv(k.spirv).with_context(where));
  if (needs.api != Api::Cuda) return {};
  RP_ASSIGN(const CudaArch arch, architecture(needs));
  const Status s = k.image.empty() ? invalid_model("it has no image for " + arch.str())
                   : arch.ptx      ? check_ptx(k.image)
                                   : check_cubin(k.image);
  return s.with_context(where);
}

Status verify(const Package& p) {
  for (size_t b = 0; b < p.bodies.size(); ++b)
    RP_TRY(check_body(p, b).with_context("body " + std::to_string(b) + ", " + p.bodies[b].name));
  RP_TRY(check_plan(p, p.host_plan, p.io, p.bodies.size()).with_context("host plan"));
  RP_TRY(only_host_calls(p.host_plan).with_context("host plan"));
  for (const Variant& v : p.variants) {
    RP_TRY(check_plan(p, v.plan, p.io, p.bodies.size()).with_context("variant '" + v.name + "'"));
    RP_TRY(check_probes(v).with_context("variant '" + v.name + "'"));
    RP_TRY(check_code(p, v).with_context("variant '" + v.name + "'"));
  }
  return {};
}

}  // namespace reprise::package
