// The candidates that the compiler chooses among, as contenders of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {

/// One entry for each schedule of a case of one kernel, the compiler's choice first. Empty if the
/// case has no kernel with several schedules. `values` and `c` must outlive the entries.
Result<std::vector<Entry>> candidates_of(const Case& c, const Tensors& values,
                                         const std::shared_ptr<Device>& device,
                                         const std::string& who);

/// Compiles a case, and with `candidates` each of its schedules, for a device that is only
/// described, so that their images are in the cache.
Status compile_case(const Case& c, const Tensors& values, const DeviceInfo& device,
                    bool candidates);

/// A CUDA device of an architecture ("sm_90"), with the limits of its family. Code::Usage if there
/// is no such architecture.
Result<DeviceInfo> described_device(const std::string& arch);

}  // namespace reprise::bench::gpu
