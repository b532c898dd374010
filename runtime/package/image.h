// Checks that a CUDA image may be given to a driver. A driver is not told the size of an image: it
// reads up to the end that the image itself states. Internal to runtime/package.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/status.h"

namespace reprise::package {

/// Checks that the bytes are an ELF file whose headers, sections and segments lie within them.
Status check_cubin(std::span<const std::byte> bytes);
/// Checks that the bytes are PTX: text with exactly one zero byte, at its end.
Status check_ptx(std::span<const std::byte> bytes);

}  // namespace reprise::package
