#include "apps/transcribe/mel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace transcribe {
namespace {

constexpr double kPi = std::numbers::pi;
// The scale is linear up to 1000 Hz, and logarithmic from there on.
constexpr double kLinear = 200.0 / 3, kCorner = 1000, kCornerMel = kCorner / kLinear;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hertz) {
  return hertz < kCorner ? hertz / kLinear : kCornerMel + std::log(hertz / kCorner) / kLogStep;
}

double hertz_of(double mel) {
  return mel < kCornerMel ? mel * kLinear : kCorner * std::exp((mel - kCornerMel) * kLogStep);
}

}  // namespace

std::vector<float> fourier_window() {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(2 * kBins * kWindow));
  for (const bool sine : {false, true}) {
    for (int64_t bin = 0; bin < kBins; ++bin) {
      for (int64_t i = 0; i < kWindow; ++i) {
        const double hann = 0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / kWindow);
        const double angle = 2 * kPi * static_cast<double>(bin * i % kWindow) / kWindow;
        out.push_back(static_cast<float>(hann * (sine ? std::sin(angle) : std::cos(angle))));
      }
    }
  }
  return out;
}

std::vector<float> mel_filters(int64_t bands) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(bands * kBins));
  const double highest = mel_of(kRate / 2.0);
  const auto edge = [&](int64_t i) {
    return hertz_of(highest * static_cast<double>(i) / static_cast<double>(bands + 1));
  };
  for (int64_t band = 0; band < bands; ++band) {
    const double low = edge(band), middle = edge(band + 1), high = edge(band + 2);
    for (int64_t bin = 0; bin < kBins; ++bin) {
      const double hertz = static_cast<double>(bin) * kRate / kWindow;
      const double height =
          std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      out.push_back(static_cast<float>(std::max(0.0, height) * 2 / (high - low)));
    }
  }
  return out;
}

std::vector<float> padded_chunk(const std::vector<float>& samples, size_t begin) {
  constexpr int64_t kHalf = kWindow / 2;
  const auto at = [&](int64_t i) {
    const size_t index = begin + static_cast<size_t>(i);
    return index < samples.size() ? samples[index] : 0.0F;
  };
  std::vector<float> out(kPadded);
  for (int64_t i = 0; i < kPadded; ++i) {
    int64_t from = std::abs(i - kHalf);
    if (from >= kChunk) from = 2 * (kChunk - 1) - from;
    out[static_cast<size_t>(i)] = at(from);
  }
  return out;
}

}  // namespace transcribe
