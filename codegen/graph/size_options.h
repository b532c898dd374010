// What is said about sizes that the inputs of a run decide: limits, and the dims of inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise {

/// Limits by the name of the size, both ends inclusive.
using SizeRanges = std::map<std::string, Interval>;

/// Parses "NAME=MIN..MAX", as --range takes it. Without MIN or MAX, that end is open. Code::Usage
/// says what is wrong.
Result<std::pair<std::string, Interval>> parse_range(std::string_view text);
/// Parses several of them; each name may occur once.
Result<SizeRanges> parse_ranges(const std::vector<std::string>& texts);

/// The plans that a package has for some sizes. Each serves the sizes that are within all of its
/// ranges.
struct PlanChoice {
  enum class Kind : uint8_t {
    Automatic,  // the compiler decides
    None,       // one plan for all sizes
    Given,
  } kind = Kind::Automatic;
  std::vector<SizeRanges> plans;
};

/// Parses "NAME=N,NAME=MIN..MAX,...", as --plan takes it, once for each plan; "auto" or "none" may
/// stand alone. Code::Usage says what is wrong.
Result<PlanChoice> parse_plans(const std::vector<std::string>& texts);

/// Dims by the name of the input.
using InputShapes = std::map<std::string, std::vector<int64_t>>;

/// Parses "NAME=1x3x224x224", as --shape takes it; no dims stand for a scalar.
Result<std::pair<std::string, std::vector<int64_t>>> parse_shape(const std::string& text);
/// Parses several of them; each name may occur once.
Result<InputShapes> parse_shapes(const std::vector<std::string>& texts);

/// The elements of integer inputs by the name of the input.
using InputValues = std::map<std::string, std::vector<int64_t>>;

/// Parses several "NAME=2,-1,3", as --value takes them; each name may occur once.
Result<InputValues> parse_values(const std::vector<std::string>& texts);

namespace graph {

/// Limits the symbols of these names. Code::Usage if there is no such symbol, or no such size.
Status apply_ranges(Graph& g, const SizeRanges& ranges);

}  // namespace graph
}  // namespace reprise
