// Attributes with the sizes of one run, or of a compilation that knows all sizes.
#pragma once

#include <span>

#include "runtime/operators/attrs.h"

namespace reprise {

/// Whether an attribute is a list of shape expressions.
bool has_exprs(const AttrMap& attrs);
/// Replaces shape expressions by numbers, which host kernels read. Fails if an expression depends
/// on a symbol without a value; the error names the attribute.
Result<AttrMap> eval_attrs(const AttrMap& attrs, std::span<const int64_t> symbols);

}  // namespace reprise
