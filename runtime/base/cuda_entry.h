// The name that emitters and the CUDA backend agree on.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// The function of a kernel in CUDA text and images: kernels are named after operators, such as
/// "max" and "or", which are taken in C++.
inline std::string cuda_entry(std::string_view kernel) {
  return "k_" + std::string(kernel);
}

}  // namespace reprise
