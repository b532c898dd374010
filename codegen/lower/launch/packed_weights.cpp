#include "codegen/lower/launch/packed_weights.h"

#include <algorithm>
#include <set>
#include <vector>

#include "codegen/lower/group/group_lowering.h"

namespace reprise::lower {

using graph::ValueId;

namespace {

/// A second copy of a smaller weight matters little, and to find an element in a packed form takes
/// more instructions than to load it.
constexpr int64_t kLeastElements = int64_t{1} << 12;

/// The form of 4-bit integers that no GEMM reads. In memory of their own, each has a byte; here it
/// has half of one. The last axis is K if it is no longer than all others together, as in a
/// table, of which it is a row.
std::optional<plan::Packing> form_of_nibbles(const HostTensor& t) {
  if (t.dims().empty()) return std::nullopt;
  const int64_t last = t.dims().back(), others = t.count() / last;
  constexpr int64_t kColumns = 4;
  const plan::MatrixShape matrix = last <= others ? plan::MatrixShape{1, last, others, true}
                                                  : plan::MatrixShape{1, others, last, false};
  return plan::in_tiles_of_nibbles(matrix, kColumns);
}

/// Whether the values are computed from v in the group.
bool depend_on(const graph::Graph& g, const Group& group, std::vector<ValueId> values, ValueId v) {
  std::set<ValueId> seen;
  while (!values.empty()) {
    const ValueId next = values.back();
    values.pop_back();
    if (next == v) return true;
    if (next == graph::kNone || !seen.insert(next).second) continue;
    const graph::Node* n = g.value(next).producer;
    if (n == nullptr || std::ranges::find(group.nodes, n) == group.nodes.end()) continue;
    for (const ValueId input : n->inputs) values.push_back(input);
  }
  return false;
}

/// Whether kernels of the group load elements of v again for each tile of the result: operands of
/// contractions, but not what is added to their results.
bool reads_many_times(const graph::Graph& g, const Group& group, ValueId v) {
  return row_of(group.kind).loads_operands_again &&
         depend_on(g, group, group.anchor->inputs.list(), v);
}

}  // namespace

void PackedWeights::add(const Lowered& lowered) {
  for (const LoweredLaunch& launch : lowered.launches) {
    for (const PackedOperand& p : launch.packed)
      forms_.try_emplace(launch.buffers[static_cast<size_t>(p.buffer)].value, p.packing);
  }
}

std::optional<plan::Packing> PackedWeights::form_of(ValueId v) const {
  const std::optional<HostTensor>& constant = g_.value(v).constant;
  if (!constant || constant->count() < kLeastElements) return std::nullopt;
  if (const auto found = forms_.find(v); found != forms_.end()) return found->second;
  return is_packed_in_nibbles(g_, v) ? form_of_nibbles(*constant) : std::nullopt;
}

std::optional<Group> PackedWeights::reader(const Group& group, const Lowered& lowered) const {
  std::optional<Group> out;
  for (const LoweredLaunch& launch : lowered.launches) {
    for (const LoweredBuffer& b : launch.buffers) {
      if (b.value == graph::kNone || b.packed || b.scratch) continue;
      const std::optional<plan::Packing> form = form_of(b.value);
      if (!form || reads_many_times(g_, group, b.value)) continue;
      if (!out) {
        out = group;
        out->key = nullptr;
      }
      out->packed.insert_or_assign(b.value, *form);
    }
  }
  return out;
}

}  // namespace reprise::lower
