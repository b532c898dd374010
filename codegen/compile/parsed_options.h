// The options of a compilation in the form that its phases use.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/options/compile_options.h"
#include "codegen/passes/pass.h"
#include "codegen/target/target.h"

namespace reprise {

struct ParsedOptions {
  std::vector<lower::Target> targets;  // that the options name, in order of preference
  passes::PassOptions passes;
  uint64_t largest_weight = 0;  // in bytes, that a kernel may read
};

/// Checks the options, and parses what they name by text. Errors are Code::Usage.
Result<ParsedOptions> parse_options(const CompileOptions& options);

}  // namespace reprise
