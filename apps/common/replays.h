// Whether runs of the same inputs give the same bits.
#pragma once

#include <string>
#include <vector>

#include "apps/common/inputs.h"

namespace reprise::app {

/// What later runs gave for one output, against the first.
struct Replays {
  int differing = 0;       // runs of which some bit differs
  std::string difference;  // of the first of them: element, both values, runs
};

/// Runs a session until it has run `runs` times; `first` is what the first run gave. Per output.
Result<std::vector<Replays>> replay(Session& session, const InputSet& inputs, int runs,
                                    const std::vector<HostTensor>& first);

}  // namespace reprise::app
