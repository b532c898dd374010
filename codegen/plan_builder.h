// Groups -> plan: buffers, weights, kernels shared between launches, steps with hazards.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/kernel_cache.h"
#include "codegen/lower/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/lower/lower_once.h"

namespace reprise {

/// The raw tensors of a package, shared by all its plans.
class WeightStore {
 public:
  explicit WeightStore(package::Package& p) : package_(p) {}
  /// Index of the segment with these bytes; added if there is none.
  uint32_t add(const HostTensor& t);

 private:
  package::Package& package_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
  /// By their memory, which the package keeps: variants use the same tensors again and again.
  std::map<std::pair<const std::byte*, size_t>, uint32_t> by_memory_;
};

/// The package's interface: names, dtypes, shapes and symbols of the model.
plan::Interface make_interface(const graph::Graph& g);

/// Gives a plan of the same model the interface's dims, which may be other expressions for the same
/// sizes.
void adopt_interface(const plan::Interface& io, plan::Plan& p);

/// The imported graph as host calls, one per node: the reference.
Result<plan::Plan> build_host_plan(const graph::Graph& g, WeightStore& weights);

/// Time spent, summed over the groups of all variants, and what was chosen for them.
struct LowerReport {
  double lower_ms = 0, legalize_ms = 0, emit_ms = 0, plan_ms = 0, probe_ms = 0;
  std::vector<ScheduleChoice> schedules;
  std::vector<BrokenGroup> broken;
  std::vector<kernel::Kernel> kernels;  // of the plan that was built last, if probes are wanted
};

/// What the plans of all variants have in common.
struct PlanContext {
  const graph::Graph& g;
  const CompileOptions& options;
  WeightStore& weights;
  lower::LowerOnce& lowerings;
  KernelCache& kernels;
  LowerReport& report;
};

/// Puts a fault of the compiler, around which it has found a way, into the report and the log.
/// `effect` comes before the message.
void report_fault(PlanContext& context, BrokenGroup fault, const std::string& effect = {});

/// The plan of one variant. Where a group's kernel cannot be written, `failed` becomes the group.
Result<plan::Plan> build_device_plan(PlanContext& context, const lower::Fusion& fusion,
                                     const lower::Target& target, const lower::Group** failed);

}  // namespace reprise
