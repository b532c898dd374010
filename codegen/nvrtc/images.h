// Compiles the images of a package's CUDA variants.
#pragma once

#include <string>
#include <vector>

#include "codegen/nvrtc/library.h"
#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"

namespace reprise::nvrtc {

/// Compiles the CUDA text of all kernels of all CUDA variants. Equal texts for one architecture are
/// compiled once. The texts are then dropped unless CompileOptions::keep_source is set. Variants of
/// other APIs are unchanged. If there is no CUDA variant, NVRTC is not needed.
Status compile_images(std::vector<package::Variant>& variants, const CompileOptions& options,
                      ImageReport& report);

/// Compiles the text of a kernel, which must be kept, to PTX. `arch` is one of PTX.
Result<std::string> ptx_of(const Library& library, const plan::KernelCode& kernel,
                           const CudaArch& arch);

}  // namespace reprise::nvrtc
