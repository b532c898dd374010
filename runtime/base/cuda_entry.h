// The name of a kernel's function, on which the CUDA emitter and the CUDA backend agree.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// The name of a kernel's function in CUDA text and images. The prefix is needed because kernels
/// are named after operators, and names such as "max" and "or" have a meaning in C++.
inline std::string cuda_entry(std::string_view kernel) {
  return "k_" + std::string(kernel);
}

}  // namespace reprise
