// Runs a launch.
#pragma once

#include "tests/ptx/machine/warp.h"

namespace reprise::test::ptx {

struct Launch {
  std::string entry;
  std::array<uint32_t, 3> grid{1, 1, 1}, workgroup{1, 1, 1};
  uint32_t dynamic_shared = 0;  // bytes
  std::span<const std::byte> params;
  std::span<const Buffer> buffers;
  bool early = false;                 // launches before it may still run, until it awaits them
  std::array<uint32_t, 3> cluster{};  // in workgroups; 0: as the text says
};

/// Workgroups of a cluster take turns; clusters run one after another. Fails on accesses outside of
/// buffers, reads of what was not written, races, and where lanes wait for others that do not
/// come.
Status run(const Program& program, const Launch& launch, const Options& options = {});

}  // namespace reprise::test::ptx
