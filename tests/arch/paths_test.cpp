// Text is UTF-8, which the standard library does not expect in paths on Windows: there is one way
// from text to a path, and one back (runtime/platform/path.h; for samples, apps/samples/path.h).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// Of what converts implicitly, only streams: compilers for Linux accept that without a warning.
bool takes_chars_for_a_path(const std::string& line) {
  static const std::regex pattern(
      R"(\b(fs|filesystem)::(u8)?path\(|\b(fs|filesystem)::path \w+\([\w.]+\);|\.(generic_)?string\(\)|\bfopen\(|fstream \w+\(\w+[,)])");
  return std::regex_search(line, pattern);
}

/// Of the samples, files of the C library are right: their code page is UTF-8
/// (apps/samples/utf8.rc).
bool is_exempt(const std::string& file, const std::string& line) {
  if (file.starts_with("runtime/platform/") || file.ends_with("samples/path.h")) return true;
  const bool sample = file.starts_with("apps/") && !file.starts_with("apps/reprise/") &&
                      !file.starts_with("apps/common/") && !file.starts_with("apps/bisect/");
  // These open streams with variables that are paths.
  if (file == "apps/bisect/onnxruntime.cpp" || file == "apps/reprise/machine_code.cpp")
    return line.find("ifstream in(") != std::string::npos;
  return sample && line.find("fopen(") != std::string::npos;
}

TEST(Paths, AreMadeFromUtf8) {
  size_t files = 0;
  for (const char* folder : {"runtime", "backends", "codegen", "shaders", "apps", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string name = fs::relative(entry.path(), source_dir());
      ++files;
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        if (!takes_chars_for_a_path(line) || is_exempt(name, line)) continue;
        ADD_FAILURE() << name << ":" << number << ": use utf8_path() or utf8_text(): " << line;
      }
    }
  }
  EXPECT_GT(files, 300U);
}

TEST(Paths, TheWrongWaysAreFound) {
  for (const char* line :
       {"fs::path(name)", "const std::filesystem::path path(name);", "path.filename().string()",
        "std::fopen(name, \"rb\")", "std::ifstream in(path, std::ios::binary);"})
    EXPECT_TRUE(takes_chars_for_a_path(line)) << line;
  for (const char* line : {"utf8_path(name)", "fs::path path = utf8_path(name);", "to_string(i)",
                           "std::ofstream out(utf8_path(path), std::ios::binary);"})
    EXPECT_FALSE(takes_chars_for_a_path(line)) << line;
}

}  // namespace
}  // namespace reprise::test
