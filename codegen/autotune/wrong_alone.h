// Whether the kernels of a plan are right by themselves.
#pragma once

#include <string>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise {

/// Compares each kernel with its probe. Returns which one is wrong or cannot be compared; empty if
/// all are right.
std::string wrong_alone(Device& device, const package::CompiledPlan& plan);

}  // namespace reprise
