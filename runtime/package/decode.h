// From verified bytes to a Package. Inside of the package, not for others.
#pragma once

#include <memory>
#include <span>

#include "runtime/package/package.h"

namespace reprise::package {

/// Checks and decodes the metadata. Weights borrow `weights`, which `owner` keeps alive. Both
/// spans are aligned to kWeightAlignment.
Result<std::shared_ptr<const Package>> decode(std::span<const std::byte> metadata,
                                              std::span<const std::byte> weights,
                                              std::shared_ptr<const void> owner);

}  // namespace reprise::package
