// docs/glossary.md: terms are defined where it says, and words that it replaces do not come back.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(Glossary, NamesFilesThatExist) {
  std::istringstream in(text_of(source_dir() / "docs/glossary.md"));
  const std::regex quoted("`([a-z_]+/[A-Za-z0-9_/.]*)`");
  size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| ", 0) != 0 || line.size() < 3) continue;
    const std::string place = line.substr(line.rfind('|', line.size() - 2));
    for (std::sregex_iterator it(place.begin(), place.end(), quoted), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(source_dir() / (*it)[1].str())) << line;
      ++count;
    }
  }
  EXPECT_GT(count, 50U);
}

struct Replaced {
  const char* word;
  const char* instead;
};
constexpr Replaced kReplaced[] = {
    {"[Mm]atrix products?\\b", "matrix multiplication, GEMM or contraction"},
    {"\\b[Nn]arrow[-_ ]weights?\\b", "quantized weight"},
    {"\\bwide[-_ ]loads?\\b", "vector load, or load of 64 bits"},
};

TEST(Glossary, ReplacesWords) {
  for (const char* folder :
       {"apps", "backends", "codegen", "docs", "include", "python", "runtime", "shaders"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      const std::string type = entry.path().extension().string();
      if (type != ".cpp" && type != ".h" && type != ".md") continue;
      const std::string text = text_of(entry.path());
      for (const Replaced& r : kReplaced) {
        EXPECT_FALSE(std::regex_search(text, std::regex(r.word)))
            << entry.path() << " has '" << r.word << "': say " << r.instead;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
