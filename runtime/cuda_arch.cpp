#include "runtime/cuda_arch.h"

#include <charconv>

namespace reprise {
namespace {
constexpr std::string_view kCubin = "sm_", kPtx = "compute_";
}  // namespace

std::optional<CudaArch> CudaArch::parse(std::string_view text) {
  CudaArch arch;
  arch.ptx = text.starts_with(kPtx);
  if (!arch.ptx && !text.starts_with(kCubin)) return {};
  text.remove_prefix(arch.ptx ? kPtx.size() : kCubin.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arch.number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text[0] == '0' || arch.number < 10 || arch.number > 999) return {};
  return arch;
}

std::string CudaArch::mismatch(uint32_t device) const {
  // PTX runs on everything later, a cubin on later minor versions of its major one.
  const bool runs = device >= number && (ptx || device / 10 == number / 10);
  if (runs) return {};
  return (ptx ? "is PTX for " + str() + " and later" : "is compiled for " + str()) +
         ", the device is sm_" + std::to_string(device);
}

std::string CudaArch::str() const {
  return std::string(ptx ? kPtx : kCubin) + std::to_string(number);
}

}  // namespace reprise
