#include "apps/filetype/features.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/filetype/plot.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace filetype {
namespace {

namespace test = reprise::test;

using Json = nlohmann::json;

FileBlocks blocks(const std::string& content, const Config& c) {
  FileBlocks f;
  f.size = content.size();
  const size_t n = std::min(content.size(), c.block_size);
  f.head = content.substr(0, n);
  f.tail = content.substr(content.size() - n);
  return f;
}

Config small_config() {
  Config c;
  c.beg_size = 8;
  c.end_size = 4;
  c.block_size = 16;
  c.min_file_size = 4;
  c.labels = {"c", "zip", "randomtxt", "markdown"};
  c.thresholds = {{"markdown", 0.75}};
  c.overwrites = {{"randomtxt", "txt"}};
  c.is_text = {{"c", true}, {"txt", true}, {"markdown", true}, {"zip", false}};
  return c;
}

std::vector<int32_t> features_of(const std::string& content) {
  return extract(blocks(content, small_config()), small_config()).features;
}

std::string settled(const std::string& content) {
  const Extracted e = extract(blocks(content, small_config()), small_config());
  return e.settled ? e.settled->label : "";
}

TEST(Features, ShortFilesArePadded) {
  const std::vector<int32_t> expected = {'a', 'b', 'c', 'd', 'e', ' ',
                                         256, 256, 'b', 'c', 'd', 'e'};
  EXPECT_EQ(features_of(" \n\vabcde "), expected);
  const std::vector<int32_t> four = {'a', 'b', 'c', 'd', 256, 256, 256, 256, 'a', 'b', 'c', 'd'};
  EXPECT_EQ(features_of("abcd"), four);
}

TEST(Features, LongFilesGiveTheirEnds) {
  const std::vector<int32_t> expected = {'a', 'b', 'c', 'd', 'e', 'f',
                                         'g', 'h', 'w', 'x', 'y', 'z'};
  EXPECT_EQ(features_of("abcdefghijklmnopqrstuvwxyz\n"), expected);
}

TEST(Features, TailOfWhiteSpaceIsPadding) {
  const std::vector<int32_t> f = features_of("abcdefgh" + std::string(30, ' '));
  EXPECT_EQ(std::vector<int32_t>(f.begin() + 8, f.end()),
            (std::vector<int32_t>{256, 256, 256, 256}));
}

TEST(Features, BytesAreUnsigned) {
  EXPECT_EQ(features_of("\xff\x80zz")[0], 255);
}

TEST(Features, TooLittleContentIsSettled) {
  EXPECT_EQ(settled(""), "empty");
  EXPECT_EQ(settled("abc"), "txt");
  EXPECT_EQ(settled("\xff"), "unknown");
  EXPECT_EQ(settled(std::string(100, '\n')), "txt");
  EXPECT_EQ(settled(std::string(14, ' ') + "ab"), "txt");
  EXPECT_EQ(settled(std::string(14, ' ') + "\xff\xff"), "unknown");
  EXPECT_EQ(settled("abcd"), "");
}

TEST(Decide, ThresholdsDependOnTheMode) {
  const Config c = small_config();
  const std::vector<float> weak = {0.1f, 0.4f, 0.2f, 0.3f};
  EXPECT_EQ(decide(weak, c, Mode::HighConfidence).label, "unknown");
  EXPECT_EQ(decide(weak, c, Mode::BestGuess).label, "zip");
  const std::vector<float> markdown = {0.1f, 0.1f, 0.1f, 0.7f};
  EXPECT_EQ(decide(markdown, c, Mode::HighConfidence).label, "txt");
  EXPECT_EQ(decide(markdown, c, Mode::MediumConfidence).label, "markdown");
  const std::vector<float> random = {0, 0, 0.9f, 0.1f};
  EXPECT_EQ(decide(random, c, Mode::HighConfidence).label, "txt");
  EXPECT_FLOAT_EQ(static_cast<float>(decide(random, c, Mode::HighConfidence).score), 0.9f);
}

TEST(Config, HostileFilesAreErrors) {
  test::TempDir dir;
  const std::string good =
      R"({"beg_size":8,"mid_size":0,"end_size":4,"block_size":16,"min_file_size_for_dl":4,)"
      R"("padding_token":256,"medium_confidence_threshold":0.5,"target_labels_space":["c"],)"
      R"("thresholds":{"c":0.9},"overwrite_map":{"c":"txt"}})";
  const auto read = [&](const std::string& config, const std::string& types = "{}") {
    test::write_file(dir / "config.json", config);
    test::write_file(dir / "types.json", types);
    return read_config(dir / "config.json", dir / "types.json");
  };
  ASSERT_TRUE(read(good)) << read(good).error().message;
  EXPECT_TRUE(read(good, R"({"c":{"is_text":true}})")->is_text.at("c"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string s = good;
    return s.replace(s.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {std::string("junk"), std::string("[]"), std::string(),
        with("\"mid_size\":0", "\"mid_size\":8"), with("\"beg_size\":8", "\"beg_size\":-1"),
        with("\"beg_size\":8", "\"beg_size\":99"), with("\"beg_size\":8", "\"beg_size\":\"8\""),
        with("_for_dl\":4", "_for_dl\":0"), with("[\"c\"]", "[]"), with("[\"c\"]", "[1]"),
        with("0.9", "\"x\""), with("\"txt\"", "3")}) {
    const Result<Config> r = read(bad);
    ASSERT_FALSE(r) << bad;
    EXPECT_NE(r.error().message.find("config.json"), std::string::npos);
  }
  EXPECT_EQ(read_config(dir / "absent", dir / "types.json").error().status, REPRISE_IO);
}

/// Files of many kinds for the comparison with Magika's own package.
std::vector<std::string> make_corpus(const test::TempDir& dir) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& name, const std::string& content) {
    test::write_file(dir / name, content);
    files.push_back(dir / name);
  };
  add("empty", "");
  add("one", "a");
  add("seven", "abcdefg");
  add("eight", "abcdefgh");
  add("spaces", std::string(5000, ' '));
  add("newlines", "\r\n\r\n\t\v\f ");
  add("late", std::string(4090, '\n') + "int main() {}");
  add("latin1", "caf\xe9");
  add("cut_utf8", std::string(4095, ' ') + "\xc3\xa9");
  add("zeros", std::string(3000, '\0'));
  std::string binary, text = "# Title\n\n";
  for (int i = 0; i < 9000; ++i) binary += static_cast<char>((i * i * 31 + i) >> 3);
  for (int i = 0; i < 400; ++i) text += "Some *prose* with number " + std::to_string(i) + ".\n";
  add("binary", binary);
  add("prose.md", text);
  add("trailing", text + std::string(6000, '\n'));
  add("page.html", "<!DOCTYPE html>\n<html><head><title>x</title></head><body>" + text + "</body>");
  add("data.json", "{\"a\": [1, 2, 3], \"b\": {\"c\": null}}\n");
  add("script", "#!/bin/sh\nset -e\nfor f in *; do echo \"$f\"; done\n");
  for (const char* own :
       {"README.md", "CMakeLists.txt", "tools/setup", "codegen/compile/compiler.h",
        "codegen/onnx/onnx_minimal.proto", "CMakePresets.json", "tests/CMakeLists.txt",
        "runtime/session/session.h", "bench/CMakeLists.txt"}) {
    files.push_back(test::source_dir() / own);
  }
  files.push_back(test::program("reprise-filetype"));
  return files;
}

constexpr const char* kOracle = R"(
import json, sys
from pathlib import Path
import magika
m = magika.Magika()
out = {}
for path in sys.argv[1:]:
    r = m.identify_path(path)
    out[path] = [str(r.output.label), float(r.score)]
print(json.dumps({"folder": str(Path(magika.__file__).parent), "files": out}))
)";

