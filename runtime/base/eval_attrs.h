// Attributes for a run, or for a compilation that knows all sizes.
#pragma once

#include <span>

#include "runtime/base/attrs.h"

namespace reprise {

/// The same with shape expressions as numbers, as host kernels read them. Fails where one depends
/// on a symbol without a value, and names the attribute.
Result<AttrMap> eval_attrs(const AttrMap& attrs, std::span<const int64_t> symbols);

}  // namespace reprise
