// Compiles CUDA text to a cubin or PTX.
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
  std::string warnings;  // of the compiler; our text should cause none
};

/// The compiler's options. With the text and the compiler's version they determine the image.
std::vector<std::string> options_for(const CudaArch& arch);

/// `text` is the prelude and one kernel.
Result<Image> compile_text(const Library& library, const std::string& text,
                           const std::string& kernel, const CudaArch& arch);

/// Reads the resources of a kernel from a log of `--ptxas-options=-v`. Adds all lines that do not
/// list resources to `warnings`.
plan::KernelCode::Usage parse_log(std::string_view log, std::vector<std::string>& warnings);

}  // namespace reprise::nvrtc
