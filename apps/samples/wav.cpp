#include "apps/samples/wav.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numbers>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/samples/path.h"
#include "apps/samples/text_output.h"

namespace samples {
namespace {

constexpr uint32_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

/// A little-endian number of up to four bytes.
uint32_t number(std::string_view bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

/// Appends the lowest `size` bytes, the lowest first.
void append(std::string& bytes, uint32_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

struct Format {
  uint32_t kind = 0, channels = 0, rate = 0, bits = 0;
};

float sample(std::string_view data, size_t at, const Format& f) {
  const size_t bytes = f.bits / 8;
  const uint32_t raw = number(data, at, bytes);
  if (f.kind == kFloat) {
    float value = 0;
    std::memcpy(&value, &raw, sizeof value);
    return std::isfinite(value) ? std::clamp(value, -1.0F, 1.0F) : 0;
  }
  if (bytes == 1) return static_cast<float>(static_cast<int32_t>(raw) - 128) / 128;
  // The highest bit of the sample becomes that of the integer.
  return static_cast<float>(static_cast<int32_t>(raw << (32 - f.bits))) / 2147483648.0F;
}

/// The chunks "fmt " and "data" of a file.
struct Chunks {
  std::string_view format;  // empty if there is none
  std::optional<std::string_view> data;
};

Chunks chunks_of(std::string_view file) {
  Chunks found;
  if (file.size() < 12 || file.substr(0, 4) != "RIFF" || file.substr(8, 4) != "WAVE") return found;
  for (size_t at = 12; at + 8 <= file.size();) {
    const std::string_view id = file.substr(at, 4);
    // Programs that write to a pipe do not know the size in advance.
    const size_t size = std::min<size_t>(number(file, at + 4, 4), file.size() - at - 8);
    if (id == "fmt ") found.format = file.substr(at + 8, size);
    if (id == "data") found.data = file.substr(at + 8, size);
    at += 8 + size + size % 2;
  }
  return found;
}

bool is_supported(const Format& f) {
  if (f.channels == 0 || f.channels > 64 || f.rate < 1000 || f.rate > 1000000) return false;
  if (f.kind == kFloat) return f.bits == 32;
  return f.kind == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
}

Error too_long(const std::string& what, size_t samples) {
  return {REPRISE_INVALID_INPUT, what + " has " + std::to_string(samples) +
                                     " samples, and the most is " + std::to_string(kMostSamples) +
                                     "; cut it into parts"};
}

constexpr int64_t kMostWeights = int64_t{1} << 20;  // that resampling keeps

/// A sinc in a Hann window, with which a sound gets another rate.
class Filter {
 public:
  struct Weights {
    int64_t first = 0;  // relative to the sample at or before the place
    std::vector<double> values;
  };

  Filter(int from, int to)
      : up_(to / std::gcd(from, to)),
        down_(from / std::gcd(from, to)),
        width_(std::max(static_cast<double>(down_) / static_cast<double>(up_), 1.0)) {}

  /// The new samples in the time of so many old ones.
  int64_t up() const { return up_; }
  int64_t down() const { return down_; }
  /// The most weights of a place.
  int64_t taps() const { return static_cast<int64_t>(2 * kZeros * width_) + 1; }

  /// At `phase` / up() samples after one; their sum is 1.
  Weights weights(int64_t phase) const {
    const double centre = static_cast<double>(phase) / static_cast<double>(up_);
    const auto last = static_cast<int64_t>(std::floor(centre + kZeros * width_));
    Weights out;
    out.first = static_cast<int64_t>(std::ceil(centre - kZeros * width_));
    out.values.reserve(static_cast<size_t>(last - out.first + 1));
    double sum = 0;
    for (int64_t k = out.first; k <= last; ++k) {
      const double x = (static_cast<double>(k) - centre) / width_ * std::numbers::pi;
      const double sinc = x == 0 ? 1 : std::sin(x) / x;
      out.values.push_back(sinc * (0.5 + 0.5 * std::cos(x / kZeros)));
      sum += out.values.back();
    }
    for (double& value : out.values) value /= sum;
    return out;
  }

 private:
  static constexpr int kZeros = 16;  // zero crossings on each side

  int64_t up_, down_;
  double width_;  // in samples: more if the new rate is lower
};

}  // namespace

Result<Sound> read_wav(const std::string& path) {
  std::ifstream in(utf8_path(path), std::ios::binary);
  if (!in) return Error{REPRISE_IO, path + ": cannot be opened: " + std::strerror(errno)};
  const std::string file(std::istreambuf_iterator<char>(in), {});
  const Chunks chunks = chunks_of(file);
  if (chunks.format.size() < 16) return Error{REPRISE_INVALID_INPUT, path + ": not a WAV file"};
  if (!chunks.data)
    return Error{REPRISE_INVALID_INPUT, path + ": has no sound, which is the chunk 'data'"};
  Format f{number(chunks.format, 0, 2), number(chunks.format, 2, 2), number(chunks.format, 4, 4),
           number(chunks.format, 14, 2)};
  if (f.kind == kExtensible && chunks.format.size() >= 26) f.kind = number(chunks.format, 24, 2);
  if (!is_supported(f)) {
    return Error{REPRISE_INVALID_INPUT,
                 path + ": format " + std::to_string(f.kind) + " with " + std::to_string(f.bits) +
                     " bits; expected PCM of 8, 16, 24 or 32 bits, or floats of 32 bits"};
  }
  const size_t bytes = f.bits / 8, frame = bytes * f.channels;
  Sound sound{static_cast<int>(f.rate), {}};
  const size_t count = chunks.data->size() / frame;
  if (count > kMostSamples) return too_long(path + ": the sound", count);
  sound.samples.reserve(count);
  for (size_t at = 0; at + frame <= chunks.data->size(); at += frame) {
    float sum = 0;
    for (size_t c = 0; c < f.channels; ++c) sum += sample(*chunks.data, at + c * bytes, f);
    sound.samples.push_back(sum / static_cast<float>(f.channels));
  }
  return sound;
}

Error write_wav(const Sound& sound, const std::string& path) {
  constexpr uint32_t kBytes = 2;
  const auto length = static_cast<uint32_t>(sound.samples.size() * kBytes);
  const auto rate = static_cast<uint32_t>(sound.rate);
  std::string file = "RIFF";
  append(file, 36 + length, 4);
  file += "WAVEfmt ";
  const std::pair<uint32_t, size_t> format[] = {
      {16, 4}, {kPcm, 2}, {1, 2}, {rate, 4}, {rate * kBytes, 4}, {kBytes, 2}, {16, 2}};
  for (const auto& [value, size] : format) append(file, value, size);
  file += "data";
  append(file, length, 4);
  file.reserve(file.size() + length);
  for (const float s : sound.samples) {
    const long value = std::lround(static_cast<double>(std::clamp(s, -1.0F, 1.0F)) * 32767);
    append(file, static_cast<uint32_t>(value), kBytes);
  }
  return write_file(path, file);
}

Result<Sound> resampled(const Sound& sound, int rate) {
  if (sound.rate == rate) return sound;
  const Filter filter(sound.rate, rate);
  const auto length = static_cast<int64_t>(sound.samples.size());
  const int64_t count = length * filter.up() / filter.down();
  if (count > static_cast<int64_t>(kMostSamples))
    return too_long("at " + std::to_string(rate) + " per second, the sound",
                    static_cast<size_t>(count));
  Sound out{rate, {}};
  out.samples.reserve(static_cast<size_t>(count));
  // The distances of new samples from the old ones repeat, so their weights repeat, too.
  const bool keeps = filter.up() <= kMostWeights / filter.taps();
  std::vector<Filter::Weights> table(keeps ? static_cast<size_t>(filter.up()) : 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * filter.down() / filter.up(), phase = i * filter.down() % filter.up();
    Filter::Weights& weights = table[keeps ? static_cast<size_t>(phase) : 0];
    if (!keeps || weights.values.empty()) weights = filter.weights(phase);
    const int64_t first = at + weights.first;
    const auto size = static_cast<int64_t>(weights.values.size());
    double sum = 0;
    for (int64_t k = std::max<int64_t>(-first, 0); k < std::min(size, length - first); ++k)
      sum += weights.values[static_cast<size_t>(k)] *
             static_cast<double>(sound.samples[static_cast<size_t>(first + k)]);
    out.samples.push_back(static_cast<float>(sum));
  }
  return out;
}

}  // namespace samples
