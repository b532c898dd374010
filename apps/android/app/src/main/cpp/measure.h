// Measures a package. This part of the sample does not depend on Android.
#pragma once

#include <string>

#include "reprise/reprise.hpp"

namespace reprise::sample {

/// Runs the package on the best device with inputs of zeros, dims that vary being 1. Returns the
/// device, the variant and the time of a run, or what went wrong, for people.
std::string measure(const Result<Package>& package, const std::string& cache_folder);

}  // namespace reprise::sample
