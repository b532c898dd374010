#include "runtime/weights/weights.h"

#include <algorithm>

#include "runtime/plan/bind.h"
#include "runtime/weights/packer.h"

namespace reprise {
namespace {

std::string subject(const plan::Weight& w) {
  return "weight '" + w.name + "'";
}

}  // namespace

Result<HostTensor> load_weight(const package::Package& package, const plan::Weight& w) {
  auto raw = package::load_weight(package, w.segment);
  if (!raw.ok()) return raw.status().with_context(subject(w));
  return raw;
}

Status check_recipe(const plan::Weight& w, const HostTensor& raw) {
  RP_TRY(w.packing.check().with_context(subject(w)));
  if (w.packing.is_raw()) return {};
  int64_t count = 1;
  for (const int64_t dim : w.packing.dims) count *= dim;
  const bool fits = count == raw.count() && size_of(raw.dtype()) > 0 &&
                    (w.packing.bits == 0 || bits_of(raw.dtype()) == w.packing.bits);
  if (fits) return {};
  return corrupt_package(subject(w) + ": packing " + w.packing.str() + " does not fit " +
                         describe(raw.dtype(), raw.dims()));
}

Status check_weight(const package::Package& package, const plan::Plan& plan,
                    const plan::Buffer& buffer) {
  const plan::Weight& w = plan.weights[static_cast<size_t>(buffer.index)];
  if (w.segment >= package.weights.size()) {
    return corrupt_package(subject(w) + ": segment " + std::to_string(w.segment) + " of " +
                           std::to_string(package.weights.size()));
  }
  const HostTensor& raw = package.weights[w.segment];
  RP_ASSIGN(auto dims, plan::eval_dims({}, buffer.shape, {}, buffer.name));
  RP_ASSIGN(const int64_t count, checked_element_count(dims, buffer.dtype));
  if (raw.dtype() == buffer.dtype && raw.count() == count) return {};
  return corrupt_package(subject(w) + " is " + describe(raw.dtype(), raw.dims()) +
                         ", the plan expects " + describe(buffer.dtype, dims));
}

Result<HostTensor> raw_weight(const package::Package& package, const plan::Plan& plan,
                              const plan::Buffer& buffer) {
  RP_TRY(check_weight(package, plan, buffer));
  RP_ASSIGN(const HostTensor raw,
            load_weight(package, plan.weights[static_cast<size_t>(buffer.index)]));
  RP_ASSIGN(auto dims, plan::eval_dims({}, buffer.shape, {}, buffer.name));
  return raw.reshaped(std::move(dims));
}

Status HostWeights::load(const package::Package& package, const plan::Plan& plan) {
  for (const plan::Step& step : plan.steps) {
    const auto* call = std::get_if<plan::HostCall>(&step.what);
    if (!call) continue;
    for (const plan::BufferId b : call->inputs) {
      if (!b.is_none() && plan.buffers[b].kind == plan::BufferKind::Weight)
        RP_TRY(get(package, plan, b).status());
    }
  }
  return {};
}

Result<HostTensor> HostWeights::get(const package::Package& package, const plan::Plan& plan,
                                    plan::BufferId buffer) const {
  const std::lock_guard lock(mutex_);
  known_.resize(plan.buffers.size());
  std::optional<HostTensor>& known = known_[buffer];
  if (!known) {
    RP_ASSIGN(known, raw_weight(package, plan, plan.buffers[buffer]));
  }
  return *known;
}

Status pack_weight(const plan::Weight& w, const HostTensor& raw, std::span<std::byte> out) {
  RP_TRY(check_recipe(w, raw));
  WeightPacker(w.packing, size_of(raw.dtype())).add(0, raw.bytes(), out);
  return {};
}

}  // namespace reprise
