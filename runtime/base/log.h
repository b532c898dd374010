// Messages for people that are no errors of a call.
#pragma once

#include <functional>
#include <string>

namespace reprise {

/// The numbers are those of the C interface (reprise_severity).
enum class Severity : unsigned char {
  Error = 1,    // results may be wrong, such as a message of a validation layer
  Warning = 2,  // something is worse than it should be, such as a variant that is not used
  Info = 3,     // progress
};

/// May be called from any thread; may be empty.
using Log = std::function<void(Severity, const std::string&)>;

}  // namespace reprise
