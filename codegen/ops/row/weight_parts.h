// Weights that are larger than the buffers of a device, in parts that are not; and weights that
// become parts of one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// A range of positions along an axis.
struct PartRange {
  int64_t begin = 0, size = 0;
};

/// The constant that v is, or is a transpose, a conversion or the dequantization of. kNone: none.
graph::ValueId weight_of(const graph::Graph& g, graph::ValueId v);
/// Its bytes; 0 if there is none.
int64_t weight_bytes(const graph::Graph& g, graph::ValueId v);
/// The positions of v along the axis in as few ranges as possible whose constants have at most
/// `most` bytes. Empty if there are none, or if v cannot be cut.
std::vector<PartRange> part_ranges(const graph::Graph& g, graph::ValueId v, size_t axis,
                                   int64_t most);
/// The elements of v in a range, from constants of their own.
OpBuilder::V part_of_weight(OpBuilder& c, OpBuilder::V v, size_t axis, const PartRange& range);

/// Whether values can be one, side by side along an axis: constants, or the same views, conversions
/// or dequantizations of constants.
bool can_join(const graph::Graph& g, std::span<const OpBuilder::V> list, size_t axis);
/// That value.
OpBuilder::V join_weights(OpBuilder& c, std::span<const OpBuilder::V> list, size_t axis);

}  // namespace reprise::ops
