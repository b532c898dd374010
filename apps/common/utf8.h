// Strict conversion from and to UTF-8, for NumPy's strings and text detection.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace reprise::app {

/// Fails on malformed, overlong and surrogate sequences; the error names the position of the byte.
Result<std::u32string> from_utf8(std::string_view text);
/// Fails on values that are not code points.
Result<std::string> to_utf8(std::u32string_view text);

}  // namespace reprise::app
