// One class, one .cpp: whoever looks for a member of a class finds it in the file with the others,
// and a class that outgrows its file becomes several objects. classes.txt lists the exceptions.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// By room and class: the files that define members.
using Definitions = std::map<std::pair<std::string, std::string>, std::set<std::string>>;

/// The class of which a line begins the definition of a member, or an empty text. The definitions
/// that count begin at the start of a line, and classes have names in upper case.
std::string class_defined_by(const std::string& line) {
  if (line.empty() || line.back() == ';' || std::string(" #}/").find(line[0]) != std::string::npos)
    return {};
  static const std::regex member(R"re(^(?:[^=("]*[\s&*>])?((?:\w+::)*[A-Z]\w*)::~?\w+\s*\()re");
  std::smatch m;
  return std::regex_search(line, m, member) ? m[1].str() : std::string();
}

void read_definitions(std::istream& in, const std::string& room, const std::string& file,
                      Definitions& out) {
  for (std::string line; std::getline(in, line);) {
    const std::string name = class_defined_by(line);
    if (!name.empty()) out[{room, name}].insert(file);
  }
}

Definitions product_definitions() {
  Definitions out;
  const fs::path root = source_dir();
  for (const char* top : {"runtime", "backends", "capi", "codegen", "shaders", "apps", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream in(entry.path());
      const fs::path room = fs::relative(entry.path().parent_path(), root);
      read_definitions(in, room.generic_string(), entry.path().filename().string(), out);
    }
  }
  return out;
}

/// Rows "ROOM CLASS FILES...: reason".
Definitions read_exceptions() {
  Definitions out;
  std::ifstream in(source_dir() / "tests/arch/classes.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << "no reason: " << line;
    std::istringstream words(line.substr(0, colon));
    std::string room, name, file;
    words >> room >> name;
    while (words >> file) out[{room, name}].insert(file);
  }
  return out;
}

std::string joined(const std::set<std::string>& files) {
  std::string out;
  for (const std::string& f : files) out += (out.empty() ? "" : ", ") + f;
  return out;
}

TEST(Classes, HaveOneSourceFile) {
  const Definitions found = product_definitions();
  ASSERT_GT(found.size(), 150U) << "the definitions were not found";
  const Definitions exceptions = read_exceptions();
  for (const auto& [where, files] : found) {
    if (files.size() == 1 || exceptions.contains(where)) continue;
    ADD_FAILURE() << where.first << ": " << joined(files) << " all define members of "
                  << where.second << "; make objects of it that have state of their own";
  }
  for (const auto& [where, files] : exceptions) {
    const auto at = found.find(where);
    EXPECT_TRUE(at != found.end() && at->second == files)
        << "classes.txt lists " << joined(files) << " for " << where.second
        << ", but members are in " << (at == found.end() ? "no file" : joined(at->second));
  }
}

TEST(Classes, DefinitionsAreRecognised) {
  EXPECT_EQ(class_defined_by("Status Session::load(const std::string& path) {"), "Session");
  EXPECT_EQ(class_defined_by("Result<std::unique_ptr<Run>> Session::run("), "Session");
  EXPECT_EQ(class_defined_by("Session::~Session() {"), "Session");
  EXPECT_EQ(class_defined_by("Session::Session(int a) : a_(a) {}"), "Session");
  EXPECT_EQ(class_defined_by("Device::Lease& Device::Pool::take(size_t n) {"), "Device::Pool");
  EXPECT_EQ(class_defined_by("  return Session::create();"), "");
  EXPECT_EQ(class_defined_by("Status load(const std::string& path = Session::path()) {"), "");
  EXPECT_EQ(class_defined_by("const Value x = Session::create(y);"), "");
}

TEST(Classes, ASecondFileIsFound) {
  Definitions found;
  for (const char* file : {"a.cpp", "b.cpp"}) {
    std::istringstream in("void Session::f() {\n}\n");
    read_definitions(in, "runtime/session", file, found);
  }
  EXPECT_EQ((found[{"runtime/session", "Session"}].size()), 2U);
}

}  // namespace
}  // namespace reprise::test
