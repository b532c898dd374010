// The parts of reprise-say, without its model.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/samples/kept_package.h"
#include "apps/samples/wav.h"
#include "apps/say/phonemes.h"
#include "apps/say/plot.h"
#include "apps/say/voice.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace say {
namespace {

namespace test = reprise::test;

constexpr const char* kVoice =
    R"({"audio": {"sample_rate": 16000}, "espeak": {"voice": "de"}, "phoneme_type": "espeak",
        "inference": {"noise_scale": 0.5, "length_scale": 1.5, "noise_w": 0.25}, "num_speakers": 3,
        "phoneme_id_map": {"_": [0], "^": [1], "$": [2], " ": [3], "a": [14], "ə": [59, 60]}})";

/// What is wrong with a voice in which `from` is replaced.
Error error_of(const std::string& from, const std::string& to) {
  const test::TempDir dir;
  std::string text = kVoice;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  test::write_file(dir / "voice.json", text.replace(at, from.size(), to));
  const Result<Voice> voice = Voice::read(dir / "voice.json");
  return voice ? Error() : voice.error();
}

TEST(Voice, SaysHowItIsSpoken) {
  const test::TempDir dir;
  test::write_file(dir / "voice.json", kVoice);
  const Result<Voice> voice = Voice::read(dir / "voice.json");
  ASSERT_TRUE(voice) << voice.error().message;
  EXPECT_EQ(voice->espeak, "de");
  EXPECT_EQ(voice->rate, 16000);
  EXPECT_EQ(voice->speakers, 3);
  EXPECT_EQ(voice->style.noise, 0.5F);
  EXPECT_EQ(voice->style.length, 1.5F);
  EXPECT_EQ(voice->style.rhythm_noise, 0.25F);
  std::string unknown;
  const auto ids = voice->ids_of("a ə\u0301a", unknown);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, (std::vector<int64_t>{1, 0, 14, 0, 3, 0, 59, 60, 0, 14, 0, 2}));
  EXPECT_EQ(unknown, "\u0301");
  EXPECT_FALSE(voice->ids_of("xyz", unknown)) << "nothing to say";
  EXPECT_FALSE(voice->ids_of("", unknown));
  EXPECT_FALSE(voice->ids_of("\xC9\x80\x80", unknown)) << "damaged UTF-8";
}

TEST(Voice, BadDescriptionsAreErrors) {
  EXPECT_EQ(Voice::read("none.json").error().status, REPRISE_IO);
  EXPECT_EQ(error_of("{\"audio\"", "[{\"audio\"").status, REPRISE_INVALID_INPUT) << "no JSON";
  const std::pair<const char*, const char*> cases[] = {{"16000", "0"},
                                                       {"16000", "\"x\""},
                                                       {"\"de\"", "[1]"},
                                                       {"\"espeak\",", "\"text\","},
                                                       {"0.5", "-1"},
                                                       {"1.5", "null"},
                                                       {"0.25", "1e99"},
                                                       {"3,", "0,"},
                                                       {"[14]", "[-1]"},
                                                       {"[14]", "[]"},
                                                       {"[14]", "[70000]"},
                                                       {"[14]", "14"},
                                                       {"\"_\"", "\"-\""},
                                                       {"\"$\"", "\"&\""},
                                                       {"\"phoneme_id_map\"", "\"map\""}};
  for (const auto& [from, to] : cases) {
    const Error e = error_of(from, to);
    EXPECT_EQ(e.status, REPRISE_INVALID_INPUT) << from << " -> " << to;
    EXPECT_NE(e.message.find("voice.json does not describe a voice"), std::string::npos);
  }
}

TEST(Phonemes, HaveSentencesAndMarks) {
  const auto of = [](const std::string& text) { return phonemes_of(text, "en-us"); };
  const auto hello = of("Hello, world; this is Dr. Smith: it costs 3.5 dollars! Really? Yes");
  if (!hello && hello.error().status == REPRISE_UNSUPPORTED) GTEST_SKIP() << hello.error().message;
  ASSERT_TRUE(hello) << hello.error().message;
  EXPECT_EQ(*hello,
            (std::vector<std::string>{
                "həlˈoʊ, wˈɜːld; ðɪs ɪz dˈɑːktɚ smˈɪθ: ɪt kˈɔsts θɹˈiː pɔɪnt fˈaɪv dˈɑːlɚz!",
                "ɹˈiəli?", "jˈɛs."}));
  EXPECT_EQ(*of("I said \"no\". (Why) not"),
            (std::vector<std::string>{"aɪ sˈɛd nˈoʊ.", "wˌaɪ nˈɑːt."}));
  for (const char* nothing : {"", " ", "...", "\n\n", "\x01\x02"})
    EXPECT_TRUE(of(nothing)->empty()) << nothing;
  EXPECT_TRUE(of("\xFF\xFE caf\xC3")) << "damaged UTF-8";
  EXPECT_EQ(phonemes_of("hello", "no-such-voice").error().status, REPRISE_UNSUPPORTED);
  EXPECT_EQ(phonemes_of("Straße", "de")->front(), "ʃtɾˈɑːsə.");
}

