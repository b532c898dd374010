// What kernels of tests run on. Each test program that has them defines it.
#pragma once

#include <vector>

#include "tests/emit/agreement.h"

namespace reprise::test {

/// Runs every case on the interpreter and on each executor of the test program, and compares.
void expect_agreement(const std::vector<Case>& cases);

}  // namespace reprise::test
