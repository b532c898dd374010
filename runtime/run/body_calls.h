// Host calls whose bodies run on the device.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/run/current_run.h"

namespace reprise {

/// Whether a context can run again.
enum class Availability : uint8_t {
  Free,
  Late,  // the last run timed out, and the device is still executing it
  Dead,  // the last run failed, and the device may still be using the memory
};

/// How a context makes these calls; runtime/run/bodies implements it.
class BodyCalls {
 public:
  BodyCalls() = default;
  BodyCalls(const BodyCalls&) = delete;
  BodyCalls& operator=(const BodyCalls&) = delete;
  virtual ~BodyCalls() = default;
  /// Makes the call that is this step of the plan.
  virtual Status call(uint32_t step, CurrentRun& run) = 0;
  /// Of the contexts of bodies: Dead if one is, or else Late if one is.
  virtual Availability poll() = 0;
};

}  // namespace reprise
