// Whether the bytes of a CUDA image are what a driver may be given: it reads them to an end that
// they state themselves. Inside of the package, not for others.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/status.h"

namespace reprise::package {

/// A cubin: an ELF file whose headers, sections and segments lie within the bytes.
Status check_cubin(std::span<const std::byte> bytes);
/// PTX: text that ends in the only zero byte.
Status check_ptx(std::span<const std::byte> bytes);

}  // namespace reprise::package
