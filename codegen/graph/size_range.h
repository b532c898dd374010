// Limits of sizes that the inputs of a run decide.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/graph/graph.h"

namespace reprise {

/// Limits by the name of the size, both ends inclusive.
using SizeRanges = std::map<std::string, Interval>;

/// Parses "NAME=MIN..MAX", as --range takes it. Without MIN or MAX, that end is open. Code::Usage
/// says what is wrong.
Result<std::pair<std::string, Interval>> parse_range(std::string_view text);
/// Parses several of them; each name may occur once.
Result<SizeRanges> parse_ranges(const std::vector<std::string>& texts);

namespace graph {

/// Limits the symbols of these names. Code::Usage if there is no such symbol, or no such size.
Status apply_ranges(Graph& g, const SizeRanges& ranges);

}  // namespace graph
}  // namespace reprise
