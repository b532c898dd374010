// A choice that a group offers.
#pragma once

#include <string>

namespace reprise::lower {

/// A schedule that a kernel can have.
struct ScheduleCandidate {
  std::string schedule;
  double cost = 0;  // estimated; comparable among the candidates of one kernel
};

}  // namespace reprise::lower
