#include "runtime/base/number_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace reprise {

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", v);
  return text.data();
}

}  // namespace reprise
