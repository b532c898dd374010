// Executes a kernel on the host as codegen/kernel/semantics.md defines it, and stops at the first
// violation of its rules:
//   - an access outside a buffer, local array or shared array, or with a wrong alignment claim;
//   - a read of a local or shared element that was not written;
//   - accesses of two invocations to the same buffer element during a launch, or to the same shared
//     element between two barriers, at least one of which writes;
//   - a barrier that some invocations of the workgroup do not reach; a shuffle from a lane that is
//     inactive or does not exist;
//   - IDiv or IRem by zero; a conversion whose range claim is wrong.
// All invocations of a workgroup run in lockstep, one instruction at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/interpreter/rows.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};  // workgroups
  /// One span per buffer parameter, of any size. Spans may overlap (in-place kernels), and races
  /// through the overlap are detected. Read-only buffers are not written.
  std::vector<std::span<std::byte>> buffers;
  std::vector<uint32_t> scalars;  // bits, one per scalar parameter
};

/// The error of results that devices may round differently: native functions, the product of an
/// Fma, conversions to F16, sums of a subgroup, and multiplications of matrices.
enum class NativeError : uint8_t {
  None,   // rounded from double, in the order of the lanes
  Low,    // as far below the exact result as is allowed
  High,   // as far above the exact result as is allowed
  Mixed,  // either of these, by a hash of the operands
  Every,  // as Mixed, and every inexact sum or product is off by a unit in the last place, as a
          // small difference in its operands may cause
};

struct InterpretOptions {
  uint32_t subgroup_size = 8;  // of kernels that do not require a size
  NativeError native_error = NativeError::None;
  uint64_t error_seed = 0;        // of the hash for Mixed and Every
  bool flush_subnormals = false;  // F32 operands and results of scalar rows
  /// Of roles: which of them runs next, how far, and when copies of boxes land. 0: in their order,
  /// as far as they can, and as late as they may.
  uint64_t schedule_seed = 0;
};

struct Outcome {
  ErrorCode error = ErrorCode::None;  // the largest that SetError recorded
};

/// One access by invocations in lockstep. Each accesses `lanes` elements of the buffer's storage
/// type from its index on. All are in range.
struct MemoryRow {
  size_t buffer = 0;
  uint32_t lanes = 1;
  Active active;
  const uint32_t* index = nullptr;    // one for each invocation
  uint32_t largest = 0;               // index of an active invocation
  uint32_t first = 1;                 // number in the launch, from 1, of the first invocation here
  const uint32_t* numbers = nullptr;  // of each invocation, relative to `first`
  const uint8_t* variants = nullptr;  // of each invocation: the index of its options
  size_t stride = 0;                  // words between the lanes of `value`
  Row value;  // to load or to store: bits of the compute type; null: only where it loads matters
  const uint32_t* mask = nullptr;        // if not null, a store replaces only these bits
  int32_t instruction = 0;               // that accesses the elements
  const uint32_t* iterations = nullptr;  // of each invocation: see StoreOf; null: 0
  uint32_t box = 0;  // if not 0, a number that no invocation has, of the box that is stored

  uint32_t number(uint32_t invocation) const { return first + numbers[invocation]; }
  /// Whose accesses to one element do not race with each other.
  uint32_t agent(uint32_t invocation) const { return box != 0 ? box : number(invocation); }
};

/// An execution of a Store instruction.
struct StoreOf {
  int32_t instruction = 0;
  uint32_t iteration = 0;  // the counter of the innermost loop around it; 0 if there is none
  friend auto operator<=>(const StoreOf&,
                          const StoreOf&) = default;  // NOLINT(modernize-use-nullptr)
};
struct Race {
  uint32_t invocation = 0;
  uint64_t element = 0;
};

/// The buffers of a launch, by buffer parameter. An access returns a race between invocations if it
/// finds one.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual uint64_t elements(size_t buffer) const = 0;
  virtual std::optional<Race> load(const MemoryRow& row) = 0;
  virtual std::optional<Race> store(const MemoryRow& row) = 0;
};

/// What an execution is for. All but what is wanted is undefined, and is not checked.
enum class Wanted : uint8_t {
  Values,    // of all stores, or of those that count
  Stored,    // which elements are stored
  Accessed,  // which elements are stored, and which are loaded
};

/// Some workgroups of a launch, executed in the order of the list on memory that the caller owns.
/// Instructions are counted as if every invocation executed all of its blocks.
struct PartialLaunch {
  std::array<uint32_t, 3> grid{1, 1, 1};  // of the whole launch
  std::vector<uint32_t> scalars;
  std::vector<std::array<uint32_t, 3>> workgroups;  // empty: all
  Memory* memory = nullptr;
  /// No further workgroup begins once this many instructions have been executed.
  uint64_t enough = ~uint64_t{0};
  /// Exception to `enough`: a second workgroup begins if the first executed no more than this.
  uint64_t cheap = 0;
  /// How many workgroups are executed in lockstep, at least 1. More are faster, but the accesses of
  /// a workgroup may then precede those of an earlier one, and `enough` is checked only between
  /// them.
  uint32_t together = 1;
  /// Code::Unsupported once this many instructions have been executed.
  uint64_t limit = ~uint64_t{0};
  Wanted wanted = Wanted::Values;  // Values in kernels with matrices
  /// The invocations whose stores count, ascending. Invocation i of workgroup number w in the list
  /// has the number w * (invocations of a workgroup) + i. All other invocations execute only what
  /// these need, and accesses that depend on data; their other stores are undefined. Empty: all
  /// count. Ignored in kernels with matrices or with partial subgroups that exchange lanes, and
  /// unless values are wanted and all workgroups are executed together.
  std::vector<uint32_t> counted;
  /// The stores whose values count, if not all invocations do; the values of others are undefined.
  /// Empty: all.
  std::vector<StoreOf> stores;
  /// With the first options, all invocations execute their loads, barriers and accesses to shared
  /// arrays, which are checked.
  bool check_shared = false;
};

struct PartialOutcome {
  ErrorCode error = ErrorCode::None;  // the largest that SetError recorded
  size_t workgroups = 0;              // executed, from the front of the list
  uint64_t instructions = 0;
};

/// Verifies the kernel's structure and executes a launch. A violation is Code::Internal, with a
/// message that names kernel, instruction and invocation. A launch that does not match the kernel
/// is Code::Usage.
Result<Outcome> interpret(const Kernel& k, const Launch& launch,
                          const InterpretOptions& options = {});
/// Executes some workgroups. The kernel's structure must have been verified.
Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      const InterpretOptions& options = {});
/// Executes the workgroups with each of these options, which have the same subgroup size. There are
/// at most 255. Executions are in lockstep if their rows have no gaps, else one after the other.
/// Each has shared arrays of its own; `launch.memory` tells them apart by MemoryRow::variants. The
/// instructions are those of all executions.
Result<PartialOutcome> interpret_some(const Kernel& k, const PartialLaunch& launch,
                                      std::span<const InterpretOptions> variants);

}  // namespace reprise::kernel
