// A fused group: the nodes that become one kernel, and what it reads and writes.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/ops/op.h"

namespace reprise::lower {

enum class GroupKind : uint8_t {
  Pointwise,    // every output element on its own
  Row,          // reductions over the same columns with pointwise before, between and after
  Contraction,  // MatMul or Conv with prologue and epilogue
  Attention,    // two MatMuls with a softmax between them, and what Contraction has
  Host,         // one node on the host
};

/// What attention computes before its second MatMul, which is the anchor.
struct AttentionChain {
  graph::Node* scores = nullptr;          // the first MatMul
  graph::ValueId logits = graph::kNone;   // what the softmax sees of it
  graph::ValueId weights = graph::kNone;  // left operand of the second MatMul
  bool zero_for_nan = false;              // weights of rows of NaN are 0
  bool zero_if_hidden = false;            // weights of rows of -inf are 0
};

/// Device memory that only the launches of one group use.
struct ScratchBuffer {
  graph::ValueId of = graph::kNone;  // the value that its elements contribute to; names it
  DType dtype = DType::Invalid;
  Shape shape;
};

struct GroupKey;

/// Outputs are dense tensors with as many elements as `domain` (full) or, in Row groups, as the
/// domain without its reduced axes (row values). Output element j is computed at the domain index
/// with the same row-major position; an anchor's result is available at that index only.
struct Group {
  GroupKind kind = GroupKind::Pointwise;
  /// The contraction, of Attention the second one; of Row the first reduction.
  graph::Node* anchor = nullptr;
  std::vector<graph::Node*> nodes;  // topological order; cheap nodes may be in several groups
  std::vector<graph::ValueId> outputs;
  Shape domain;
  std::vector<int64_t> reduced;  // Row: axes of the domain
  AttentionChain attention;      // Attention
  std::string host_reason;       // Host: why no device kernel takes it
  bool sealed = false;           // nothing joins its node but what only renames
  /// Of a group that will not change; null until somebody needs it (group_key.h).
  std::shared_ptr<const GroupKey> key = nullptr;
};

const ops::OpDef* def_of(const graph::Node& n);
/// MatMul, Conv and reductions decide a group's shape; everything else that has a device form is
/// light.
bool is_contraction(const graph::Node& n);
bool is_reduction(const graph::Node& n);
/// The input of the core Transpose of a matrix that computes `v`, even if the Transpose belongs to
/// another group; kNone if there is none.
graph::ValueId transposed_matrix(const graph::Graph& g, graph::ValueId v);
/// Number of rows (domain without the reduced axes) as a shape with those axes of size 1.
Shape row_shape(const Shape& domain, const std::vector<int64_t>& reduced);
/// A group of n alone, without its outputs.
Group group_of(const graph::Graph& g, graph::Node* n);
/// fused_<sorted distinct operator names>, an identifier; a lone operator keeps its name.
std::string kernel_name(const Group& g);
/// An order in which nothing comes before what it waits for: ties by `last`, which is -1 for what
/// there is no more.
Result<std::vector<int>> run_order(const std::vector<std::set<int>>& before,
                                   const std::vector<int>& last);
/// Why the node cannot run on a device; empty if it can.
std::string host_reason(const graph::Graph& g, const graph::Node& n);

}  // namespace reprise::lower
