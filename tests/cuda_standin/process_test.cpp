// What the environment says, and what is reported when a process ends: each in one of its own.
#include <gtest/gtest.h>

#include "tests/cuda_standin/loaded_driver.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

/// Runs in a child, and only there.
TEST(Child, DISABLED_LeavesThings) {
  const DriverApi& api = DriverApi::get();
  ASSERT_EQ(api.problem, "");
  CUcontext context = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  ASSERT_EQ(api.cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
  ASSERT_EQ(api.cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuMemAlloc_v2(&memory, 24), CUDA_SUCCESS);
}

TEST(Child, DISABLED_LeavesNothing) {
  const DriverApi& api = DriverApi::get();
  ASSERT_EQ(api.problem, "");
  CUcontext context = nullptr;
  ASSERT_EQ(api.cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

ProcessResult child(const std::string& test, const std::vector<std::string>& environment) {
  return run_process({"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                      "--gtest_filter=Child.DISABLED_" + test},
                     environment);
}

TEST(Process, ReportsLeaksAtItsEnd) {
  const TempDir dir;
  const std::string log = "REPRISE_STANDIN_LOG=" + (dir / "log").string();
  const std::string strict = "REPRISE_STANDIN_STRICT_EXIT=1";
  EXPECT_EQ(child("LeavesNothing", {log, strict}).status, 0);
  EXPECT_EQ(read_file(dir / "log"), "");
  const ProcessResult lax = child("LeavesThings", {log});
  EXPECT_EQ(lax.status, 0) << lax.out << lax.err;
  for (const char* what : {"leak: context ", "leak: event ", "leak: allocation 1 (24 bytes)"}) {
    EXPECT_NE(read_file(dir / "log").find(what), std::string::npos) << what;
    EXPECT_NE(lax.err.find(what), std::string::npos) << what;
  }
  EXPECT_EQ(child("LeavesThings", {log, strict}).status, 97);
}

TEST(Process, RefusesAnEnvironmentThatIsNotUnderstood) {
  struct Case {
    const char* entry;
    int status;
  };
  for (const Case& c :
       {Case{"REPRISE_STANDIN_ARCH=80", 0}, Case{"REPRISE_STANDIN_ARCH=eighty", 1},
        Case{"REPRISE_STANDIN_CHECKS=off", 1}, Case{"REPRISE_STANDIN_CHECK=of", 1},
        Case{"REPRISE_STANDIN_FAIL=cuInit:1", 1}, Case{"REPRISE_STANDIN_FAIL=cuInit:2:999", 0},
        Case{"REPRISE_STANDIN_DEVICES=0", 1}}) {
    EXPECT_EQ(child("LeavesNothing", {c.entry}).status, c.status) << c.entry;
  }
}

}  // namespace
}  // namespace reprise::test
