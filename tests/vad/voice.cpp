#include "tests/vad/voice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

namespace vad {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// How much of a frequency passes a mouth that says something else every few tenths of a second.
double formants(double frequency, double time) {
  double sum = 0;
  for (const double centre : {500 + 200 * std::sin(kTurn * 2.5 * time),
                              1500 + 400 * std::sin(kTurn * 1.7 * time), 2500.0}) {
    const double off = (frequency - centre) / 120;
    sum += 1 / (1 + off * off);
  }
  return sum;
}

void append(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

}  // namespace

std::vector<float> voice(int rate, double seconds,
                         const std::vector<std::pair<double, double>>& parts) {
  std::vector<float> out(static_cast<size_t>(seconds * rate));
  double phase = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double time = static_cast<double>(i) / rate;
    const double pitch = 120 + 20 * std::sin(kTurn * 3 * time);
    phase += kTurn * pitch / rate;
    const bool speaks = std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
      return time >= part.first && time < part.second;
    });
    if (!speaks) continue;
    double sum = 0;
    for (int h = 1; h < 40; ++h)
      sum += formants(h * pitch, time) * std::pow(h, -0.3) * std::sin(h * phase);
    out[i] = static_cast<float>(0.1 * sum * (0.6 + 0.4 * std::sin(kTurn * 4 * time)));
  }
  return out;
}

std::string wav(const std::vector<float>& samples, int rate, int channels, int kind, int bits) {
  const int bytes = bits / 8;
  std::string data;
  for (const float s : samples) {
    for (int c = 0; c < channels; ++c) {
      uint32_t raw = 0;
      if (kind == 3) {
        std::memcpy(&raw, &s, sizeof raw);
      } else {
        const double highest = std::pow(2.0, bits - 1) - 1;
        raw = static_cast<uint32_t>(
            static_cast<int64_t>(std::lround(static_cast<double>(s) * highest)));
        if (bits == 8) raw += 128;
      }
      append(data, raw, bytes);
    }
  }
  std::string out = "RIFF";
  append(out, static_cast<uint32_t>(36 + data.size()), 4);
  out += "WAVEfmt ";
  append(out, 16, 4);
  append(out, static_cast<uint32_t>(kind), 2);
  append(out, static_cast<uint32_t>(channels), 2);
  append(out, static_cast<uint32_t>(rate), 4);
  append(out, static_cast<uint32_t>(rate * channels * bytes), 4);
  append(out, static_cast<uint32_t>(channels * bytes), 2);
  append(out, static_cast<uint32_t>(bits), 2);
  out += "data";
  append(out, static_cast<uint32_t>(data.size()), 4);
  return out + data;
}

}  // namespace vad
