// Which elements of a kernel's results a probe samples, what they must be, and within what
// tolerance.
#pragma once

#include <utility>
#include <vector>

#include "codegen/probe_memory.h"

namespace reprise {

/// What one interpretation of a launch gave.
struct ProbeOutcome {
  kernel::ErrorCode error = kernel::ErrorCode::None;
  size_t workgroups = 0;
  uint64_t instructions = 0;
  std::vector<uint64_t> extents;          // of each parameter: the bytes that were touched end here
  std::vector<std::vector<uint32_t>> at;  // of each parameter: elements that are sampled
  std::vector<std::vector<uint64_t>> bits;  // and what they are
  std::vector<uint32_t> invocations;        // that stored them (kernel::PartialLaunch::counted)
};

/// Elements to sample of those that a launch has written, by element. `unit`: so many invocations
/// are computed together; the samples are those of few units.
std::vector<ProbeMemory::Written> choose_samples(const std::vector<ProbeMemory::Written>& all,
                                                 uint32_t unit);

/// How many samples have a finite value, and how many there are.
std::pair<size_t, size_t> count_finite(const std::vector<ProbeMemory::Parameter>& parameters,
                                       const ProbeOutcome& outcome);

/// Adds what `best` gave to the probe. `others` are the same launch with the errors that devices
/// may make: their samples are at the same elements. Unsupported if nothing can be said.
Status add_samples(const std::vector<ProbeMemory::Parameter>& parameters, const ProbeOutcome& best,
                   const std::vector<ProbeOutcome>& others, plan::Probe& probe);

}  // namespace reprise
