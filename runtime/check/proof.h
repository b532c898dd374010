// What checks of kernels have shown of a device on this machine. A file in the cache folder keeps
// it, so that a choice among devices knows it before one is opened.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/facts/device_facts.h"

namespace reprise {

enum class Proof : uint8_t {
  None,   // nothing was checked with this driver
  Right,  // in the last check, all kernels were right
  Wrong   // in the last check, a kernel was wrong
};

/// `cache_dir` may be empty: nothing is known then.
Proof read_proof(const std::string& cache_dir, const DeviceInfo& device);
/// Returns whether it was written.
bool keep_proof(const std::string& cache_dir, const DeviceInfo& device, bool right);

}  // namespace reprise
