// The parts of reprise-transcribe, without its model.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "apps/transcribe/choice.h"
#include "apps/transcribe/mel.h"
#include "apps/transcribe/weights.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace transcribe {
namespace {

namespace test = reprise::test;

std::string number(uint64_t value, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

std::string text(const std::string& value) {
  return number(value.size() + 1, 2) + value + '\0';
}

std::string variable(const std::string& name, const std::vector<uint64_t>& dims, uint64_t dtype,
                     const std::string& bytes) {
  std::string out = text(name) + number(dims.size(), 1);
  for (const uint64_t dim : dims) out += number(dim, 4);
  return out + number(dtype, 1) + number(bytes.size(), 4) + bytes;
}

std::string model_file(const std::vector<std::string>& variables) {
  std::string out = number(6, 4) + text("WhisperSpec") + number(3, 4) + number(variables.size(), 4);
  for (const std::string& v : variables) out += v;
  return out;
}

Result<WeightFile> read(const std::string& bytes) {
  const test::TempDir dir;
  test::write_file(dir / "model.bin", bytes);
  return WeightFile::read(dir / "model.bin");
}

const std::string kHalves = number(0x3C00, 2) + number(0xC000, 2) + number(0x0001, 2) +
                            number(0x7BFF, 2) + number(0x3555, 2) + number(0x8000, 2);

TEST(Weights, AreConvertedToFloats) {
  const auto file = read(model_file(
      {variable("a", {2, 3}, 4, kHalves), variable("b", {1}, 0, number(0x40490FDB, 4)),
       variable("c", {1}, 5, number(0x3FC0, 2)), variable("heads", {}, 2, number(6, 2))}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->dims("a"), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(file->dims("none").empty());
  const auto a = file->floats("a", {2, 3});
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(*a, (std::vector<float>{1, -2, std::ldexp(1.0F, -24), 65504, 0.333251953125F, -0.0F}));
  EXPECT_EQ(file->floats("b", {1})->front(), std::numbers::pi_v<float>);
  EXPECT_EQ(file->floats("c", {1})->front(), 1.5F);
  EXPECT_EQ(*file->number("heads"), 6);
  EXPECT_FALSE(file->floats("a", {3, 2}));
  EXPECT_FALSE(file->floats("none", {1}));
  EXPECT_FALSE(file->floats("heads", {})) << "integers";
  EXPECT_FALSE(file->number("a"));
}

TEST(Weights, DamagedFilesAreErrors) {
  const std::string whole = model_file({variable("a", {2, 3}, 4, kHalves)});
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto cut = read(whole.substr(0, size));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().status, REPRISE_INVALID_MODEL);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(0xFF);
    const auto file = read(changed);  // it may be right, but reads nothing outside
    if (file) (void)file->floats("a", {2, 3});
  }
  const std::string huge(4, '\xFF');
  EXPECT_FALSE(read(number(6, 4) + text("WhisperSpec") + number(3, 4) + huge));
  EXPECT_NE(read(number(5, 4)).error().message.find("version is 5"), std::string::npos);
  EXPECT_EQ(WeightFile::read("none.bin").error().status, REPRISE_IO);
}

TEST(Mel, ATriangleHasTheAreaOne) {
  const std::vector<float> filters = mel_filters(80);
  ASSERT_EQ(filters.size(), static_cast<size_t>(80 * kBins));
  size_t last_peak = 0;
  for (size_t band = 40; band < 80; ++band) {  // those that are wide enough to be sampled
    const auto row = filters.begin() + static_cast<std::ptrdiff_t>(band * kBins);
    double area = 0;
    for (int64_t bin = 0; bin < kBins; ++bin) area += static_cast<double>(row[bin]) * 40;
    EXPECT_NEAR(area, 1, 0.1) << band;
    const auto peak = static_cast<size_t>(std::max_element(row, row + kBins) - row);
    EXPECT_GT(peak, last_peak);
    last_peak = peak;
  }
}

TEST(Mel, AToneIsInItsBin) {
  const std::vector<float> waves = fourier_window();
  const auto power = [&](int64_t bin) {
    double sum[2] = {0, 0};
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t i = 0; i < kWindow; ++i)
        sum[part] +=
            static_cast<double>(waves[static_cast<size_t>((part * kBins + bin) * kWindow + i)]) *
            std::cos(2 * std::numbers::pi * 1000 * static_cast<double>(i) / kRate);
    return sum[0] * sum[0] + sum[1] * sum[1];
  };
  EXPECT_NEAR(power(25), 10000, 1);  // (400 / 4) squared: a Hann window halves the amplitude
  EXPECT_LT(power(30), 1e-3);
}

TEST(Mel, EndsOfAChunkAreMirrored) {
  std::vector<float> samples(static_cast<size_t>(kChunk) + 500);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i);
  const std::vector<float> first = padded_chunk(samples, 0);
  ASSERT_EQ(first.size(), static_cast<size_t>(kPadded));
  EXPECT_EQ(first[0], 200);
  EXPECT_EQ(first[199], 1);
  EXPECT_EQ(first[200], 0);
  EXPECT_EQ(first.back(), static_cast<float>(kChunk - 41)) << "mirrored at the end of the chunk";
  const std::vector<float> last = padded_chunk(samples, static_cast<size_t>(kChunk));
  EXPECT_EQ(last[200], static_cast<float>(kChunk));
  EXPECT_EQ(last[200 + 500], 0) << "silence";
}

