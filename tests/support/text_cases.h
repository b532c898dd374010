// Tests as data: files of a source graph, a line of dashes and what is expected of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::test {

struct TextCase {
  std::filesystem::path file;
  std::string heading;   // the first line, without "// "
  std::string source;    // up to the line of dashes, the heading included
  std::string expected;  // after it
};

/// All *.txt files of a folder, sorted. With REPRISE_REWRITE_CASES set in the environment,
/// rewrite() replaces the expectation, for review with git diff; else it only compares.
std::vector<TextCase> text_cases(const std::filesystem::path& folder);
bool rewriting();
void rewrite(const TextCase& c, const std::string& actual);

}  // namespace reprise::test
