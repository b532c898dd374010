#include "codegen/compile/kernel_table.h"

#include <numeric>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/kernel/build/guard.h"
#include "codegen/kernel/ir/share.h"
#include "codegen/plan/batch_launches.h"
#include "runtime/base/timing.h"
#include "runtime/platform/parallel.h"

namespace reprise {

namespace {

/// Checks that a kernel uses only what its variant's predicate requires of a device.
Status covered(const kernel::Requirements& need, const Predicate& p, const std::string& kernel) {
  const struct {
    bool needed, promised;
    const char* name;
  } features[] = {
      {need.int64, p.needs_int64, "64-bit integers"},
      {need.float16, p.needs_float16, "fp16 arithmetic"},
      {need.float64, p.needs_float64, "fp64 arithmetic"},
      {need.storage8, p.needs_storage8, "8-bit storage"},
      {need.storage16, p.needs_storage16, "16-bit storage"},
      {need.subgroup_arithmetic, p.needs_subgroup_arithmetic, "subgroup arithmetic"},
      {need.subgroup_shuffle, p.needs_subgroup_shuffle, "subgroup shuffles"},
      {need.subgroup_extended_types, p.needs_subgroup_extended_types,
       "subgroup operations on 64-bit integers and fp16"},
      {need.exact_halves, p.api == Api::Cuda || p.needs_exact_halves,
       "fp16 conversions that round to nearest"},
      {need.async_copies, shaders::TargetFacts::has_async_copies(p), "asynchronous copies"},
      {need.matrix_elements, shaders::TargetFacts::has_matrix_elements(p), "elements of matrices"},
      {need.views != 0, shaders::TargetFacts(p).has_teams(), "copies of boxes"},
      {bool(need.matrix), contains(p.matrices, need.matrix), "cooperative matrices"},
      {need.subgroup_size != 0 && need.subgroup_size != p.subgroup_size, false,
       "another subgroup size"},
      {need.workgroup_invocations > p.workgroup_invocations, false, "larger workgroups"},
      {need.shared_bytes > p.shared_bytes, false, "more shared memory"},
  };
  for (const auto& f : features) {
    if (!f.needed || f.promised) continue;
    return internal_error("kernel '" + kernel + "' needs " + f.name +
                          ", which its variant does not require");
  }
  return {};
}

}  // namespace

kernel::LegalizeFor legalized_for(const lower::Target& target) {
  kernel::LegalizeFor out;
  out.int64 = target.predicate.needs_int64;
  out.float16 = target.predicate.needs_float16;
  out.word_loads = target.loads_64_bits;
  out.storage8 = target.predicate.needs_storage8;
  out.storage16 = target.predicate.needs_storage16;
  out.exact = target.predicate.api == Api::Cuda;
  out.exact_halves = out.exact || target.predicate.needs_exact_halves;
  out.long_vectors = target.predicate.api == Api::Cuda;
  out.joins_accesses = !target.cpu_type();
  return out;
}

Status KernelTable::add(size_t step, PendingKernel&& pending) {
  const auto start = Clock::now();
  auto& [k, number, group, commits] = pending;
  if (number) {
    const auto [known, is_new] = numbered_.try_emplace(*number, kernels_.size());
    uses_.push_back({step, known->second, group});
    if (!is_new) return {};
  } else {
    uses_.push_back({step, kernels_.size(), group});
  }
  RP_TRY(context_.kernels.legalize(k, number, legalized_for(target_)));
  if (commits) kernel::guard(k);
  std::get<plan::Launch>(p_.steps[step].what).commits = commits;
  kernels_.push_back(std::move(k));
  context_.times.legalize += ms_since(start);
  return {};
}

Status KernelTable::share() {
  RP_ASSIGN(kernel::SharedKernels shared, kernel::share(std::move(kernels_)));
  kernels_ = std::move(shared.kernels);
  for (const Use& u : uses_) {
    const kernel::SharedUse& use = shared.uses[u.kernel];
    auto& launch = std::get<plan::Launch>(p_.steps[u.step].what);
    launch.kernel = static_cast<uint32_t>(use.kernel);
    launch.checks = kernel::records_errors(kernels_[use.kernel]);
    launch.scalars.insert(launch.scalars.end(), use.scalars.begin(), use.scalars.end());
  }
  return {};
}

/// Removes kernels that no step launches.
void KernelTable::drop_unused() {
  constexpr uint32_t kUnused = ~uint32_t{0};
  std::vector<uint32_t> position(kernels_.size(), kUnused);
  std::vector<kernel::Kernel> kept;
  for (plan::Step& step : p_.steps)
    if (const auto* launch = std::get_if<plan::Launch>(&step.what)) position[launch->kernel] = 0;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (position[i] == kUnused) continue;
    position[i] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(kernels_[i]));
  }
  for (plan::Step& step : p_.steps)
    if (auto* launch = std::get_if<plan::Launch>(&step.what))
      launch->kernel = position[launch->kernel];
  kernels_ = std::move(kept);
}

