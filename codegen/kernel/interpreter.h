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

/// What becomes of results that devices may round as they like: native functions, products that
/// Fma may round or not, conversions to F16, sums of a subgroup, and products of matrices.
enum class NativeError : uint8_t {
  None,   // rounded from double, in the order of the lanes
  Low,    // as far below the exact result as is allowed
  High,   // as far above
  Mixed,  // either, by a hash of the operands
  Every,  // the same, and each sum or product that is not exact is off by a unit in the last place:
          // what a small difference before it may come to
};

struct InterpretOptions {
  uint32_t subgroup_size = 8;  // a kernel that requires a size gets that one
  NativeError native_error = NativeError::None;
  uint64_t error_seed = 0;        // of the hash for Mixed and Every
  bool flush_subnormals = false;  // F32 operands and results of scalar rows
};

struct Outcome {
  ErrorCode error = ErrorCode::None;  // the largest that SetError recorded
};

/// The buffers of a launch, by buffer parameter and index in elements of its storage type. Indices
/// are in range. Accesses return false for a race between invocations; `invocation` is the
/// invocation's number in the launch, from 1.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual uint64_t elements(size_t buffer) const = 0;
  /// Bits of the compute type.
  virtual bool load(size_t buffer, uint64_t index, uint32_t invocation, uint64_t& bits) = 0;
  virtual bool store(size_t buffer, uint64_t index, uint32_t invocation, uint64_t bits) = 0;
  virtual bool store_bits(size_t buffer, uint64_t index, uint32_t invocation, uint64_t value,
                          uint64_t mask) = 0;
};

/// Some workgroups of a launch, executed in the order of the list, on memory of the caller.
/// Instructions are counted once for each invocation.
struct PartialLaunch {
  std::array<uint32_t, 3> grid{1, 1, 1};  // of the whole launch
  std::vector<uint32_t> scalars;
  std::vector<std::array<uint32_t, 3>> workgroups;  // empty: all
  Memory* memory = nullptr;
  /// No further workgroup begins once this many instructions have been executed.
  uint64_t enough = ~uint64_t{0};
  /// Code::Unsupported once this many instructions have been executed.
  uint64_t limit = ~uint64_t{0};
};

struct PartialOutcome {
  ErrorCode error = ErrorCode::None;  // the largest that SetError recorded
  size_t workgroups = 0;              // executed, from the front of the list
  uint64_t instructions = 0;
};

/// Fails with Code::Internal, naming kernel, instruction and invocation, on a violation; with
/// Code::Usage when the launch does not match the kernel. Verifies the kernel's structure first.
Result<Outcome> interpret(const Kernel& k, const Launch& launch,
                          const InterpretOptions& options = {});
Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      const InterpretOptions& options = {});

}  // namespace reprise::kernel
