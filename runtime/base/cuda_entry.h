// On what the CUDA emitter and the CUDA backend agree: the name of a kernel's function, and how it
// gets its shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

/// The name of a kernel's function in CUDA text and images. The prefix is needed because kernels
/// are named after operators, and names such as "max" and "or" have a meaning in C++.
inline std::string cuda_entry(std::string_view kernel) {
  return "k_" + std::string(kernel);
}

/// The shared memory that a kernel may declare. If it needs more, each launch says how much.
inline constexpr uint32_t kStaticSharedBytes = 48U << 10U;
/// The part of a kernel's shared memory that launches give it: all or nothing.
inline uint32_t dynamic_shared_bytes(uint32_t shared_bytes) {
  return shared_bytes > kStaticSharedBytes ? shared_bytes : 0;
}

}  // namespace reprise
