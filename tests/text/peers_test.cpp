// Tokenizers and chat templates against the packages `tokenizers` and `jinja2`, where
// tools/text-peers has installed them.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// Runs a script of peer/ in the environment of tools/text-peers, and expects that it finds
/// nothing.
void compare(const std::string& script, std::vector<std::string> arguments) {
  const fs::path folder = source_dir() / ".cache/text-peers";
  if (!fs::exists(folder / "bin/python"))
    GTEST_SKIP() << "tools/text-peers --model has not made the environment";
  std::vector<std::string> command{(folder / "bin/python").string(),
                                   (source_dir() / "tests/text/peer" / script).string(),
                                   program("text_peer").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const fs::path model = folder / "smollm2.gguf";
  if (script == "compare.py" && fs::exists(model)) {
    command.emplace_back("--gguf");
    command.push_back(model.string());
  }
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.status, 0) << result.out.substr(0, 20000) << result.err;
  EXPECT_NE(result.out.find(", 0 differ"), std::string::npos) << result.out << result.err;
}

TEST(Peers, TokenizersFull) {
  const TempDir dir;
  compare("compare.py", {dir.path().string(), "--count", "100000"});
}

TEST(Peers, TemplatesFull) {
  compare("compare_templates.py",
          {(source_dir() / "tests/text/templates").string(), "--count", "20000"});
}

}  // namespace
}  // namespace reprise::test
