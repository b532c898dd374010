// Dependencies point in one direction. rooms.txt says which rooms (folders) a room may include;
// this test reads every #include line of the product and fails on an arrow that the table does not
// have.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 40;   // of a room
constexpr size_t kMostFloors = 12;  // of the rooms below runtime/, and below codegen/
constexpr size_t kMostArrows = 60;  // likewise, between folders directly below

struct Room {
  std::string folder;
  std::set<std::string> rooms;
  std::vector<std::string> headers;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<Room> read_table() {
  std::vector<Room> out;
  std::ifstream in(source_dir() / "tests/arch/rooms.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':'), bar = line.find('|');
    const std::vector<std::string> rooms = words(line.substr(colon + 1, bar - colon - 1));
    out.push_back({line.substr(0, colon), {rooms.begin(), rooms.end()}, {}});
    if (bar != std::string::npos) out.back().headers = words(line.substr(bar + 1));
  }
  return out;
}

const std::vector<Room>& table() {
  static const std::vector<Room> rooms = read_table();
  return rooms;
}

const Room* room_of(const std::string& folder) {
  const auto at = std::ranges::find(table(), folder, &Room::folder);
  return at == table().end() ? nullptr : &*at;
}

std::string folder_of(const fs::path& file) {
  return file.parent_path().generic_string();
}

struct Include {
  fs::path file;
  int line = 0;
  std::string target;
  bool quoted = false;
};

struct Sources {
  std::set<std::string> files;
  std::vector<Include> includes;
};

void read_includes(const fs::path& root, const fs::path& file, std::vector<Include>& out) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::ifstream in(root / file);
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    std::smatch m;
    if (std::regex_search(text, m, pattern)) out.push_back({file, line, m[2], m[1] == "\""});
  }
}

const Sources& product_sources() {
  static const Sources all = [] {
    Sources out;
    const fs::path root = source_dir();
    for (const char* top :
         {"include", "runtime", "backends", "capi", "codegen", "shaders", "apps", "python"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        const std::string ext = entry.path().extension().string();
        if (ext != ".h" && ext != ".hpp" && ext != ".cpp" && ext != ".def" && ext != ".c") continue;
        const fs::path file = fs::relative(entry.path(), root);
        out.files.insert(file.generic_string());
        read_includes(root, file, out.includes);
      }
    }
    return out;
  }();
  return all;
}

/// A header of the language or the C library.
bool is_standard(const Include& include) {
  if (include.quoted) return false;
  const std::string& t = include.target;
  if (t.find('.') == std::string::npos) return t.find('/') == std::string::npos;
  static const std::set<std::string> c = {"errno.h", "math.h",   "stddef.h", "stdint.h",
                                          "stdio.h", "stdlib.h", "string.h", "time.h"};
  return c.contains(t);
}

/// The room of a header of ours, or an empty text.
std::string room_of_header(const std::string& target) {
  if (target.starts_with("reprise/")) return "include/reprise";
  const std::string top = target.substr(0, target.find('/'));
  static const std::set<std::string> tops = {"runtime", "backends", "capi",  "codegen",
                                             "shaders", "apps",     "python"};
  return tops.contains(top) ? folder_of(target) : "";
}

/// Whether a header of the table, or a folder of headers, stands for the target.
bool is_named(const std::string& header, const std::string& target) {
  return header.back() == '/' ? target.starts_with(header) : target == header;
}

bool allowed(const Room& room, const Include& include) {
  if (is_standard(include)) return true;
  const auto named = [&](const std::string& h) { return is_named(h, include.target); };
  if (std::ranges::any_of(room.headers, named)) return true;
  const std::string other = room_of_header(include.target);
  return !other.empty() && (other == room.folder || room.rooms.contains(other));
}

std::vector<std::string> violations(const std::vector<Include>& includes) {
  std::vector<std::string> out;
  for (const Include& include : includes) {
    const std::string folder = folder_of(include.file);
    const Room* const room = room_of(folder);
    if (room && allowed(*room, include)) continue;
    out.push_back(include.file.generic_string() + ":" + std::to_string(include.line) +
                  " includes " + include.target + ", which tests/arch/rooms.txt does not allow" +
                  (room ? "" : ", as it has no room " + folder));
  }
  return out;
}

TEST(Rooms, IncludeOnlyWhatTheTableAllows) {
  ASSERT_GT(product_sources().includes.size(), 1000U) << "the sources were not found";
  for (const std::string& v : violations(product_sources().includes)) ADD_FAILURE() << v;
}

TEST(Rooms, AreOnFloors) {
  std::set<std::string> below;
  for (const Room& room : table()) {
    for (const std::string& other : room.rooms)
      EXPECT_TRUE(below.contains(other))
          << room.folder << " may include " << other << ", which is not above it in rooms.txt";
    EXPECT_TRUE(below.insert(room.folder).second) << room.folder << " stands twice in rooms.txt";
  }
}

