// `reprise generate`: ids, the keys of its JSON, the cache of compiled models, and wrong usage.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise {
namespace {

using test::ProcessResult;

std::string data(const std::string& name) {
  return (test::source_dir() / "tests/families/data" / name).string();
}

ProcessResult generate(const test::TempDir& cache, const std::vector<std::string>& options) {
  std::vector<std::string> argv{test::program("reprise").string(), "generate"};
  argv.insert(argv.end(), options.begin(), options.end());
  return test::run_process(argv, {"XDG_CACHE_HOME=" + cache.path().string()});
}

TEST(GenerateCommand, WritesIdsAndCompilesOnce) {
  const test::TempDir cache;
  const std::string model = data("llama_q4_1.gguf");
  const std::vector<std::string> options{
      model,    "--ids", "3,17,5,9,31,2,8", "--max-tokens", "5",
      "--json", "-",     "--device",        "host",         "--ignore-end"};
  const ProcessResult first = generate(cache, options);
  ASSERT_EQ(first.status, 0) << first.err;
  const auto json = nlohmann::json::parse(first.out);
  for (const char* key : {"prompt_tokens", "prompt_ms", "ids", "text", "decode_ms", "tokens_per_s",
                          "host_bytes_per_step", "launches_per_step", "submits", "device_bytes"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["prompt_tokens"], 7);
  EXPECT_EQ(json["ids"].size(), 5U);
  EXPECT_EQ(json["compiled"], true);
  const ProcessResult again = generate(cache, options);
  ASSERT_EQ(again.status, 0) << again.err;
  const auto second = nlohmann::json::parse(again.out);
  EXPECT_EQ(second["compiled"], false);
  EXPECT_EQ(second["ids"], json["ids"]);
}

/// The ids and numbers of a run on a device, or nothing without a device.
nlohmann::json run_on(const test::TempDir& cache, const std::string& device,
                      const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> options{
      model,    "--ids", "3,17,5,9,31,2,8", "--max-tokens", "9",
      "--json", "-",     "--device",        device,         "--ignore-end"};
  options.insert(options.end(), more.begin(), more.end());
  const ProcessResult r = generate(cache, options);
  EXPECT_EQ(r.status, 0) << r.err;
  return r.status == 0 ? nlohmann::json::parse(r.out) : nlohmann::json();
}

bool has_vulkan() {
  const ProcessResult r = test::run_process({test::program("reprise").string(), "devices"});
  return r.out.find("vulkan:0") != std::string::npos;
}

/// A step is one submission and moves nothing but the id.
TEST(GenerateCommand, KeepsCachesAndIdsOnTheDevice) {
  if (!has_vulkan()) GTEST_SKIP() << "there is no Vulkan device";
  const test::TempDir cache;
  const std::string model = data("llama_q4_1.gguf");
  const auto host = run_on(cache, "host", model), device = run_on(cache, "vulkan", model);
  ASSERT_FALSE(host.is_null() || device.is_null());
  EXPECT_EQ(device["ids"], host["ids"]);
  EXPECT_LT(device["host_bytes_per_step"], 64);
  EXPECT_GT(device["launches_per_step"], 0);
  EXPECT_EQ(device["submits"], 9);
}

TEST(GenerateCommand, ChoosesEquallyOnHostAndDeviceFull) {
  if (!has_vulkan()) GTEST_SKIP() << "there is no Vulkan device";
  const test::TempDir cache;
  const std::string model = data("llama_q4_1.gguf");
  const std::vector<std::string> hot{"--temperature", "3", "--top-k", "20", "--seed", "7"};
  const auto host = run_on(cache, "host", model, hot), device = run_on(cache, "vulkan", model, hot);
  ASSERT_FALSE(host.is_null() || device.is_null());
  EXPECT_EQ(device["ids"], host["ids"]);
  EXPECT_NE(device["ids"], run_on(cache, "host", model)["ids"]);
}

TEST(GenerateCommand, TakesPackagesOfModels) {
  const test::TempDir cache;
  const std::string package = (cache / "model.rpk").string();
  const ProcessResult r =
      test::run_process({test::program("reprise").string(), "compile", data("llama"), "-o", package,
                         "--targets", "host", "--no-probes"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto direct = run_on(cache, "host", data("llama")), packed = run_on(cache, "host", package);
  ASSERT_FALSE(direct.is_null() || packed.is_null());
  EXPECT_EQ(packed["ids"], direct["ids"]);
  EXPECT_EQ(packed["compiled"], false);
  const ProcessResult wrong = generate(cache, {package, "--ids", "1,40", "--device", "host"});
  EXPECT_EQ(wrong.status, 3);
  EXPECT_NE(wrong.err.find("the id 40"), std::string::npos) << wrong.err;
}

TEST(GenerateCommand, TakesAnyNumberOfTokensAndListsOfJson) {
  const test::TempDir cache;
  const std::string file = (cache / "ids").string();
  test::write_file(file, "[3, 17,\n 5, 9, 31, 2, 8]\n");
  const ProcessResult r =
      generate(cache, {data("llama"), "--ids-file", file, "--max-tokens", "9223372036854775807",
                       "--device", "host", "--ignore-end", "--json", "-"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["prompt_tokens"], 7);
  EXPECT_EQ(json["ids"].size(), 64 - 7 + 1) << "as many as the model has positions for";
}

TEST(GenerateCommand, RefusesWhatItCannotDo) {
  const test::TempDir cache;
  const std::string model = data("llama");
  const auto refuses = [&](const std::vector<std::string>& options, int status,
                           const std::string& word) {
    const ProcessResult r = generate(cache, options);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
  };
  refuses({model}, 2, "--prompt");
  refuses({model, "--ids", "1,x"}, 2, "'x'");
  refuses({model, "--ids", "1", "--max-tokens", "0"}, 2, "--max-tokens");
  refuses({model, "--prompt", "hello"}, 4, "--tokenizer");
  refuses({data("llama_q4_1.gguf"), "--prompt", "hello"}, 3, "--tokenizer");
  refuses({model, "--ids", "1,2,3", "--capacity", "2", "--device", "host"}, 3, "--capacity allows");
  const std::string many = "1" + std::string(200, ' ') + [] {
    std::string ids;
    for (int i = 0; i < 64; ++i) ids += ",1";
    return ids;
  }();
  refuses({model, "--ids", many, "--device", "host"}, 3, "the model has at most");
  const std::string file = (cache / "ids").string();
  test::write_file(file, std::string("\x1b[31m\0x", 7));
  refuses({model, "--ids-file", file}, 2, "'?[31m?x'");
  refuses({model, "--ids", "1,40", "--device", "host"}, 3, "the id 40");
  refuses({"absent.gguf", "--ids", "1", "--device", "host"}, 4, "absent.gguf");
}

}  // namespace
}  // namespace reprise
