// The scalar rows that kernels execute most, over all invocations at once.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codegen/kernel/interpreter.h"

namespace reprise::kernel {

/// One lane of a scalar instruction. Arrays have a word for each invocation of the workgroup.
struct RowLane {
  std::array<const uint64_t*, 3> in{};
  uint64_t* out = nullptr;
  std::span<const uint32_t> active;  // invocations
};

/// Executes the row for all active invocations. False, without having done anything, for rows that
/// scalar_function and inexact_result have to execute. The results are the same.
bool execute_fast(ScalarOp op, Ty t, const InterpretOptions& options, const RowLane& lane);

}  // namespace reprise::kernel