TEST(Rooms, TheTableHasNothingElse) {
  std::map<std::string, std::set<std::string>> used;
  std::map<std::string, size_t> files;
  for (const std::string& file : product_sources().files) ++files[folder_of(file)];
  for (const Include& include : product_sources().includes)
    used[folder_of(include.file)].insert(room_of_header(include.target));
  for (const Room& room : table()) {
    EXPECT_TRUE(files.contains(room.folder)) << room.folder << " has no sources";
    for (const std::string& other : room.rooms)
      EXPECT_TRUE(used[room.folder].contains(other)) << room.folder << " includes no " << other;
    for (const std::string& header : room.headers) {
      const auto is_it = [&](const Include& i) {
        return folder_of(i.file) == room.folder && is_named(header, i.target);
      };
      EXPECT_TRUE(std::ranges::any_of(product_sources().includes, is_it))
          << room.folder << " includes no " << header;
    }
  }
}

TEST(Rooms, AreNotTooLarge) {
  std::map<std::string, size_t> files;
  for (const std::string& file : product_sources().files) ++files[folder_of(file)];
  for (const auto& [folder, count] : files)
    EXPECT_LE(count, kMostFiles) << folder << ": make two rooms of it, by what its files are for";
}

/// The folder directly below `top` that has the room.
std::string wing_of(const std::string& top, const std::string& room) {
  return room.substr(0, room.find('/', top.size()));
}

size_t arrows_below(const std::string& top) {
  std::set<std::pair<std::string, std::string>> arrows;
  for (const Room& room : table()) {
    for (const std::string& other : room.rooms) {
      if (!room.folder.starts_with(top) || !other.starts_with(top)) continue;
      const std::string from = wing_of(top, room.folder), to = wing_of(top, other);
      if (from != to) arrows.emplace(from, to);
    }
  }
  return arrows.size();
}

size_t floors_below(const std::string& top) {
  std::map<std::string, size_t> floor;
  size_t most = 0;
  for (const Room& room : table()) {
    if (!room.folder.starts_with(top)) continue;
    size_t& own = floor[room.folder];
    for (const std::string& other : room.rooms)
      if (other.starts_with(top)) own = std::max(own, floor[other]);
    most = std::max(most, ++own);
  }
  return most;
}

TEST(Rooms, AreFewFloorsAndArrows) {
  for (const std::string top : {"runtime/", "codegen/"}) {
    EXPECT_LE(floors_below(top), kMostFloors) << top;
    EXPECT_LE(arrows_below(top), kMostArrows) << top;
  }
}

TEST(Rooms, ForbiddenArrowsAreFound) {
  const auto bad = [](const std::string& file, const std::string& target, bool quoted) {
    return violations({{file, 1, target, quoted}}).size() == 1;
  };
  EXPECT_TRUE(bad("runtime/session/session.cpp", "codegen/compile/compiler.h", true));
  EXPECT_TRUE(bad("runtime/session/session.cpp", "backends/registry.h", true));
  EXPECT_TRUE(bad("runtime/run/binding.h", "runtime/session/session.h", true));
  EXPECT_TRUE(bad("runtime/package/read.cpp", "sys/mman.h", false));
  EXPECT_TRUE(bad("codegen/compile/compiler.cpp", "volk.h", false));
  EXPECT_TRUE(bad("codegen/kernel/ir/share.cpp", "codegen/interpreter/interpreter.h", true));
  EXPECT_TRUE(bad("codegen/plan/states.h", "codegen/compile/compiler.h", true));
  EXPECT_TRUE(bad("codegen/graph/graph.h", "runtime/plan/plan.h", true));
  EXPECT_TRUE(bad("shaders/matmul.cpp", "codegen/graph/graph.h", true));
  EXPECT_TRUE(bad("include/reprise/reprise.hpp", "vulkan/vulkan.h", false));
  EXPECT_TRUE(bad("apps/ocr/models.cpp", "runtime/session/session.h", true));
  EXPECT_TRUE(bad("apps/common/model.cpp", "python/native/package.h", true));
  EXPECT_TRUE(bad("a/new/room.cpp", "runtime/base/status.h", true));
  EXPECT_FALSE(bad("runtime/session/session.cpp", "runtime/device/backend.h", true));
  EXPECT_FALSE(bad("capi/compiler/compiler.cpp", "codegen/compile/compiler.h", true));
  EXPECT_FALSE(bad("apps/reprise/main.cpp", "CLI/CLI.hpp", false));
  EXPECT_FALSE(bad("include/reprise/types.h", "stdint.h", false));
}

}  // namespace
}  // namespace reprise::test
