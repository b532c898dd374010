// Numbers in messages.
#pragma once

#include <string>

namespace reprise {

/// Nine significant digits, which distinguish any two floats. NaN has no sign.
std::string number_text(double v);

}  // namespace reprise
