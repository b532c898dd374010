// The tolerances of our programs: the rules of runtime/base/compare.h, and a table of cases that
// need larger ones.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/compare.h"

namespace reprise::app {

/// The default tolerance, or that of the exception table if a row matches the name of the case.
using reprise::tolerance;
Tolerance tolerance(Rule rule, DType dtype, std::string_view case_name);
/// The same for a model that computes in `precision`, by compilation or by itself; see widened().
Tolerance tolerance_in(DType precision, Rule rule, DType dtype, std::string_view case_name = {});

/// A case that needs a larger tolerance than the default, and the reason.
struct ToleranceException {
  std::string_view case_glob;
  DType dtype;
  Tolerance tolerance;
  std::string_view reason;
};
std::span<const ToleranceException> tolerance_exceptions();

/// Whether the results of a case are random: only their dtypes and shapes can be compared.
bool is_random_case(std::string_view case_name);

/// Matches a shell-style pattern: '*' matches any text, '?' one character.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace reprise::app
