// The candidates that the compiler chooses among, as contenders of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {

/// A form of our kernels for a device: the name of the contender, and what the compiler makes.
struct Form {
  std::string who, target;
};
/// "reprise vulkan"; or "reprise cuda" and, if `specific`, another one for kernels that only
/// devices of exactly this architecture run, where it has any.
std::vector<Form> forms_for(const DeviceFacts& facts, bool specific);
/// options_for() with the target of a form.
CompileOptions options_of(const DeviceInfo& device, const Form& form);

/// One entry for each schedule of a case of one kernel, the compiler's choice first. Empty if the
/// case has no kernel with several schedules. `values` and `c` must outlive the entries.
Result<std::vector<Entry>> candidates_of(const Case& c, const Tensors& values,
                                         const std::shared_ptr<Device>& device, const Form& form);

/// Compiles a case, or with `candidates` each of its schedules, in all forms for a device that is
/// only described, so that their images are in the cache.
Status compile_case(const Case& c, const Tensors& values, const DeviceInfo& device,
                    bool candidates);

/// A CUDA device of an architecture ("sm_90"), with the limits of its family. Code::Usage if there
/// is no such architecture.
Result<DeviceInfo> described_device(const std::string& arch);

}  // namespace reprise::bench::gpu
