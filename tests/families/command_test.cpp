// `reprise generate`: ids, the keys of its JSON, the cache of compiled models, and wrong usage.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise {
namespace {

using test::ProcessResult;

ProcessResult generate(const test::TempDir& cache, const std::vector<std::string>& options) {
  std::vector<std::string> argv{test::program("reprise").string(), "generate"};
  argv.insert(argv.end(), options.begin(), options.end());
  return test::run_process(argv, {"XDG_CACHE_HOME=" + cache.path().string()});
}

TEST(GenerateCommand, WritesIdsAndCompilesOnce) {
  const test::TempDir cache;
  const std::string model = (test::source_dir() / "tests/families/data/llama_q4_1.gguf").string();
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

TEST(GenerateCommand, RefusesWhatItCannotDo) {
  const test::TempDir cache;
  const std::string model = (test::source_dir() / "tests/families/data/llama").string();
  const auto refuses = [&](const std::vector<std::string>& options, int status,
                           const std::string& word) {
    const ProcessResult r = generate(cache, options);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
  };
  refuses({model}, 2, "--prompt");
  refuses({model, "--ids", "1,x"}, 2, "'x'");
  refuses({model, "--ids", "1", "--max-tokens", "0"}, 2, "--max-tokens");
  refuses({model, "--ids", "1,40", "--device", "host"}, 3, "the id 40");
  refuses({"absent.gguf", "--ids", "1", "--device", "host"}, 4, "absent.gguf");
}

}  // namespace
}  // namespace reprise
