// What is said where no Vulkan driver can be used.
#include <gtest/gtest.h>

#include "tests/cli/run_reprise.h"

namespace reprise::test {
namespace {

std::string reason_with(const std::string& variable, const std::string& file) {
  const std::string other = variable == "VK_DRIVER_FILES" ? "VK_ICD_FILENAMES" : "VK_DRIVER_FILES";
  // An empty variable counts as one that names no driver.
  const ProcessResult r = run_process({"/usr/bin/env", "-u", other, program("reprise"), "devices"},
                                      {variable + "=" + file});
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

TEST(NoDriver, TheReasonNamesFilesThatAreMissing) {
  const TempDir dir;
  write_file(dir / "dangling.json",
             R"({"file_format_version": "1.0.0",
                 "ICD": {"library_path": "/nowhere/libdriver.so", "api_version": "1.3.0"}})");
  write_file(dir / "broken.json", "{");
  for (const std::string variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    const std::string missing = reason_with(variable, "/nowhere/driver.json");
    EXPECT_NE(missing.find("/nowhere/driver.json"), std::string::npos) << missing;
    EXPECT_NE(missing.find(variable), std::string::npos) << missing;
    const std::string dangling = reason_with(variable, dir / "dangling.json");
    EXPECT_NE(dangling.find("/nowhere/libdriver.so"), std::string::npos) << dangling;
    const std::string broken = reason_with(variable, dir / "broken.json");
    EXPECT_NE(broken.find("broken.json"), std::string::npos) << broken;
  }
}

}  // namespace
}  // namespace reprise::test
