// The byte layout of a launch's parameter block, which all backends share. Emitters generate code
// that reads it, and sessions write it; this header is the only thing that they have in common.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::plan {

/// Contents, in bytes:
///   offset 0: u64 address of the error word
///   offset 8: u32 launch id, u32 window
///   then a u64 address per buffer, then 4 bytes per scalar,
///   then, at multiples of 128, the device's form of each view (TensorView)
/// The size is rounded up to a multiple of 16. The error word is a u32: 0, or
/// launch id << 8 | kernel::ErrorCode for one of the errors of the run.
///
/// Devices without buffer addresses have descriptors instead: the block itself, the error word, and
/// each buffer, at the bindings below. An address is then a number of the backend's own, whose
/// upper half names the memory and whose lower half is an offset in it. The bits of the lower half
/// that are 0 in `window` are the offset of the buffer from the start of its binding; the binding
/// of the error word begins with it, at a multiple of 256 in its memory. The session writes 0 to
/// `window`, so that bindings begin where memory begins; the backend writes something else where
/// they cannot.
struct BlockLayout {
  static constexpr uint32_t kErrorAddress = 0;
  static constexpr uint32_t kLaunchId = 8;
  static constexpr uint32_t kWindow = 12;
  static constexpr uint32_t kFirstBuffer = 16;

  static constexpr uint32_t kBlockBinding = 0;
  static constexpr uint32_t kErrorBinding = 1;
  static constexpr uint32_t buffer_binding(size_t i) { return static_cast<uint32_t>(2 + i); }

  static constexpr uint32_t buffer_offset(size_t i) {
    return static_cast<uint32_t>(kFirstBuffer + 8 * i);
  }
  static constexpr uint32_t scalar_offset(size_t n_buffers, size_t i) {
    return static_cast<uint32_t>(kFirstBuffer + 8 * n_buffers + 4 * i);
  }
  static constexpr uint32_t kViewBytes = 128;
  static constexpr uint32_t view_offset(size_t n_buffers, size_t n_scalars, size_t i) {
    const size_t end = scalar_offset(n_buffers, n_scalars);
    return static_cast<uint32_t>((end + kViewBytes - 1) / kViewBytes * kViewBytes + kViewBytes * i);
  }
  /// Of a launch's block.
  static constexpr uint32_t size(size_t n_buffers, size_t n_scalars, size_t n_views = 0) {
    if (n_views > 0) return view_offset(n_buffers, n_scalars, n_views);
    return (scalar_offset(n_buffers, n_scalars) + 15) / 16 * 16;
  }
};

}  // namespace reprise::plan
