// The worst results that Vulkan's precision rules allow a native F32 row.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/kernel/interpreter.h"
#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Bits of the row's F32 result with the error that `mode` asks for. Rows that are exact or
/// correctly rounded come out as scalar_function gives them.
uint64_t native_result(ScalarOp op, std::span<const uint64_t> operands, NativeError mode);

}  // namespace reprise::kernel
