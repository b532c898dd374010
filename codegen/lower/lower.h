// Fused group -> kernel. The schedule is a pure function of the group's shapes and the target's
// facts.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/kernel.h"
#include "codegen/lower/evaluator.h"
#include "codegen/lower/group.h"
#include "codegen/lower/target.h"

namespace reprise::lower {

/// A buffer parameter of a kernel.
struct LoweredBuffer {
  graph::ValueId value = graph::kNone;  // may be kNone for scratch memory
  std::optional<size_t> scratch;        // index into Lowered::scratch; unset: the memory of `value`
  bool writes = false;
  bool packed = false;  // in the form of the PackedOperand of this buffer
};

/// A weight that the kernel reads in a packed form (plan::Weight::Packing::Tiles).
struct PackedOperand {
  int buffer = -1;  // index into LoweredLaunch::buffers
  int64_t batch = 1, k = 0, n = 0;
  uint32_t tile_n = 0;
  bool transposed = false;
};

/// A form that a kernel can be written in.
struct ScheduleCandidate {
  std::string schedule;
  double cost = 0;  // estimated; comparable among the candidates of one kernel
};
/// The cost of the candidate numbered `i` where no model estimates times: the order is a
/// preference.
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
  /// Kernels that LowerOnce gave the same number are equal.
  std::optional<size_t> number = std::nullopt;
};

/// A group as kernels. Most groups are one launch. A group of several passes partial results from
/// one to the next in scratch memory.
struct Lowered {
  std::vector<LoweredLaunch> launches;  // in an order in which they may run; never empty
  std::vector<ScratchBuffer> scratch;
  std::string schedule;
  /// Every form that the group's schedules offer, the best estimate first. Empty where nothing is
  /// computed.
  std::vector<ScheduleCandidate> choices;
};

/// `choice`: index into Lowered::choices, past its end an error. `form`: Long only where
/// needs_long_form() is not always 0.
Result<Lowered> lower(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      size_t choice = 0, LoopForm form = LoopForm::Short);
/// 1 at sizes that the kernel's long form is for, since the short form's loops are longer than the
/// target's devices execute. 0 at all others, and where there is no long form.
Expr needs_long_form(const graph::Graph& g, const Lowered& short_form, const Group& group,
                     const TargetFacts& target);

/// Whether the group's values can be computed with its anchor's and reductions' results available
/// at their own index only: what fusion asks before it admits a node. Does not depend on a target.
Status check(const graph::Graph& g, const Group& group);

// --- schedules: one file each ---
Result<Lowered> lower_pointwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice = 0,
                                LoopForm form = LoopForm::Short);
Result<Lowered> lower_row(const graph::Graph& g, const Group& group, const TargetFacts& target,
                          size_t choice = 0, LoopForm form = LoopForm::Short);
Status check_row(const graph::Graph& g, const Group& group);

// --- shared by schedules ---
/// Writes the candidate numbered `choice` and reports them all. A Candidate has describe() and
/// cost.
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
/// Linear workgroup count -> grid within 65,535 per dimension.
std::array<Expr, 3> linear_grid(const Expr& groups);
/// Linear id of the workgroup in such a grid.
Value linear_workgroup(kernel::Builder& b, const Expr& groups);
/// Linear id of the invocation, with one-dimensional workgroups of `workgroup`.
Value linear_invocation(kernel::Builder& b, const Expr& groups, uint32_t workgroup);
/// Binds the anchor's result at `index` (over the group's domain) and stores every output there.
Status store_result(Evaluator& ev, const Group& group, const Index& index, kernel::Val result,
                    int lanes);
/// Before the first loop: what the target's drivers ask of loops.
void limit_loops(Evaluator& ev, const TargetFacts& target, LoopForm form = LoopForm::Short);
Result<Lowered> finish(Evaluator& ev, kernel::Builder& b, const Group& group, const Expr& groups,
                       std::string schedule);

}  // namespace reprise::lower
