// A fused group: the nodes that are lowered together, and the values that they store.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/ops/row/op.h"
#include "codegen/target/target_facts.h"
#include "runtime/plan/packing.h"

namespace reprise::lower {

/// The index of a row of the table of lowerings (group_lowering.h). Rows of applications have other
/// numbers.
enum class GroupKind : uint8_t {
  Sort,           // one sort
  Recurrent,      // one recurrent layer
  AttentionGrad,  // the gradients of one attention
  Attention,      // two MatMuls with a softmax between them, with prologue and epilogue
  Contraction,    // MatMul or Conv with prologue and epilogue
  Row,        // reductions over the same columns, with pointwise nodes before, between and after
  Scan,       // a cumulative operator with prologue and epilogue
  Pointwise,  // every output element is computed independently
  Sample,     // the choice of a token in each row of scores
  Host,       // one node on the host
  Memory,     // one node whose result exists when its inputs do: no kernel computes it
};

/// The part of attention before its second MatMul, which is the anchor.
struct AttentionChain {
  graph::Node* scores = nullptr;          // the first MatMul
  graph::ValueId logits = graph::kNone;   // the input of the softmax
  graph::ValueId weights = graph::kNone;  // the left operand of the second MatMul
  // The logarithm of the sum of exponentials of each row, 0 if its logits are all -inf: an output
  // of the group with one element for each row. It is kNone if nothing reads it.
  graph::ValueId log_sum = graph::kNone;
  bool zero_for_nan = false;    // weights that are NaN become 0
  bool zero_if_hidden = false;  // weights of a row whose logits are all -inf become 0
};

/// Device memory that only the launches of one group use.
struct ScratchBuffer {
  graph::ValueId of = graph::kNone;  // the value that its elements contribute to; names it
  DType dtype = DType::Invalid;
  Shape shape;
};

struct GroupKey;

/// Outputs are dense tensors with as many elements as `domain` (full values) or, in Row groups, as
/// the domain without its reduced axes (row values). Output element j is computed at the domain
/// index with the same row-major position. The anchor's result is available at that index only.
struct Group {
  GroupKind kind = GroupKind::Pointwise;
  /// The contraction, in Attention the second one; in Row the first reduction; in other kinds the
  /// node that begins the group.
  graph::Node* anchor = nullptr;
  std::vector<graph::Node*> nodes;  // topological order; cheap nodes may be in several groups
  std::vector<graph::ValueId> outputs;
  Shape domain;
  std::vector<int64_t> reduced;  // Row: the reduced axes of the domain. Scan and Sort: the axis
  AttentionChain attention;      // Attention only
  std::string host_reason;       // Host: why no device kernel computes it
  bool sealed = false;           // only views that rename may join
  /// Weights of which the kernels read single elements in a packed form (packed_weights.h).
  std::map<graph::ValueId, plan::Packing> packed = {};
  /// The key of the finished group (group_key.h), computed when it is first needed; null before.
  std::shared_ptr<const GroupKey> key = nullptr;
};

/// Whether launches compute the group.
inline bool has_kernels(const Group& g) {
  return g.kind != GroupKind::Host && g.kind != GroupKind::Memory;
}
const ops::OpDef* def_of(const graph::Node& n);
/// Contractions, reductions and scans decide a group's shape. All other nodes with a device form
/// are injective.
bool is_contraction(const graph::Node& n);
bool is_reduction(const graph::Node& n);
/// Whether the node is a kernel, or several, that no other node joins.
bool is_kernel_of_its_own(const graph::Node& n);
bool is_scan(const graph::Node& n);
/// If a core Transpose of a matrix produces `v`, its input, even if the Transpose belongs to
/// another group; else kNone.
graph::ValueId transposed_matrix(const graph::Graph& g, graph::ValueId v);
/// The shape of a row value: the domain with size 1 for the reduced axes.
Shape row_shape(const Shape& domain, const std::vector<int64_t>& reduced);
/// A group that has only the node n. Its outputs are not filled in.
Group group_of(const graph::Graph& g, graph::Node* n);
/// fused_<sorted distinct operator names>, an identifier. A single operator keeps its name.
std::string kernel_name(const Group& g);
/// A topological order: group i comes after the groups before[i]. Ties are broken by last[i], which
/// is -1 for a group that no longer exists.
Result<std::vector<int>> run_order(const std::vector<std::set<int>>& before,
                                   const std::vector<int>& last);
/// Whether the elements of the weight v share words where it is packed.
bool is_packed_in_nibbles(const graph::Graph& g, graph::ValueId v);
/// Whether a kernel that reads the value takes its memory: numbers are part of the code.
bool is_bound(const graph::Graph& g, graph::ValueId v);
/// Why the node cannot run on such a device; empty if it can.
std::string host_reason(const graph::Graph& g, const graph::Node& n,
                        const shaders::TargetFacts& device);

}  // namespace reprise::lower
