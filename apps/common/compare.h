// What programs allow results to differ by: the rules of runtime/base/compare.h, and a table of
// cases that need more.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/compare.h"

namespace reprise::app {

/// The default, or the row of the exception table that matches the case's name.
using reprise::tolerance;
Tolerance tolerance(Rule rule, DType dtype, std::string_view case_name);
/// The same for a model that computes in this precision, by compilation or by itself: outputs of
/// any float type are allowed what models of fp16 or bf16 are.
Tolerance tolerance_in(DType precision, Rule rule, DType dtype, std::string_view case_name = {});

/// A case that needs more than the defaults, with the reason. The one table of them.
struct ToleranceException {
  std::string_view case_glob;
  DType dtype;
  Tolerance tolerance;
  std::string_view reason;
};
const std::vector<ToleranceException>& tolerance_exceptions();

/// Shell-style pattern: '*' any text, '?' one character.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace reprise::app
