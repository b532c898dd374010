// CUDA text -> cubin or PTX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/nvrtc/library.h"
#include "runtime/plan/plan.h"

namespace reprise::nvrtc {

struct Image {
  std::vector<std::byte> bytes;  // as plan::KernelCode::image
  plan::KernelCode::Usage usage;
};

/// What the compiler is told; with the text and its version they determine the image.
std::vector<std::string> options_for(const CudaArch& arch);

/// `text`: the prelude and one kernel. A warning is an error, too: ours must have none.
Result<Image> compile_text(const Library& library, const std::string& text,
                           const std::string& kernel, const CudaArch& arch);

/// The resources that a log of `--ptxas-options=-v` tells, and in `warnings` each line of it that
/// tells none.
plan::KernelCode::Usage parse_log(std::string_view log, std::vector<std::string>& warnings);

}  // namespace reprise::nvrtc
