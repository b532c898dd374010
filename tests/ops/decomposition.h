// Checks one decomposition by numbers: the ONNX form on the host kernels against the core form on
// the host kernels, and against the core form's element() definitions on the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace reprise::test {

struct Decomposition {
  const char* name;
  const char* text;
  double lo = -3, hi = 3;   // of random inputs
  bool special = false;     // NaN, infinities and zeros among the inputs
  double tolerance = 2e-5;  // relative to 1 + |expected|
};

inline void PrintTo(const Decomposition& c, std::ostream* os) {
  *os << c.name;
}

void check_decomposition(const Decomposition& c);

inline std::string decomposition_name(const testing::TestParamInfo<Decomposition>& info) {
  return info.param.name;
}

}  // namespace reprise::test
