// Decodes the metadata of a file to a Package. Internal to runtime/package.
#pragma once

#include <memory>
#include <span>

#include "runtime/package/header.h"
#include "runtime/package/package.h"
#include "runtime/package/stored_weights.h"

namespace reprise::package {

/// Whatever a plan or an expression breaks, the package that has it is what is wrong.
inline Status as_corrupt(Status s) {
  return s.code() == Code::InvalidModel ? corrupt_package(s.message()) : std::move(s);
}

/// Checks and decodes the metadata, which must be aligned to kWeightAlignment and which the code
/// borrows. The weights begin at header.weights_offset of the source. `where` names the package in
/// messages.
Result<std::shared_ptr<const Package>> decode(const Bytes& metadata, Source source,
                                              const Header& header, const std::string& where);

/// Checks that the code of a kernel may be given to a driver.
Status verify_code(const Predicate& needs, const plan::KernelCode& k);

}  // namespace reprise::package
