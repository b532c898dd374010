// What the stand-in driver said, for tests that keep it quiet.
#pragma once

#include <iostream>
#include <string>

#include "tests/cuda_standin/control.h"

namespace reprise::test {

/// After a test that failed: the last lines of the driver's log.
inline void print_what_was_said(standin::Lines lines) {
  constexpr int kLast = 20;
  const std::string all = lines();
  if (all.empty()) return;
  size_t begin = all.size() - 1;  // the last line's end
  for (int n = 0; n < kLast && begin != std::string::npos; ++n) {
    begin = begin == 0 ? std::string::npos : all.rfind('\n', begin - 1);
  }
  begin = begin == std::string::npos ? 0 : begin + 1;
  std::cout << "the stand-in CUDA driver said" << (begin == 0 ? "" : " last") << ":\n"
            << all.substr(begin) << std::flush;
}

}  // namespace reprise::test