TEST(Phonemes, EachLetterOfALongTextIsRead) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "One, two. ";
  const auto sentences = phonemes_of(text, "en-us");
  if (!sentences) GTEST_SKIP() << sentences.error().message;
  ASSERT_EQ(sentences->size(), 300u);
  for (const std::string& sentence : *sentences) EXPECT_EQ(sentence, "wˈʌn, tˈuː.");
}

TEST(Sound, IsWrittenAsItIsRead) {
  const test::TempDir dir;
  const samples::Sound sound{22050, {0, 0.5F, -0.5F, 1, -1, 2, -2}};
  ASSERT_EQ(samples::write_wav(sound, dir / "a.wav").status, REPRISE_OK);
  const auto read = samples::read_wav(dir / "a.wav");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->rate, 22050);
  ASSERT_EQ(read->samples.size(), 7u);
  for (size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(read->samples[i], std::clamp(sound.samples[i], -1.0F, 1.0F), 1e-4F) << i;
  EXPECT_EQ(samples::write_wav(sound, dir / "no/a.wav").status, REPRISE_IO);
}

TEST(Plot, ShowsSentences) {
  const test::TempDir dir;
  const samples::Sound sound{1000, std::vector<float>(2000, 0.5F)};
  ASSERT_EQ(write_plot(sound, {{"a<b", 0, 0.5}, {"ə", 1, 2}}, dir / "a.svg").status, REPRISE_OK);
  const std::string svg = test::read_file(dir / "a.svg");
  EXPECT_NE(svg.find(">a&lt;b<"), std::string::npos);
  EXPECT_NE(svg.find("x=\"450.0\" y=\"30.0\" width=\"434.0\""), std::string::npos) << svg;
  EXPECT_EQ(write_plot({1000, {}}, {}, dir / "empty.svg").status, REPRISE_OK);
}

TEST(Program, SaysWhatIsWrong) {
  const test::TempDir dir;
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::program("reprise-say"));
    return test::run_process(arguments);
  };
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"hello", "--speed", "0"}).status, 2);
  EXPECT_EQ(run({"hello", "--phonemes", "a"}).status, 2) << "one of the two";
  const test::ProcessResult none = run({"hello", "--voice", dir / "none.onnx"});
  EXPECT_EQ(none.status, 4);
  EXPECT_NE(none.err.find("tools/models voice"), std::string::npos) << none.err;
  test::write_file(dir / "bad.onnx.json", kVoice);
  const test::ProcessResult no_model = run({"--phonemes", "a", "--voice", dir / "bad.onnx"});
  EXPECT_EQ(no_model.status, 4);
  EXPECT_NE(no_model.err.find("tools/models voice"), std::string::npos) << no_model.err;
  test::write_file(dir / "bad.onnx", "no model");
  EXPECT_EQ(run({"--phonemes", "a", "--voice", dir / "bad.onnx"}).status, 3);
  EXPECT_NE(run({"--help"}).out.find("Examples: reprise-say"), std::string::npos);
}

/// Compiles a graph of one node for the targets, and counts how often.
struct Compiler {
  samples::KeptPackage kept;
  int count = 0;

  Error open(const std::vector<std::string>& targets) {
    kept.targets = targets;
    const Result<reprise::Package> package =
        kept.open([&](const std::string&, const reprise_compile_options* options) {
          ++count;
          Result<reprise::Graph> graph = reprise::Graph::create();
          if (!graph) return Result<reprise::Package>(graph.error());
          const int32_t x = *graph->input("x", REPRISE_F32, {"4"});
          (void)graph->output("y", *graph->node("Relu", {x}));
          return reprise::compile_graph(*graph, options);
        });
    return package ? Error() : package.error();
  }
};

TEST(KeptPackage, IsCompiledAgainForOtherTargets) {
  const test::TempDir dir;
  test::write_file(dir / "model", "whose content the compiler does not need");
  Compiler compiler;
  compiler.kept.model = dir / "model";
  compiler.kept.package = dir / "model.rpk";
  const struct {
    std::vector<std::string> targets;
    int count;  // of compilations so far
  } calls[] = {
      {{}, 1},
      {{}, 1},
      {{"host"}, 2},
      {{"host"}, 2},
      {{}, 2},  // any package is right
      {{"vulkan-cpu", "host"}, 3},
      {{"host", "vulkan-cpu"}, 3},
      {{"vulkan-cpu"}, 4},
      {{"host", "vulkan-cpu"}, 5},
  };
  for (const auto& call : calls) {
    const Error error = compiler.open(call.targets);
    ASSERT_EQ(error.status, REPRISE_OK) << error.message;
    EXPECT_EQ(compiler.count, call.count);
  }
  // The model is gone, so the package is used whatever its targets are.
  std::filesystem::remove(dir / "model");
  EXPECT_EQ(compiler.open({"host"}).status, REPRISE_OK);
  EXPECT_EQ(compiler.count, 5);
}

}  // namespace
}  // namespace say
