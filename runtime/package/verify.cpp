// What ties the parts of a package together, beyond each plan's own rules.
#include <algorithm>

#include "runtime/cuda_arch.h"
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

Status check_plan(const Package& p, const plan::Plan& plan) {
  RP_TRY(plan::verify(plan, p.io));
  for (const plan::Buffer& b : plan.buffers) {
    if (b.kind == plan::BufferKind::Weight) RP_TRY(check_weight(p, plan, b));
  }
  return {};
}

/// Drivers are given images as they are.
Status check_images(const Variant& v) {
  if (v.predicate.api != Api::Cuda) return {};
  const auto arch = CudaArch::parse(v.predicate.cuda_arch);
  if (!arch) {
    return invalid_model("it is compiled for '" + v.predicate.cuda_arch +
                         "', which is not an architecture of CUDA");
  }
  for (const plan::KernelCode& k : v.plan.kernels) {
    const Status s = k.image.empty() ? invalid_model("it has no image for " + arch->str())
                     : arch->ptx     ? check_ptx(k.image)
                                     : check_cubin(k.image);
    RP_TRY(s.with_context("kernel '" + k.name + "'"));
  }
  return {};
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

Status verify(const Package& p) {
  RP_TRY(check_plan(p, p.host_plan).with_context("host plan"));
  for (const plan::Step& s : p.host_plan.steps) {
    if (!std::holds_alternative<plan::HostCall>(s.what)) {
      return invalid_model("host plan: it launches a kernel");
    }
  }
  for (const Variant& v : p.variants) {
    RP_TRY(check_plan(p, v.plan).with_context("variant '" + v.name + "'"));
    RP_TRY(check_probes(v).with_context("variant '" + v.name + "'"));
    RP_TRY(check_images(v).with_context("variant '" + v.name + "'"));
  }
  return {};
}

}  // namespace reprise::package
