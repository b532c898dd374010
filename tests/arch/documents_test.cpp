// The documents name files and headings that exist, and the table of rooms has each room, so that
// what moves takes its description along.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// README.md and what is in docs/, and the READMEs of rooms.
std::vector<fs::path> documents() {
  std::vector<fs::path> out = {source_dir() / "README.md", source_dir() / "CHANGELOG.md"};
  for (const char* folder :
       {"docs", "runtime", "backends", "capi", "codegen", "shaders", "apps", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder))
      if (entry.path().extension() == ".md") out.push_back(entry.path());
  }
  return out;
}

struct Document {
  std::vector<std::string> prose;  // lines that are not in blocks of code
  std::set<std::string> anchors;   // of its headings, as GitHub makes them
};

std::string anchor_of(const std::string& heading) {
  std::string out;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      out += '-';
  }
  return out;
}

Document read_document(const fs::path& file) {
  Document out;
  std::ifstream in(file);
  bool in_code = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) in_code = !in_code;
    if (in_code) continue;
    out.prose.push_back(line);
    const size_t text = line.find_first_not_of('#');
    if (line.starts_with("#") && text != std::string::npos && line[text] == ' ')
      out.anchors.insert(anchor_of(line.substr(text + 1)));
  }
  return out;
}

std::vector<std::string> matches(const std::string& line, const std::regex& pattern) {
  std::vector<std::string> out;
  for (std::sregex_iterator it(line.begin(), line.end(), pattern), end; it != end; ++it)
    out.push_back((*it)[1]);
  return out;
}

/// Empty if the link of a document leads to a file, and to a heading if it names one.
std::string broken_link(const fs::path& file, const std::string& link) {
  if (link.find("://") != std::string::npos) return {};
  const size_t hash = link.find('#');
  const std::string path = link.substr(0, hash);
  const fs::path target = path.empty() ? file : file.parent_path() / path;
  if (!fs::exists(target)) return "there is no " + path;
  if (hash == std::string::npos || target.extension() != ".md") return {};
  const std::string anchor = link.substr(hash + 1);
  return read_document(target).anchors.contains(anchor) ? "" : "there is no heading " + anchor;
}

/// Whether a path that a document quotes exists, as seen from the root or from its own
/// folder. A NAME stands for any.
bool is_there(const fs::path& file, const std::string& path) {
  if (std::regex_search(path, std::regex("NAME|\\bname\\."))) return true;
  return fs::exists(source_dir() / path) || fs::exists(file.parent_path() / path);
}

TEST(Documents, LinkToWhatExists) {
  const std::regex link(R"(\]\(([^)\s]+)\))");
  size_t count = 0;
  for (const fs::path& file : documents()) {
    for (const std::string& line : read_document(file).prose) {
      for (const std::string& target : matches(line, link)) {
        EXPECT_EQ(broken_link(file, target), "") << file << ": " << line;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 100U);
}

TEST(Documents, QuoteFilesThatExist) {
  const std::regex quoted("`([a-z_]+/[A-Za-z0-9_/.-]*\\.(?:cpp|h|py|def|fbs|md|txt|cmake))`");
  size_t count = 0;
  for (const fs::path& file : documents()) {
    for (const std::string& line : read_document(file).prose) {
      for (const std::string& path : matches(line, quoted)) {
        EXPECT_TRUE(is_there(file, path)) << file << " names " << path;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 100U);
}

/// The words that each row of the table of rooms in architecture.md quotes.
std::vector<std::set<std::string>> rows_of_rooms() {
  std::vector<std::set<std::string>> out;
  bool in_rooms = false;
  for (const std::string& line : read_document(source_dir() / "docs/architecture.md").prose) {
    if (line.starts_with("## ")) in_rooms = line == "## Rooms";
    if (!in_rooms || !line.starts_with("| ")) continue;
    const std::vector<std::string> quoted = matches(line, std::regex("`([^`]+)`"));
    out.emplace_back(quoted.begin(), quoted.end());
  }
  return out;
}

/// Whether a row names the room, or the rest of its path beside a folder that it is in.
bool row_names(const std::set<std::string>& row, const std::string& room) {
  if (row.contains(room)) return true;
  for (size_t at = room.find('/'); at != std::string::npos; at = room.find('/', at + 1)) {
    const std::string folder = room.substr(0, at);
    const auto is_in = [&](const std::string& other) {
      return other == folder || other.starts_with(folder + "/");
    };
    if (row.contains(room.substr(at + 1)) && std::ranges::any_of(row, is_in)) return true;
  }
  return false;
}

TEST(Documents, NameEachRoom) {
  const auto rows = rows_of_rooms();
  std::ifstream in(source_dir() / "tests/arch/rooms.txt");
  size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string room = line.substr(0, line.find(':'));
    if (line.empty() || line[0] == '#' || room.starts_with("apps/")) continue;  // apps/README.md
    const auto names_it = [&](const auto& row) { return row_names(row, room); };
    EXPECT_TRUE(std::ranges::any_of(rows, names_it))
        << "the table of rooms in docs/architecture.md has no " << room;
    ++count;
  }
  EXPECT_GT(count, 50U);
}

TEST(Documents, WhatIsMissingIsFound) {
  const fs::path file = source_dir() / "docs/architecture.md";
  EXPECT_EQ(broken_link(file, "glossary.md"), "");
  EXPECT_EQ(broken_link(file, "glossary.md#kernels"), "");
  EXPECT_NE(broken_link(file, "glossary.md#no-such-heading"), "");
  EXPECT_NE(broken_link(file, "no_such_file.md"), "");
  EXPECT_TRUE(is_there(file, "runtime/plan/plan.h"));
  EXPECT_FALSE(is_there(file, "runtime/plan/no_such_file.h"));
  EXPECT_TRUE(row_names({"runtime/run", "run/bodies"}, "runtime/run/bodies"));
  EXPECT_FALSE(row_names({"runtime/run", "bodies"}, "codegen/bodies"));
}

}  // namespace
}  // namespace reprise::test
