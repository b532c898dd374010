// What the selection of boxes needs to know on both sides of lowering.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

std::span<const OpDef> box_ops();

/// The most boxes of a class that a kernel selects: all of them have to fit in the shared memory of
/// any device.
inline constexpr int64_t kMaxSelectedBoxes = 896;

}  // namespace reprise::ops
