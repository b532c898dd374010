// Executes a kernel on the host, as the specification says, and stops at the first thing that a
// correct kernel never does:
//   - an access outside a buffer, local array or shared array, or off its proven alignment;
//   - a read of a local or shared element that was not written;
//   - two invocations touching one buffer element during a launch, or one shared element between
//     two barriers, at least one of them writing;
//   - a barrier that some invocations of the workgroup do not reach; a shuffle from a lane that is
//     inactive or does not exist;
//   - IDiv or IRem by zero, a conversion that is not in the range it claims.
// All invocations of a workgroup run in step, one instruction at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};  // workgroups
  /// One per buffer parameter, of any size. Spans may overlap (in-place kernels); races are seen
  /// through the overlap. Read-only buffers are not written.
  std::vector<std::span<std::byte>> buffers;
  std::vector<uint32_t> scalars;  // bits, one per scalar parameter
};

/// How inexact F32 rows that a device has natively behave.
enum class NativeError : uint8_t {
  None,   // rounded from double
  Low,    // as far below the exact result as Vulkan allows
  High,   // as far above
  Mixed,  // either, by a hash of the operands
};

struct InterpretOptions {
  uint32_t subgroup_size = 8;  // a kernel that requires a size gets that one
  NativeError native_error = NativeError::None;
  bool flush_subnormals = false;  // F32 operands and results of scalar rows
};

struct Outcome {
  ErrorCode error = ErrorCode::None;  // the largest that SetError recorded
};

/// Fails with Code::Internal, naming kernel, instruction and invocation, on a violation; with
/// Code::Usage when the launch does not match the kernel. Verifies the kernel's structure first.
Result<Outcome> interpret(const Kernel& k, const Launch& launch,
                          const InterpretOptions& options = {});

}  // namespace reprise::kernel
