// From verified bytes to a Package. Inside of the package, not for others.
#pragma once

#include <memory>
#include <span>

#include "runtime/package/package.h"

namespace reprise::package {

/// Checks and decodes the metadata. Weights borrow `weights`, code borrows `metadata`; `owner`
/// keeps both alive. Both spans are aligned to kWeightAlignment. `where` names the package.
Result<std::shared_ptr<const Package>> decode(std::span<const std::byte> metadata,
                                              std::span<const std::byte> weights,
                                              std::shared_ptr<const void> owner,
                                              const std::string& where);

/// The code of a kernel is what drivers may be given.
Status verify_code(const Predicate& needs, const plan::KernelCode& k);

}  // namespace reprise::package
