// Times of compilation, as reports give them.
#pragma once

#include <chrono>

namespace reprise {

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace reprise
