// What a CUDA variant is compiled for, as Predicate::cuda_arch and targets name it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

struct CudaArch {
  /// Kernels take their parameters as __grid_constant__ (sm_70), and NVRTC 13 begins here.
  static constexpr uint32_t kLeast = 75;

  bool ptx = false;     // "compute_80": PTX, which the driver compiles; else "sm_90": a cubin
  uint32_t number = 0;  // 10 * major + minor, as DeviceFacts::cuda_arch

  /// Nothing where the text is of another form.
  static std::optional<CudaArch> parse(std::string_view text);
  /// Empty if a device of that architecture runs it; else why not, for people. PTX runs on every
  /// later one. A cubin runs on later minor versions of its major one, but for systems on a chip
  /// (Tegra): theirs run on the very same only, and they run no others.
  std::string mismatch(uint32_t device) const;
  std::string str() const;

  friend bool operator==(const CudaArch&, const CudaArch&) = default;
};

}  // namespace reprise