/// Five words, an end, three special tokens and times.
Vocabulary small_vocabulary() {
  const test::TempDir dir;
  std::string tokens =
      "a\n\xC4\xA0"
      "b\n\xC3\x83\n\xC2\xA9\nx\n<|endoftext|>\n<|startoftranscript|>\n"
      "<|nospeech|>\n<|notimestamps|>\n";
  for (int i = 0; i < 101; ++i) {
    char time[32];
    std::snprintf(time, sizeof time, "<|%.2f|>\n", i * 0.02);
    tokens += time;
  }
  test::write_file(dir / "vocabulary.txt", tokens);
  test::write_file(dir / "config.json", R"({"suppress_ids": [-1, 4], "suppress_ids_begin": [5]})");
  const auto v = Vocabulary::read(dir / "vocabulary.txt", dir / "config.json");
  EXPECT_TRUE(v) << v.error().message;
  test::write_file(dir / "config.json", R"({"suppress_ids": [400]})");
  EXPECT_FALSE(Vocabulary::read(dir / "vocabulary.txt", dir / "config.json"));
  test::write_file(dir / "config.json", "{}");
  test::write_file(dir / "vocabulary.txt",
                   "<|notimestamps|>\n<|0.00|>\n<|endoftext|>\n<|startoftranscript|>\n");
  EXPECT_FALSE(Vocabulary::read(dir / "vocabulary.txt", dir / "config.json")) << "wrong order";
  test::write_file(dir / "vocabulary.txt", "a\nb\n");
  EXPECT_FALSE(Vocabulary::read(dir / "vocabulary.txt", dir / "config.json"));
  return *v;
}

/// GPT-2 writes the bytes ESC and BEL as the characters U+011B and U+0107.
TEST(Tokens, CannotSteerATerminal) {
  const test::TempDir dir;
  test::write_file(dir / "vocabulary.txt",
                   "\xC4\xA0\xC4\x9B[31ma\n\xC4\x87\n<|endoftext|>\n<|startoftranscript|>\n"
                   "<|nospeech|>\n<|notimestamps|>\n<|0.00|>\n");
  test::write_file(dir / "config.json", "{}");
  const auto v = Vocabulary::read(dir / "vocabulary.txt", dir / "config.json");
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ(v->text({0, 1}), " \x1b[31ma\x07");
  EXPECT_EQ(v->shown({0, 1, 0}), "[31ma [31ma");
}

