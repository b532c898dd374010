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
#include <optional>
#include <span>
#include <vector>

#include "codegen/interpreter/rows.h"
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

/// One access of invocations that execute in step: each to `lanes` elements from its index on, in
/// elements of the buffer's storage type. All are in range.
struct MemoryRow {
  size_t buffer = 0;
  uint32_t lanes = 1;
  Active active;
  const uint32_t* index = nullptr;  // one for each invocation
  uint32_t first = 1;               // number in the launch, from 1, of the first that executes now
  const uint32_t* numbers = nullptr;  // of each invocation, counted from `first`
  size_t stride = 0;                  // words between the lanes of `value`
  Row value;                          // loaded or to be stored: bits of the compute type
  const uint32_t* mask = nullptr;     // a store replaces these bits only

  uint32_t number(uint32_t invocation) const { return first + numbers[invocation]; }
};
struct Race {
  uint32_t invocation = 0;
  uint64_t element = 0;
};

/// The buffers of a launch, by buffer parameter. Accesses return a race between invocations, if
/// there is one.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual uint64_t elements(size_t buffer) const = 0;
  virtual std::optional<Race> load(const MemoryRow& row) = 0;
  virtual std::optional<Race> store(const MemoryRow& row) = 0;
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
  /// But a second workgroup does where the first executed no more than this.
  uint64_t cheap = 0;
  /// So many workgroups are executed in step: faster, but accesses of one may come before those of
  /// an earlier one. At least 1; `enough` is compared between them only.
  uint32_t together = 1;
  /// Code::Unsupported once this many instructions have been executed.
  uint64_t limit = ~uint64_t{0};
  /// Invocations whose stores count, ascending. Invocation i of the workgroup numbered w in the
  /// list has the number w * (invocations of a workgroup) + i. All others execute only what these
  /// need of them, and accesses that data decides about; what else they store is not defined.
  /// Empty: all count. Ignored unless all workgroups are executed together.
  std::vector<uint32_t> counted;
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
/// The kernel's structure was verified.
Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      const InterpretOptions& options = {});

}  // namespace reprise::kernel
