// Limits of product code: files of at most 800 lines, and no run of ten lines that stands twice.
// Limits of functions (60 lines, 6 parameters) are checked by clang-tidy: see .clang-tidy.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 800;
constexpr size_t kRun = 10;

struct Exception {
  std::string first, second;  // files; equal for a run within one file
  std::string reason;
};

const std::vector<Exception>& allowed_twice() {
  static const std::vector<Exception> rows = {
      {"backends/cuda/device.h", "backends/vulkan/device.h",
       "both declare that they override each function of the interface Device"},
  };
  return rows;
}

struct Line {
  size_t number;
  std::string text;
};

struct Source {
  std::string name;
  size_t lines = 0;
  std::vector<Line> code;  // without blank lines, comments and includes
};

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

bool is_code(const std::string& line) {
  return !line.empty() && line.rfind("//", 0) != 0 && line.rfind("#include", 0) != 0;
}

Source read(const fs::path& path, const std::string& name) {
  Source out{name, 0, {}};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    ++out.lines;
    line = trimmed(line);
    if (is_code(line)) out.code.push_back({out.lines, line});
  }
  return out;
}

std::vector<Source> product_code() {
  std::vector<Source> out;
  for (const char* folder :
       {"include", "runtime", "backends", "capi", "codegen", "shaders", "apps", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".hpp" && extension != ".cpp") continue;
      out.push_back(read(entry.path(), fs::relative(entry.path(), source_dir()).string()));
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

struct Place {
  const Source* source;
  size_t at;  // index into code
};

bool is_allowed(const Place& a, const Place& b) {
  const auto& rows = allowed_twice();
  return std::any_of(rows.begin(), rows.end(), [&](const Exception& e) {
    return e.first == a.source->name && e.second == b.source->name;
  });
}

std::string str(const Place& p) {
  return p.source->name + ":" + std::to_string(p.source->code[p.at].number);
}

/// Pairs of places that begin the same kRun lines, but for those that continue another pair.
std::vector<std::pair<Place, Place>> repeated(const std::vector<Source>& sources) {
  std::map<std::string, Place> seen;
  std::vector<std::pair<Place, Place>> out;
  for (const Source& s : sources) {
    for (size_t i = 0; i + kRun <= s.code.size(); ++i) {
      std::string run;
      for (size_t l = i; l < i + kRun; ++l) run += s.code[l].text + '\n';
      const Place here{&s, i};
      const auto [it, is_new] = seen.emplace(run, here);
      if (is_new) continue;
      const bool overlaps = it->second.source == &s && i < it->second.at + kRun;
      if (overlaps || is_allowed(it->second, here)) continue;
      if (!out.empty() && out.back().second.source == &s && i < out.back().second.at + kRun)
        continue;
      out.emplace_back(it->second, here);
    }
  }
  return out;
}

TEST(Limits, FilesAreShort) {
  size_t files = 0;
  for (const Source& s : product_code()) {
    ++files;
    EXPECT_LE(s.lines, kMostLines) << s.name << ": move a part that stands on its own to a file";
  }
  EXPECT_GT(files, 300U);
}

TEST(Limits, NothingIsWrittenTwice) {
  const std::vector<Source> sources = product_code();
  for (const auto& [first, second] : repeated(sources)) {
    ADD_FAILURE() << str(second) << " begins " << kRun << " lines that stand at " << str(first)
                  << " as well: let both use one function, or add an exception with its reason";
  }
}

TEST(Limits, ExceptionsAreNeeded) {
  const std::vector<Source> sources = product_code();
  for (const Exception& e : allowed_twice()) {
    std::vector<Source> two;
    for (const Source& s : sources) {
      if (s.name == e.first) two.push_back(Source{"first", s.lines, s.code});
      if (s.name == e.second) two.push_back(Source{"second", s.lines, s.code});
    }
    EXPECT_FALSE(repeated(two).empty())
        << e.first << " and " << e.second << ": the exception is stale";
  }
}

TEST(Limits, RepetitionIsFound) {
  Source a{"a.cpp", 0, {}}, b{"b.cpp", 0, {}};
  for (size_t i = 0; i < 12; ++i) {
    a.code.push_back({i + 1, "a" + std::to_string(i)});
    b.code.push_back({i + 1, i == 0 ? "b" : "a" + std::to_string(i)});
  }
  const std::vector<Source> both{a, b};
  const auto found = repeated(both);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(str(found[0].first), "a.cpp:2");
  EXPECT_EQ(str(found[0].second), "b.cpp:2");
  b.code[5].text = "another";
  EXPECT_TRUE(repeated(std::vector<Source>{a, b}).empty());
}

}  // namespace
}  // namespace reprise::test
