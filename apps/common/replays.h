// Checks whether runs with the same inputs give the same bits.
#pragma once

#include <string>
#include <vector>

#include "apps/common/inputs.h"

namespace reprise::app {

/// How one output of later runs differs from that of the first run.
struct Replays {
  int differing = 0;       // number of runs with a different bit
  std::string difference;  // of the first such run: element, both values, run
};

/// Runs a session until it has run `runs` times; `first` has the outputs of the first run. Returns
/// one result per output.
Result<std::vector<Replays>> replay(Session& session, const InputSet& inputs, int runs,
                                    const std::vector<HostTensor>& first);

}  // namespace reprise::app