Result<std::vector<uint32_t>> KernelTable::merge() {
  const auto start = Clock::now();
  RP_TRY(share());
  std::vector<uint32_t> position(p_.steps.size());
  std::iota(position.begin(), position.end(), 0U);
  // A launch of several items takes the addresses of its buffers from an array.
  const bool addresses = target_.predicate.storage_buffers == 0;
  if (addresses && !context_.disabled(kBatchPass)) {
    const int64_t fewest = std::max<int64_t>(context_.passes.number(kBatchPass, "fewest"), 0);
    RP_ASSIGN(position, batch_launches(p_, kernels_, context_.model.symbol_sources,
                                       static_cast<size_t>(fewest)));
    drop_unused();
  }
  for (Use& u : uses_) {
    u.step = position[u.step];
    u.kernel = std::get<plan::Launch>(p_.steps[u.step].what).kernel;
  }
  context_.times.lower += ms_since(start);
  return position;
}

Status KernelTable::emit(const lower::Group** failed) {
  const auto start = Clock::now();
  // Devices that cannot begin a launch early find nothing of it in their code.
  const bool early = target_.predicate.api == Api::Cuda && !context_.disabled(kEarlyLaunches);
  for (kernel::Kernel& k : kernels_) {
    k.name = unique(k.name);
    if (early) kernel::begin_early(k);
  }
  const size_t n = kernels_.size();
  std::vector<plan::KernelCode> codes(n);
  std::vector<std::string> structures(n);
  std::vector<Status> done(n);
  RP_TRY(in_parallel(n, context_.options.threads, "kernels were emitted", [&](size_t i) {
    structures[i] = kernel::structure(kernels_[i]);
    done[i] = emit(kernels_[i], structures[i], codes[i]);
  }));
  for (size_t i = 0; i < n; ++i) {
    if (!done[i].ok()) {
      for (const Use& u : uses_)
        if (u.kernel == i) *failed = u.group;
      return std::move(done[i]);
    }
    RP_TRY(show(kernels_[i], codes[i]));
  }
  p_.kernels = std::move(codes);
  for (size_t i = 0; i < n && context_.options.probes; ++i)
    emitted_.push_back({std::move(kernels_[i]), std::move(structures[i])});
  context_.times.emit += ms_since(start);
  return {};
}

Status KernelTable::emit(const kernel::Kernel& k, const std::string& structure,
                         plan::KernelCode& code) {
  code.name = k.name;
  code.workgroup = k.workgroup;
  code.n_buffers = static_cast<uint32_t>(k.buffers.size());
  code.n_scalars = static_cast<uint32_t>(k.scalars.size());
  for (const kernel::View& v : k.views) code.views.push_back(v.tensor);
  const kernel::Requirements need = kernel::requirements(k);
  RP_TRY(covered(need, target_.predicate, k.name));
  code.shared_bytes = need.shared_bytes;
  code.subgroup_size = need.subgroup_size;
  code.early = need.early;
  if (target_.predicate.api == Api::Cuda) {
    RP_ASSIGN(code.cuda, emit::cuda(k));
  } else {
    emit::SpirvOptions spirv_options;
    spirv_options.loads_64_bits = target_.loads_64_bits;
    spirv_options.keeps_loops = target_.predicate.cpu_type;
    spirv_options.descriptors = target_.predicate.storage_buffers != 0;
    RP_ASSIGN(code.spirv, context_.kernels.spirv(k, structure, spirv_options));
  }
  return {};
}

Status KernelTable::show(const kernel::Kernel& k, const plan::KernelCode& code) {
  if (context_.options.on_kernel_ir) context_.options.on_kernel_ir(target_.name, k);
  if (!context_.options.on_kernel) return {};
  // CUDA never gets a schedule for another subgroup size, or with matrices of a workgroup, so such
  // a kernel has no CUDA text.
  const bool shown = (k.required_subgroup_size == 0 || k.required_subgroup_size == 32) &&
                     kernel::requirements(k).matrix.scope != MmaScope::Workgroup;
  std::string text = code.cuda;
  if (target_.predicate.api != Api::Cuda && shown) {
    RP_ASSIGN(text, emit::cuda(k));
  }
  context_.options.on_kernel(target_.name, k.name, kernel::print(k), code.spirv, text);
  return {};
}

std::string KernelTable::unique(const std::string& base) {
  std::string name = base;
  for (int i = 2; !names_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
  return name;
}

}  // namespace reprise
