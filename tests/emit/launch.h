// One launch of one kernel, as every executor of the emitter tests takes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::test {

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};        // workgroups
  std::vector<std::vector<std::byte>> buffers;  // one per buffer parameter; in and out
  std::vector<uint32_t> scalars;                // bits of the scalar parameters
  uint32_t launch_id = 1;
  uint32_t error_word = 0;  // out: launch id << 8 | code, 0 without error
};

}  // namespace reprise::test
