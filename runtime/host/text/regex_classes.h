// Classes of characters in regular expressions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/host/text/regex.h"

namespace reprise::host {

inline constexpr uint32_t kLastCode = 0x10ffff;  // of Unicode

using Ranges = std::vector<Regex::Range>;

/// All code points outside the ranges.
Ranges negation(Ranges ranges);
/// The ranges, and all code points that are equal to one in them when case is ignored.
Ranges with_case_variants(Ranges ranges);
/// The class that is written [:name:]. Nothing if there is none.
std::optional<Ranges> posix_class(std::string_view name);
/// The class of \d, \s or \w. Nothing for other letters.
std::optional<Ranges> perl_class(char letter);

}  // namespace reprise::host
