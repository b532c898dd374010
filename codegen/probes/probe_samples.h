// Chooses which elements of a kernel's results a probe samples, their expected values, and the
// tolerances.
#pragma once

#include <utility>
#include <vector>

#include "codegen/probes/probe_memory.h"

namespace reprise {

/// The outcome of interpreting a launch.
struct ProbeOutcome {
  kernel::ErrorCode error = kernel::ErrorCode::None;
  size_t workgroups = 0;
  uint64_t instructions = 0;
  std::vector<uint64_t> extents;            // by parameter: the end of the accessed bytes
  std::vector<std::vector<uint32_t>> at;    // by parameter: the sampled elements
  std::vector<std::vector<uint64_t>> bits;  // by parameter: their values
  std::vector<uint32_t> invocations;        // that stored samples (kernel::PartialLaunch::counted)
  std::vector<kernel::StoreOf> stores;      // likewise (kernel::PartialLaunch::stores)
};

/// Chooses elements to sample among those that a launch has written; sorted by element. The
/// interpreter computes `unit` invocations together, so the samples come from few units. Those of
/// an expensive kernel are stored by few stores, because the interpreter computes what a store
/// needs for all invocations.
std::vector<ProbeMemory::Written> choose_samples(const std::vector<ProbeMemory::Written>& all,
                                                 uint32_t unit, bool expensive);

/// The number of samples with a finite value, and the number of all samples.
std::pair<size_t, size_t> count_finite(const std::vector<ProbeMemory::Parameter>& parameters,
                                       const ProbeOutcome& outcome);

/// Adds the samples of `best` to the probe. `others` are outcomes of the same launch with the
/// errors that devices may make, sampled at the same elements; they give the tolerances.
/// Unsupported if no sample is defined precisely enough.
Status add_samples(const std::vector<ProbeMemory::Parameter>& parameters, const ProbeOutcome& best,
                   const std::vector<ProbeOutcome>& others, plan::Probe& probe);

}  // namespace reprise
