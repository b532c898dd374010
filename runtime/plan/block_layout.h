// Byte layout of a launch's parameter block, the one ABI of all backends (decision 4). Emitters
// print it, the session writes it; neither knows the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::plan {

///   offset 0: u64 address of the error word; offset 8: u32 launch id, u32 zero;
///   then u64 per buffer, then 4 bytes per scalar; the size is rounded up to 16.
/// The error word is a u32: 0, or launch id << 8 | kernel::ErrorCode of one error of the run.
struct BlockLayout {
  static constexpr uint32_t kErrorAddress = 0;
  static constexpr uint32_t kLaunchId = 8;
  static constexpr uint32_t kFirstBuffer = 16;

  static constexpr uint32_t buffer_offset(size_t i) {
    return static_cast<uint32_t>(kFirstBuffer + 8 * i);
  }
  static constexpr uint32_t scalar_offset(size_t n_buffers, size_t i) {
    return static_cast<uint32_t>(kFirstBuffer + 8 * n_buffers + 4 * i);
  }
  static constexpr uint32_t size(size_t n_buffers, size_t n_scalars) {
    return static_cast<uint32_t>((kFirstBuffer + 8 * n_buffers + 4 * n_scalars + 15) / 16 * 16);
  }
};

}  // namespace reprise::plan