/// The Python that has magika 1.0.3: $REPRISE_MAGIKA_PYTHON, else python3. Empty when neither has.
std::string magika_python() {
  std::vector<std::string> candidates{"/usr/bin/python3", "/usr/local/bin/python3"};
  if (const char* chosen = std::getenv("REPRISE_MAGIKA_PYTHON")) candidates = {chosen};
  for (const std::string& python : candidates) {
    const test::ProcessResult r = test::run_process(
        {python, "-c", "import importlib.metadata as m; print(m.version('magika'))"});
    if (r.status == 0 && r.out == "1.0.3\n") return python;
  }
  return "";
}

TEST(Oracle, AgreesWithMagikasOwnPackage) {
  const std::string python = magika_python();
  if (python.empty()) GTEST_SKIP() << "no Python with magika 1.0.3 to compare with";
  test::TempDir dir;
  const std::vector<std::string> files = make_corpus(dir);
  std::vector<std::string> ask{python, "-c", kOracle};
  ask.insert(ask.end(), files.begin(), files.end());
  const test::ProcessResult answer = test::run_process(ask);
  ASSERT_EQ(answer.status, 0) << answer.err;
  const Json oracle = Json::parse(answer.out);
  const std::string folder = oracle["folder"];
  const std::string model = folder + "/models/standard_v3_3/";
  const std::string package = dir / "magika.rpk";
  const test::ProcessResult compiled =
      test::run_process({test::program("reprise"), "compile", model + "model.onnx", "-o", package});
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  for (const char* device : {"host", "vulkan"}) {
    std::vector<std::string> argv{test::program("reprise-filetype"),
                                  "--model",
                                  package,
                                  "--config",
                                  model + "config.min.json",
                                  "--types",
                                  folder + "/config/content_types_kb.min.json",
                                  "--device",
                                  device,
                                  "--json",
                                  "-"};
    argv.insert(argv.end(), files.begin(), files.end());
    const test::ProcessResult r = test::run_process(argv);
    ASSERT_EQ(r.status, 0) << r.err;
    for (const Json& row : Json::parse(r.out)["files"]) {
      const Json& expected = oracle["files"][row["file"].get<std::string>()];
      EXPECT_EQ(row["type"], expected[0]) << row["file"] << " on " << device;
      EXPECT_NEAR(row["score"].get<double>(), expected[1].get<double>(), 1e-3) << row["file"];
    }
  }
}

