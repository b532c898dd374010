#include "codegen/lower/lower.h"

#include <algorithm>

#include "codegen/graph/symbol_ranges.h"
#include "codegen/lower/index_test.h"
#include "codegen/lower/kernels/kernels.h"
#include "codegen/lower/problems/attention.h"
#include "codegen/lower/problems/contraction.h"
#include "codegen/lower/problems/recurrent.h"
#include "codegen/lower/problems/row_values.h"

namespace reprise::lower {

using kernel::Builder;

namespace {

/// Whether no output has any element, whatever the dynamic dims are.
bool computes_nothing(const graph::Graph& g, const Group& group) {
  return std::ranges::all_of(
      group.outputs, [&](graph::ValueId v) { return element_count(g.value(v).shape).is_const(0); });
}

/// A kernel that is launched with no workgroups. Index arithmetic has no meaning if a dim is 0.
Result<Lowered> lower_nothing(const graph::Graph& g, const Group& group) {
  Builder b(kernel_name(group));
  Evaluator ev(g, group, b);
  for (const graph::ValueId v : group.outputs) ev.buffer(v);
  return finish(ev, b, group, 0, "nothing");
}

/// The lowering of a kind that has no long form.
template <auto kLower>
Result<Lowered> short_only(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice, LoopForm) {
  return kLower(g, group, target, choice);
}

Result<Lowered> lower_product(const graph::Graph& g, const Group& group, const TargetFacts& target,
                              size_t choice) {
  const bool matmul = def_of(*group.anchor)->lowering == ops::Lowering::MatMul;
  return matmul ? lower_matmul(g, group, target, choice) : lower_conv(g, group, target, choice);
}

/// A sort has one schedule.
Result<Lowered> lower_sort_only(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t) {
  return lower_sort(g, group, target);
}

/// So has the choice of tokens.
Result<Lowered> lower_sample_only(const graph::Graph& g, const Group& group,
                                  const TargetFacts& target, size_t) {
  return lower_sample(g, group, target);
}

void along_axis(const graph::Graph&, Group& group) {
  const ops::Attributes given(*group.anchor);
  if (given.declares("axis")) group.reduced = {given.get_int("axis")};
}

void over_axes(const graph::Graph& g, Group& group) {
  group.domain = g.value(group.anchor->inputs[0]).shape;
  group.reduced = ops::Attributes(*group.anchor).get_ints("axes");
}

/// The table, in the order of GroupKind.
constexpr GroupLowering kGroupLowerings[] = {
    {.name = "sort", .shape = along_axis, .lower = short_only<lower_sort_only>},
    {.name = "recurrent",
     .refusal = recurrent_refusal,
     .loads_operands_again = true,
     .lower = lower_recurrent,
     .has_long_form = true},
    {.name = "attention gradient",
     .loads_operands_again = true,
     .stores_ordered = true,
     .lower = short_only<lower_attention_grad>},
    {.name = "attention",
     .match = match_attention,
     .preferred_apart = attention_refusal,
     .unrolls_tiles = true,
     .loads_operands_again = true,
     .test_indices = test_attention,
     .lower = short_only<lower_attention>},
    {.name = "contraction",
     .begins = is_contraction,
     .rows_apart = rows_apart,
     .unrolls_tiles = true,
     .loads_operands_again = true,
     .test_indices = test_result,
     .lower = short_only<lower_product>},
    {.name = "row",
     .begins = is_reduction,
     .shape = over_axes,
     .reduces_rows = true,
     .loops_over_rows = true,
     .test_indices = test_rows,
     .lower = lower_row,
     .has_long_form = true},
    {.name = "scan",
     .begins = is_scan,
     .shape = along_axis,
     .loops_over_rows = true,
     .test_indices = test_scan,
     .lower = lower_scan,
     .has_long_form = true},
    {.name = "pointwise", .elementwise = true, .lower = lower_pointwise, .has_long_form = true},
    {.name = "sample", .refusal = sample_refusal, .lower = short_only<lower_sample_only>},
    {.name = "host"},
    {.name = "memory"},
};

struct GroupTable {
  std::vector<GroupLowering> rows{std::begin(kGroupLowerings), std::end(kGroupLowerings)};
  bool read = false;
};

GroupTable& group_table() {
  static GroupTable all;
  return all;
}

}  // namespace

std::span<const GroupLowering> group_lowerings() {
  static const bool read = group_table().read = true;
  (void)read;
  return group_table().rows;
}

const GroupLowering& row_of(GroupKind kind) {
  return group_lowerings()[static_cast<size_t>(kind)];
}

std::span<const GroupKind> kinds_by_preference() {
  static const std::vector<GroupKind> kinds = [] {
    const size_t count = group_lowerings().size(), own = std::size(kGroupLowerings);
    std::vector<GroupKind> out;
    for (size_t i = 0; i < count; ++i) out.push_back(static_cast<GroupKind>((own + i) % count));
    return out;
  }();
  return kinds;
}

std::optional<GroupKind> kind_begun_by(const graph::Node& n) {
  for (const GroupKind kind : kinds_by_preference()) {
    const GroupLowering& row = row_of(kind);
    const bool named = is_kernel_of_its_own(n) && def_of(n)->kernel == row.name;
    if (row.begins != nullptr ? row.begins(n) : named) return kind;
  }
  return std::nullopt;
}

Status add_group_lowerings(std::span<const GroupLowering> more) {
  constexpr size_t kMost = 256;
  GroupTable& table = group_table();
  if (table.read) return {Code::Usage, "lowerings must be added before the first compilation"};
  for (const GroupLowering& row : more) {
    const auto same = [&](const GroupLowering& other) { return other.name == row.name; };
    if (std::ranges::any_of(table.rows, same) || row.lower == nullptr || table.rows.size() == kMost)
      return {Code::Usage, "lowering '" + std::string(row.name) +
                               "' cannot be added: its name is taken, or it makes no kernels"};
    table.rows.push_back(row);
  }
  return {};
}

Status test_indices(const graph::Graph& g, const Group& group) {
  const auto test = row_of(group.kind).test_indices;
  return test == nullptr ? Status() : test(g, group);
}

Result<Lowered> lower(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      size_t choice, LoopForm form) {
  if (computes_nothing(g, group)) return lower_nothing(g, group);
  const auto write = row_of(group.kind).lower;
  if (write == nullptr) return internal_error("a host group has no kernel");
  return write(g, group, target, choice, form);
}

Expr needs_long_form(const graph::Graph& g, const Lowered& short_form, const Group& group,
                     const TargetFacts& target) {
  if (!target.cpu_type() || !row_of(group.kind).has_long_form) return 0;
  const Expr& iterations = short_form.launches[0].iterations;
  const Interval all = iterations.bounds(graph::symbol_ranges(g));
  if (!iterations.is_overflow() && all.max <= int64_t{kLeastLoopLimit}) return 0;
  return Expr::min(Expr::floordiv(iterations, int64_t{kLeastLoopLimit} + 1), 1);
}

}  // namespace reprise::lower
