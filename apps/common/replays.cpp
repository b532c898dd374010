#include "apps/common/replays.h"

#include "apps/common/compare.h"

namespace reprise::app {

Result<std::vector<Replays>> replay(Session& session, const InputSet& inputs, int runs,
                                    const std::vector<HostTensor>& first) {
  std::vector<Replays> out(first.size());
  for (int run = 1; run < runs; ++run) {
    RP_ASSIGN(const std::vector<HostTensor> now, run_from_start(session, inputs));
    for (size_t i = 0; i < first.size(); ++i) {
      const std::string difference = bit_difference(first[i], now[i]);
      if (difference.empty()) continue;
      if (out[i].differing++ == 0)
        out[i].difference = difference + " in runs 1 and " + std::to_string(run + 1);
    }
  }
  return out;
}

}  // namespace reprise::app
