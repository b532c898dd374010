// What tools/gpu-check takes to a device: packages of primitives, their inputs, and the results of
// the executor of PTX.
#pragma once

#include <string>

#include "runtime/facts/cuda_arch.h"
#include "runtime/package/package.h"
#include "tests/primitives/lib/primitives.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {

/// The outputs of the executor, which checks the launches as well, in the order of the buffers.
Result<std::vector<std::vector<std::byte>>> executed(const Primitive& p, CudaArch arch);
/// The same, of a text for the primitive.
Result<std::vector<std::vector<std::byte>>> executed(const Primitive& p, const PtxModule& module);
/// A package whose inputs and outputs are the primitive's buffers, as bytes. `early`: launches may
/// overlap.
package::Package package_of(const Primitive& p, plan::KernelCode code, CudaArch arch, bool early);
/// Writes index.json, and a file for each package, input and result, to a folder: of all primitives
/// that the architecture has. With `sources`, only of what a host can execute, and the texts go to
/// that folder for the stand-in driver.
Status record(const std::string& folder, CudaArch arch, const std::string& sources);

}  // namespace reprise::test
