// Where shared arrays and signals lie in the shared memory of a workgroup.
#pragma once

#include <vector>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// In bytes. Swizzled arrays, whose pattern repeats, come first.
struct SharedLayout {
  static constexpr uint32_t kAlignment = 16, kRepeats = 1024;
  std::vector<uint32_t> arrays, signals;  // offsets
  uint32_t bytes = 0;
};
SharedLayout shared_layout(const Kernel& k);

}  // namespace reprise::kernel
