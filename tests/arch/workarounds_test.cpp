// The list of driver workarounds (runtime/base/driver_workarounds.h) is what the code really has.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "runtime/base/driver_workarounds.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kList = "runtime/base/driver_workarounds.h";

std::string lines_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Product code but for the list itself.
std::vector<fs::path> sources() {
  std::vector<fs::path> out;
  for (const char* folder : {"runtime", "backends", "codegen", "shaders"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      const std::string extension = entry.path().extension();
      const bool code = extension == ".h" || extension == ".cpp";
      if (code && entry.path() != source_dir() / kList) out.push_back(entry.path());
    }
  }
  return out;
}

TEST(Workarounds, AreNamedWhereTheyAreAvoidedAndHaveTests) {
  const std::string list = lines_of(source_dir() / kList);
  std::string code;
  for (const fs::path& path : sources()) code += lines_of(path);
  const std::regex name(R"(DriverWorkaround (k[A-Za-z0-9]+)\{)");
  size_t rows = 0;
  for (std::sregex_iterator it(list.begin(), list.end(), name), end; it != end; ++it, ++rows)
    EXPECT_NE(code.find("workarounds::" + (*it)[1].str()), std::string::npos) << (*it)[1];
  EXPECT_GE(rows, 12U);
  const std::regex file(R"re("((tests|docs)/[^"]+)")re");
  size_t files = 0;
  for (std::sregex_iterator it(list.begin(), list.end(), file), end; it != end; ++it, ++files)
    EXPECT_TRUE(fs::exists(source_dir() / (*it)[1].str())) << (*it)[1];
  EXPECT_EQ(files, rows);
}

/// What is said of a version of a driver is a row of the list, or of the prices measured with it.
TEST(Workarounds, AreNotSpreadOverTheCode) {
  const std::regex version(R"(Mesa [0-9]+\.[0-9]|SwiftShader [a-z])");
  for (const fs::path& path : sources()) {
    const std::string name = fs::relative(path, source_dir()).string();
    if (name == "backends/vulkan/workarounds.cpp" || name == "codegen/target/device_costs.h")
      continue;
    EXPECT_FALSE(std::regex_search(lines_of(path), version)) << name;
  }
}

}  // namespace
}  // namespace reprise::test
