// What the compiler and the reader of packages must agree on about weights that consist of others.
#pragma once

#include <cstddef>

namespace reprise::package {

/// The number of parts that a weight may have.
inline constexpr size_t kMostParts = 1024;

}  // namespace reprise::package
