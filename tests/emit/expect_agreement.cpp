#include "tests/emit/expect_agreement.h"

#include <gtest/gtest.h>

namespace reprise::test {

void expect_agreement(const std::vector<Case>& cases) {
  const auto devices = vulkan_runners();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_FALSE(devices->empty()) << "no Vulkan device";
  for (const std::string& problem : disagreements(cases)) ADD_FAILURE() << problem;
}

}  // namespace reprise::test
