// The images of a package's CUDA variants.
#pragma once

#include <vector>

#include "codegen/compile_options.h"
#include "codegen/compile_report.h"

namespace reprise::nvrtc {

/// Compiles the CUDA text of all kernels of all CUDA variants; equal texts for one architecture
/// once. The texts go unless CompileOptions::keep_source is set. Variants of other APIs are left
/// alone; without one of CUDA no library is looked for.
Status compile_images(std::vector<package::Variant>& variants, const CompileOptions& options,
                      ImageReport& report);

}  // namespace reprise::nvrtc
