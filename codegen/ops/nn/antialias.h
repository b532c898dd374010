// Resize with antialiasing, whose filter widens with the factor by which an axis shrinks.
#pragma once

#include <span>
#include <string>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// Replaces such a Resize by weighted sums, one axis after the other. Axes that change are of fixed
/// size. `scales` has one for each axis, or none if the sizes of the result were given.
Result<bool> resize_antialiased(Rewriter& rw, const std::string& mode,
                                const std::string& coordinates, std::span<const float> scales);

}  // namespace reprise::ops
