// The parts of reprise-vad, without its model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "apps/samples/wav.h"
#include "apps/vad/plot.h"
#include "apps/vad/segments.h"
#include "tests/support/paths.h"
#include "tests/vad/voice.h"

namespace vad {
namespace {

namespace test = reprise::test;
using reprise::Result;
using samples::read_wav;
using samples::resampled;
using samples::Sound;

std::vector<float> tone(double frequency, int rate, size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(
        0.8 * std::sin(2 * std::numbers::pi * frequency * static_cast<double>(i) / rate));
  return out;
}

double loudness(const std::vector<float>& samples) {
  double sum = 0;
  for (const float s : samples) sum += static_cast<double>(s) * static_cast<double>(s);
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

TEST(Wav, ReadsEveryFormat) {
  const test::TempDir dir;
  const std::vector<float> samples = tone(440, 8000, 100);
  const struct {
    int kind, bits, channels;
    float error;
  } formats[] = {{1, 8, 1, 1.2e-2F}, {1, 16, 1, 4e-5F}, {1, 16, 2, 4e-5F},
                 {1, 24, 3, 2e-7F},  {1, 32, 1, 1e-7F}, {3, 32, 2, 1e-7F}};
  for (const auto& f : formats) {
    test::write_file(dir / "a.wav", wav(samples, 8000, f.channels, f.kind, f.bits));
    const Result<Sound> sound = read_wav(dir / "a.wav");
    ASSERT_TRUE(sound) << f.bits << ": " << sound.error().message;
    EXPECT_EQ(sound->rate, 8000);
    ASSERT_EQ(sound->samples.size(), samples.size()) << f.bits;
    for (size_t i = 0; i < samples.size(); ++i)
      ASSERT_NEAR(sound->samples[i], samples[i], f.error) << f.kind << " " << f.bits;
  }
}

TEST(Wav, DamagedFilesAreErrors) {
  const test::TempDir dir;
  const std::string whole = wav(tone(440, 8000, 50), 8000, 1, 1, 16);
  for (size_t size = 0; size < whole.size(); size += 3) {
    test::write_file(dir / "cut.wav", whole.substr(0, size));
    const Result<Sound> sound = read_wav(dir / "cut.wav");
    if (size >= 44) {  // a recording that was interrupted
      ASSERT_TRUE(sound) << size;
      EXPECT_EQ(sound->samples.size(), (size - 44) / 2);
    } else {
      ASSERT_FALSE(sound) << size << ": it has no chunk of samples";
      EXPECT_EQ(sound.error().status, REPRISE_INVALID_INPUT);
    }
  }
  const auto changed = [&](size_t at, const std::string& bytes) {
    std::string file = whole;
    test::write_file(dir / "bad.wav", file.replace(at, bytes.size(), bytes));
    return read_wav(dir / "bad.wav").error();
  };
  EXPECT_NE(changed(20, "\x55").message.find("format 85"), std::string::npos);
  EXPECT_EQ(changed(22, std::string(2, '\0')).status, REPRISE_INVALID_INPUT) << "no channel";
  EXPECT_EQ(changed(24, std::string(4, '\0')).status, REPRISE_INVALID_INPUT) << "no rate";
  EXPECT_EQ(changed(34, "\x0c").status, REPRISE_INVALID_INPUT) << "12 bits";
  EXPECT_EQ(changed(0, "junk").status, REPRISE_INVALID_INPUT);
  EXPECT_EQ(read_wav(dir / "none.wav").error().status, REPRISE_IO);
}

TEST(Wav, LoudFloatsAreCutOff) {
  const test::TempDir dir;
  const float infinite = std::numeric_limits<float>::infinity();
  test::write_file(dir / "a.wav", wav({0.5F, 3, -1e30F, infinite, -0.5F}, 8000, 1, 3, 32));
  EXPECT_EQ(read_wav(dir / "a.wav")->samples, (std::vector<float>{0.5F, 1, -1, 0, -0.5F}));
}

/// The formula, for one sample.
double filtered(const Sound& sound, int rate, int64_t i) {
  const double step = static_cast<double>(sound.rate) / rate, width = std::max(step, 1.0);
  double sum = 0, weights = 0;
  for (int64_t k = -3000; k < static_cast<int64_t>(sound.samples.size()) + 3000; ++k) {
    const double x = (static_cast<double>(k) - static_cast<double>(i) * step) / width;
    if (std::abs(x) > 16) continue;
    const double angle = std::numbers::pi * x;
    const double weight =
        (x == 0 ? 1 : std::sin(angle) / angle) * (0.5 + 0.5 * std::cos(angle / 16));
    weights += weight;
    if (k >= 0 && k < static_cast<int64_t>(sound.samples.size()))
      sum += weight * static_cast<double>(sound.samples[static_cast<size_t>(k)]);
  }
  return sum / weights;
}

/// Ratios with few and with many weights, of which not all are kept.
TEST(Resampling, IsTheFormula) {
  std::vector<float> samples = tone(300, 16000, 700);
  for (size_t i = 0; i < samples.size(); i += 7) samples[i] = -samples[i];
  for (const auto& [from, to] : {std::pair(44100, 16000),
                                 {8000, 16000},
                                 {48000, 16000},
                                 {7919, 16000},
                                 {99991, 16000},
                                 {16000, 22050}}) {
    const Sound sound{from, samples};
    const Result<Sound> out = resampled(sound, to);
    ASSERT_TRUE(out);
    EXPECT_EQ(out->samples.size(), samples.size() * static_cast<size_t>(to) / from);
    for (size_t i = 0; i < out->samples.size(); ++i)
      ASSERT_NEAR(out->samples[i], filtered(sound, to, static_cast<int64_t>(i)), 1e-6)
          << from << " " << to << " " << i;
  }
}

TEST(Resampling, HasABound) {
  const Sound slow{1000, std::vector<float>(samples::kMostSamples / 1024 * 8)};
  const Result<Sound> out = resampled(slow, 1000000);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().status, REPRISE_INVALID_INPUT);
  EXPECT_NE(out.error().message.find("cut it into parts"), std::string::npos);
}

TEST(Resampling, KeepsWhatBothRatesHave) {
  const Sound sound{44100, tone(1000, 44100, 44100)};
  const Sound out = *resampled(sound, 16000);
  ASSERT_EQ(out.rate, 16000);
  ASSERT_EQ(out.samples.size(), 16000u);
  const std::vector<float> expected = tone(1000, 16000, 16000);
  for (size_t i = 100; i + 100 < expected.size(); ++i)  // apart from the ends
    ASSERT_NEAR(out.samples[i], expected[i], 2e-3F) << i;
  // 11 kHz would become 5 kHz, if it were not left out.
  EXPECT_LT(loudness(resampled({44100, tone(11000, 44100, 44100)}, 16000)->samples), 0.01);
  EXPECT_NEAR(loudness(resampled({8000, tone(1000, 8000, 8000)}, 16000)->samples), 0.566, 0.01);
}

std::vector<std::pair<int, int>> segments(const std::vector<float>& probabilities) {
  SegmentOptions options;
  options.padding = 0;
  std::vector<std::pair<int, int>> out;
  for (const Segment& s :
       find_segments(probabilities, 0.1, 0.1 * static_cast<double>(probabilities.size()), options))
    out.emplace_back(std::lround(10 * s.begin), std::lround(10 * s.end));
  return out;
}

TEST(Segments, HaveHysteresisAndAShortestLength) {
  using List = std::vector<std::pair<int, int>>;
  EXPECT_EQ(segments({}), List{});
  EXPECT_EQ(segments({0, 0.9F, 0.9F, 0.9F, 0, 0}), (List{{1, 4}}));
  EXPECT_EQ(segments({0, 0.9F, 0.4F, 0.4F, 0.4F, 0}), (List{{1, 5}})) << "0.4 does not end it";
  EXPECT_EQ(segments({0, 0.4F, 0.4F, 0.4F, 0.4F, 0}), List{}) << "nor begin it";
  EXPECT_EQ(segments({0, 0.9F, 0.9F, 0, 0}), List{}) << "too short";
  EXPECT_EQ(segments({0, 0.9F, 0.9F, 0.9F, 0.9F}), (List{{1, 5}})) << "to the end of the sound";
}

TEST(Segments, ShortPausesBelongToSpeech) {
  SegmentOptions options;
  options.shortest_silence = 0.3;
  std::vector<float> p(40, 0);
  const auto speak = [&](size_t from, size_t to) {
    std::fill(p.begin() + static_cast<std::ptrdiff_t>(from),
              p.begin() + static_cast<std::ptrdiff_t>(to), 0.9F);
  };
  speak(5, 10);
  speak(12, 15);
  speak(20, 25);
  const auto found = find_segments(p, 0.1, 4, options);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].begin, 0.47, 1e-9);
  EXPECT_NEAR(found[0].end, 1.53, 1e-9);
  options.padding = 1;  // only to the middle of the pause, and to the ends
  const auto wide = find_segments(p, 0.1, 4, options);
  EXPECT_NEAR(wide[0].begin, 0, 1e-9);
  EXPECT_NEAR(wide[0].end, 1.75, 1e-9);
  EXPECT_NEAR(wide[1].begin, 1.75, 1e-9);
  EXPECT_NEAR(wide[1].end, 3.5, 1e-9);
}

TEST(Plot, ShowsSegments) {
  const test::TempDir dir;
  const Sound sound{16000, tone(300, 16000, 16000)};
  const std::vector<float> probabilities(31, 0.5F);
  ASSERT_EQ(write_plot(sound, probabilities, 0.032, {{0.25, 0.5}}, 0.5F, dir / "a.svg").status,
            REPRISE_OK);
  const std::string svg = test::read_file(dir / "a.svg");
  // A second is 840 wide, from 56 on.
  EXPECT_NE(svg.find("<rect class=\"speech\" x=\"266.0\" y=\"14.0\" width=\"210.0\""),
            std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_EQ(write_plot({16000, {}}, {}, 0.032, {}, 0.5F, dir / "empty.svg").status, REPRISE_OK);
  EXPECT_EQ(write_plot(sound, {}, 0.032, {}, 0.5F, dir / "no/a.svg").status, REPRISE_IO);
}

}  // namespace
}  // namespace vad