TEST(Plot, HasABarForEachOfTheLargestTypes) {
  std::map<std::string, Share> types{
      {"c<d>", {1, 2000}}, {"zip", {2, 9'500'000}}, {"empty", {3, 0}}};
  const test::TempDir dir;
  ASSERT_EQ(write_plot(types, dir / "a.svg").status, REPRISE_OK);
  std::string svg = test::read_file(dir / "a.svg");
  const size_t first = svg.find(">zip<"), second = svg.find(">c&lt;d>"),
               third = svg.find(">empty<");
  EXPECT_LT(first, second) << svg;
  EXPECT_LT(second, third) << svg;
  EXPECT_NE(svg.find(">2 files, 9.5 MB<"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">1 file, 2.0 kB<"), std::string::npos) << svg;
  EXPECT_NE(svg.find("width=\"480.0\""), std::string::npos) << svg;
  for (uint64_t i = 0; i < 30; ++i) types["type" + std::to_string(i)] = {1, 100 + i};
  ASSERT_EQ(write_plot(types, dir / "b.svg").status, REPRISE_OK);
  svg = test::read_file(dir / "b.svg");
  size_t bars = 0;
  for (size_t at = 0; (at = svg.find("class=\"bar\"", at)) != std::string::npos; ++at) ++bars;
  EXPECT_EQ(bars, 20);
  EXPECT_NE(svg.find(">others<"), std::string::npos) << svg;
  EXPECT_EQ(write_plot({}, dir / "none.svg").status, REPRISE_OK);
  EXPECT_EQ(write_plot(types, dir / "no/a.svg").status, REPRISE_IO);
}

}  // namespace
}  // namespace filetype
