// The architecture that a CUDA variant is compiled for, as Predicate::cuda_arch and targets name
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/mma_config.h"

namespace reprise {

struct CudaArch {
  /// The lowest supported architecture: kernels need __grid_constant__ parameters (sm_70), and
  /// NVRTC 13 supports sm_75 and later.
  static constexpr uint32_t kLeast = 75;

  bool ptx = false;  // true: PTX, which the driver compiles ("compute_80"); false: cubin ("sm_90")
  uint32_t number = 0;  // 10 * major + minor, as DeviceFacts::cuda_arch
  /// Uses what only devices of exactly this number have ("sm_90a"). A cubin.
  bool specific = false;

  /// Returns nothing if the text has another form.
  static std::optional<CudaArch> parse(std::string_view text);
  /// Empty if a device of that architecture runs the image; or else why not, for people. PTX runs
  /// on its architecture and all later ones. A cubin runs on its architecture and on later minor
  /// versions of the same major version. Systems on a chip (Tegra) are an exception: they run only
  /// cubins of exactly their architecture, and no other device runs those. A cubin that is specific
  /// to its architecture runs on no other.
  std::string mismatch(uint32_t device) const;
  std::string str() const;
  /// What matrix units of devices of that architecture multiply, of what the emitter can write.
  /// `specific`: with what only exactly that architecture has.
  static std::vector<MmaConfig> matrices_of(uint32_t number, bool specific);
  /// Whether devices that run the image multiply TF32 so much faster than lanes multiply F32 that
  /// three products take less time than one. Most of those that run PTX do not.
  bool gains_by_split_products() const;
  /// The shared memory in bytes that a kernel may have on every device since that architecture or,
  /// if `specific`, on devices of exactly that one.
  static uint32_t shared_bytes_of(uint32_t number, bool specific);
  /// Whether such devices copy from global to shared memory asynchronously.
  static bool copies_asynchronously(uint32_t number) { return number >= 80; }
  /// Whether launches on such devices may begin before those that they follow have ended, and code
  /// for that architecture can await these.
  static bool begins_early(uint32_t number) { return number >= 90; }

  friend bool operator==(const CudaArch&, const CudaArch&) = default;
};

}  // namespace reprise
