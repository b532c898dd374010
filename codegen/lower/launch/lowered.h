// A group as kernels with their arguments, and what all schedules share to write them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "codegen/lower/evaluate/evaluator.h"
#include "codegen/lower/group/group.h"
#include "codegen/lower/group/schedule_candidate.h"
#include "codegen/target/target.h"

namespace reprise::lower {

/// A buffer parameter of a kernel.
struct LoweredBuffer {
  graph::ValueId value = graph::kNone;  // may be kNone for scratch memory
  std::optional<size_t> scratch;        // index into Lowered::scratch; unset: memory of `value`
  bool writes = false;
  bool packed = false;  // laid out as the PackedOperand of this buffer says
};

/// A weight that the kernel reads in a packed form.
struct PackedOperand {
  plan::Packing packing;
  int buffer = -1;  // index into LoweredLaunch::buffers
};

/// The cost of candidate number `i` where no cost model exists. The order expresses a preference.
inline double preference_cost(size_t i) {
  return 1 + 0.1 * static_cast<double>(i);
}

/// How a kernel is written for a driver that limits loops.
enum class LoopForm : uint8_t {
  Short,  // fastest at the sizes that most runs have
  Long,   // slower, for loops that are longer than the short form may execute
};

/// One kernel of a group with its arguments.
struct LoweredLaunch {
  kernel::Kernel kernel;
  std::vector<LoweredBuffer> buffers;  // in the kernel's parameter order
  std::vector<PackedOperand> packed;
  std::vector<Expr> scalars;  // over the graph's symbols
  std::array<Expr, 3> grid;
  /// An upper bound on the iterations of all loops of an invocation together.
  Expr iterations = 0;
  /// Kernels with the same number, which LowerOnce assigns, are equal.
  std::optional<size_t> number = std::nullopt;
};

/// A group as kernels. Most groups are one launch. Where there are several, scratch memory passes
/// partial results from one to the next.
struct Lowered {
  std::vector<LoweredLaunch> launches;  // in execution order; never empty
  std::vector<ScratchBuffer> scratch;
  std::string schedule;
  /// The candidates for the group's schedule, cheapest first. Empty if the kernel computes nothing.
  std::vector<ScheduleCandidate> choices;
};

// --- shared by schedules ---
/// Writes candidate number `choice` and lists all of them in Lowered::choices. A Candidate has
/// describe() and cost.
template <typename Candidate, typename Write>
Result<Lowered> lower_choice(const std::vector<Candidate>& candidates, size_t choice,
                             const Write& write) {
  if (choice >= candidates.size()) {
    return internal_error("schedule " + std::to_string(choice) + " of " +
                          std::to_string(candidates.size()));
  }
  RP_ASSIGN(Lowered out, write(candidates[choice]));
  for (const Candidate& c : candidates) out.choices.push_back({c.describe(), c.cost});
  return out;
}
/// A grid of `groups` workgroups with at most 65,535 per dimension.
std::array<Expr, 3> linear_grid(const Expr& groups);
/// Linear id of the workgroup in such a grid.
Value linear_workgroup(kernel::Builder& b, const Expr& groups);
/// Linear id of the invocation, with one-dimensional workgroups of `workgroup`.
Value linear_invocation(kernel::Builder& b, const Expr& groups, uint32_t workgroup);
/// Runs `body` where a linear id, of an invocation or a workgroup, is below `units`. The grid has
/// others if `per_group` units of a workgroup do not divide them, or if it has a second dimension.
Status guard_units(Evaluator& ev, Value id, const Expr& units, int64_t per_group,
                   const std::function<Status()>& body);
/// The index into output v of the element at an index into the group's domain.
Index output_index(Evaluator& ev, const Group& group, graph::ValueId v, const Index& index);
/// Binds the anchor's result at `index` (over the group's domain).
void bind_result(Evaluator& ev, const Group& group, const Index& index, kernel::Val result);
/// The same, and stores every output there.
Status store_result(Evaluator& ev, const Group& group, const Index& index, kernel::Val result,
                    int lanes);
/// Applies the loop limits of the target's drivers. Call before the first loop.
void limit_loops(Evaluator& ev, const TargetFacts& target, LoopForm form = LoopForm::Short);
Result<Lowered> finish(Evaluator& ev, kernel::Builder& b, const Group& group, const Expr& groups,
                       std::string schedule);

}  // namespace reprise::lower
