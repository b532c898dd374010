// The table of lowerings: one row for each kind of group, which says which nodes begin such a
// group, what may join it, and how it becomes kernels. Fusion, costs and lowering ask the row, so a
// new kind is a row and an operator that names it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "codegen/lower/group/group.h"

namespace reprise::lower {

struct Lowered;                 // codegen/lower/launch/lowered.h
enum class LoopForm : uint8_t;  // likewise
using shaders::TargetFacts;

struct GroupLowering {
  std::string_view name;

  // --- which nodes become such a group ---
  /// Whether the node begins such a group, as its anchor. Null: operators of ops::Lowering::Kernel
  /// that name the row do.
  bool (*begins)(const graph::Node& n) = nullptr;
  /// Instead of `begins`: the nodes of a group that ends with `last`, its anchor, and its domain.
  /// Fusion takes them all or none, and sets the group's kind.
  std::optional<Group> (*match)(const graph::Graph& g, graph::Node* last) = nullptr;
  /// Sets the domain and `reduced` of a group that has only its anchor. Null: the domain is the
  /// anchor's first result.
  void (*shape)(const graph::Graph& g, Group& group) = nullptr;
  /// Why devices cannot compute the anchor; empty if they can.
  std::string (*refusal)(const graph::Graph& g, const graph::Node& n) = nullptr;
  /// With `match`: why separate kernels are preferred on such a device; empty if they are not.
  std::string (*preferred_apart)(const graph::Graph& g, const Group& group,
                                 const TargetFacts& device) = nullptr;

  /// Why the kernels of products of this kind should not compute the row kernel `rows` themselves,
  /// of which they read the only result as their left operand; empty if they should. Null: they
  /// cannot.
  std::string (*rows_apart)(const graph::Graph& g, std::span<const Group* const> products,
                            const Group& rows, const TargetFacts& device) = nullptr;

  // --- what its kernels do with other nodes ---
  /// An invocation computes elements of the domain independently, so groups of one domain merge.
  bool elementwise = false;
  /// Reductions of the domain over the same axes may join, and nodes whose values have one element
  /// for each row.
  bool reduces_rows = false;
  /// The kernels compute single elements of a tile, so a node that loops over its input would be
  /// written once for each.
  bool unrolls_tiles = false;
  /// An invocation computes several elements of a row one after the other.
  bool loops_over_rows = false;
  /// The kernels load an operand of the anchor again for each tile of the result.
  bool loads_operands_again = false;
  /// Nodes that only order or rename a result of the anchor may join.
  bool stores_ordered = false;
  /// Checks that the nodes of the group can be written, with indices as its kernels have them.
  /// Null: no result is bound to an index.
  Status (*test_indices)(const graph::Graph& g, const Group& group) = nullptr;

  // --- its kernels ---
  /// The launches of the schedule `choice`, and all its schedules (Lowered::choices).
  Result<Lowered> (*lower)(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice, LoopForm form) = nullptr;
  bool has_long_form = false;  // LoopForm::Long
};

/// All rows. A GroupKind is the index of its row.
std::span<const GroupLowering> group_lowerings();
const GroupLowering& row_of(GroupKind kind);
/// All kinds, in the order in which fusion makes groups of them: those of applications come first.
std::span<const GroupKind> kinds_by_preference();
/// The row whose groups the node begins, or nothing.
std::optional<GroupKind> kind_begun_by(const graph::Node& n);
/// Adds rows of an application, whose names must be new. After the first compilation this fails
/// with Code::Usage. Not thread-safe.
Status add_group_lowerings(std::span<const GroupLowering> more);

}  // namespace reprise::lower
