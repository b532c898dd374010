// Makes a failing program smaller while it fails in the same way.
#pragma once

#include <functional>

#include "tests/fuzz/lib/check.h"
#include "tests/fuzz/lib/program.h"

namespace reprise::fuzz {

/// How the program fails with the configuration; nothing if it does not.
using Fails = std::function<std::optional<Failure>(const Program&, const Config&)>;

struct Reduced {
  Program program;
  Failure failure;
  int tries = 0;
};

/// `failure`: of the whole program. At most `seconds` of trying.
Reduced reduce(const Program& program, const Failure& failure, const Fails& fails, double seconds);

/// The same for failures with the same cause, as far as can be told: kind, configuration without
/// numbers, message without names and numbers, operators.
std::string signature(const Reduced& r);

}  // namespace reprise::fuzz