TEST(Tokens, HaveBytes) {
  const Vocabulary v = small_vocabulary();
  EXPECT_EQ(v.end, 5);
  EXPECT_EQ(v.no_speech, 7);
  EXPECT_EQ(v.first_time, 9);
  EXPECT_EQ(v.text({0, 1, 2, 3, 5, 9, -1, 1000}), "a b\xC3\xA9");
}

TEST(Tokens, TimesAreInOrder) {
  const Vocabulary v = small_vocabulary();
  const auto next = [&](const std::vector<int64_t>& chosen, std::vector<int64_t> likely) {
    std::vector<float> logits(v.size(), 0);
    float height = 60;
    for (const int64_t token : likely) logits[static_cast<size_t>(token)] = height -= 10;
    return choose(logits, chosen, v, true).token;
  };
  EXPECT_EQ(next({}, {0, 5, 9 + 60, 9 + 3}), 9 + 3) << "a time of at most 1 s comes first";
  EXPECT_EQ(next({9}, {9 + 5, 4, 0}), 0) << "words follow it, but none that is suppressed";
  EXPECT_EQ(next({9, 0}, {9 + 2, 0}), 9 + 2);
  EXPECT_EQ(next({9, 0, 9 + 2}, {0, 9 + 1, 9 + 2}), 9 + 2) << "an end is followed by a beginning";
  EXPECT_EQ(next({9, 0, 9 + 2}, {0, 5}), 5) << "or by the end";
  EXPECT_EQ(next({9, 0, 9 + 2, 9 + 2}, {9 + 5, 1}), 1);
  EXPECT_EQ(next({9, 0, 9 + 2, 9 + 2, 1}, {9 + 2, 9 + 3}), 9 + 3) << "a part is not empty";
  // All times together are likelier than the likeliest word.
  std::vector<float> logits(v.size(), 0);
  logits[0] = 2;
  EXPECT_GE(choose(logits, {9, 0}, v, true).token, v.first_time);
  logits.assign(v.size(), 0);
  logits[0] = 2;
  const Choice word = choose(logits, {}, v, false);
  EXPECT_EQ(word.token, 0) << "without times";
  EXPECT_LT(word.log_probability, 0);
}

TEST(Tokens, AreCutIntoSegments) {
  const Vocabulary v = small_vocabulary();
  double next = 0;
  auto s = segments_of({9, 0, 1, 9 + 50, 9 + 50, 2, 9 + 75}, v, 30, next);
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0].tokens, (std::vector<int64_t>{0, 1}));
  EXPECT_NEAR(s[0].end, 1, 1e-9);
  EXPECT_NEAR(s[1].begin, 1, 1e-9);
  EXPECT_NEAR(s[1].end, 1.5, 1e-9);
  EXPECT_EQ(next, 30) << "the rest is silent";
  s = segments_of({9, 0, 9 + 50, 9 + 50, 2}, v, 30, next);
  ASSERT_EQ(s.size(), 1u);
  EXPECT_NEAR(next, 1, 1e-9) << "the second part is heard again";
  s = segments_of({9, 0, 1}, v, 3, next);
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].end, 3);
  EXPECT_EQ(next, 3);
  EXPECT_TRUE(segments_of({}, v, 3, next).empty());
  EXPECT_EQ(next, 3);
}

TEST(Program, SaysWhatIsWrong) {
  const test::TempDir dir;
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::program("reprise-transcribe"));
    return test::run_process(arguments);
  };
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"none.wav"}).status, 4);
  test::write_file(dir / "no.wav", "RIFF");
  EXPECT_EQ(run({dir / "no.wav"}).status, 3);
  EXPECT_NE(run({"--help"}).out.find("tools/models whisper"), std::string::npos);
}

}  // namespace
}  // namespace transcribe
