#include "runtime/facts/cuda_arch.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "runtime/base/cuda_entry.h"

namespace reprise {
namespace {
constexpr std::string_view kCubin = "sm_", kPtx = "compute_";
constexpr char kSpecific = 'a';

// From the CUDA programming guide: these are not binary compatible with each other or with desktop
// GPUs. They are Jetson TX1, TX2, Xavier, Orin, a console (88), and Thor (101, in CUDA 13: 110).
constexpr uint32_t kTegra[] = {53, 62, 72, 87, 88, 101, 110};

bool is_tegra(uint32_t number) {
  return std::find(std::begin(kTegra), std::end(kTegra), number) != std::end(kTegra);
}

}  // namespace

std::optional<CudaArch> CudaArch::parse(std::string_view text) {
  CudaArch arch;
  arch.ptx = text.starts_with(kPtx);
  if (!arch.ptx && !text.starts_with(kCubin)) return {};
  text.remove_prefix(arch.ptx ? kPtx.size() : kCubin.size());
  arch.specific = !arch.ptx && text.ends_with(kSpecific);
  if (arch.specific) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arch.number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text[0] == '0' || arch.number < 10 || arch.number > 999) return {};
  return arch;
}

std::string CudaArch::mismatch(uint32_t device) const {
  std::string what = (ptx ? "is PTX for " + str() + " and later" : "is compiled for " + str()) +
                     ", the device is sm_" + std::to_string(device);
  if (device < number || (!ptx && device / 10 != number / 10)) return what;
  if (specific && device != number)
    return what + ": it uses what only devices of exactly that architecture have";
  if (ptx || device == number || (!is_tegra(number) && !is_tegra(device))) return {};
  return what + ": Tegra devices run only images for exactly their own architecture";
}

std::string CudaArch::str() const {
  std::string s = std::string(ptx ? kPtx : kCubin) + std::to_string(number);
  if (specific) s += kSpecific;
  return s;
}

uint32_t CudaArch::shared_bytes_of(uint32_t number, bool specific) {
  // sm_86, sm_89 and sm_120 have least; sm_80 has 163 KB, sm_90 227 KB.
  constexpr uint32_t kSince80 = 99U << 10U, kOf90 = 227U << 10U;
  if (number == 90 && specific) return kOf90;
  return number >= 80 ? kSince80 : kStaticSharedBytes;
}

bool CudaArch::gains_by_split_products() const {
  // From the CUDA programming guide and the white papers of the architectures: 4 to 16 times as
  // fast on A100, H100 and B200; equally fast on desktop GPUs and Jetson.
  constexpr uint32_t kFast[] = {80, 90, 100, 103};
  return !ptx && std::find(std::begin(kFast), std::end(kFast), number) != std::end(kFast);
}

std::vector<MmaConfig> CudaArch::matrices_of(uint32_t number, bool specific) {
  constexpr uint32_t kEvery = ~uint32_t{0};
  constexpr struct {
    uint32_t since, until;
    bool specific;
    MmaConfig config;
  } kRows[] = {{80, kEvery, false, {16, 16, 16, kHalfMma}},
               {80, kEvery, false, {16, 16, 16, kBfloatMma}},
               {80, kEvery, false, {16, 16, 8, kSplitMma}},
               {90, 90, true, {64, 64, 16, kHalfMma, MmaScope::Team}},
               {90, 90, true, {64, 128, 16, kHalfMma, MmaScope::Team}},
               {90, 90, true, {64, 256, 16, kHalfMma, MmaScope::Team}},
               {90, 90, true, {64, 64, 16, kBfloatMma, MmaScope::Team}},
               {90, 90, true, {64, 128, 16, kBfloatMma, MmaScope::Team}},
               {90, 90, true, {64, 256, 16, kBfloatMma, MmaScope::Team}}};
  std::vector<MmaConfig> out;
  for (const auto& row : kRows)
    if (number >= row.since && number <= row.until && (specific || !row.specific))
      out.push_back(row.config);
  return out;
}

}  // namespace reprise
