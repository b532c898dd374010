// What the environment says, and what is reported when a process ends: each in one of its own.
#include <gtest/gtest.h>

#include <filesystem>

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

/// Fails after the driver has said more than is printed.
class Talkative : public StandinTest {};
TEST_F(Talkative, DISABLED_Fails) {
  for (int n = 0; n < 30; ++n) {
    EXPECT_EQ(api.cuEventQuery(reinterpret_cast<CUevent>(stream)), CUDA_ERROR_INVALID_HANDLE);
  }
  set("FAIL", "cuEventCreate:1:2");
  CUevent event = nullptr;
  EXPECT_EQ(api.cuEventCreate(&event, 0), CUDA_ERROR_OUT_OF_MEMORY);
  ADD_FAILURE() << "as intended";
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

TEST(Process, IsQuietWhenAsked) {
  const TempDir dir;
  const ProcessResult quiet = child(
      "LeavesThings", {"REPRISE_STANDIN_QUIET=1", "REPRISE_STANDIN_LOG=" + (dir / "log").string()});
  EXPECT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.err.find("stand-in CUDA driver"), std::string::npos) << quiet.err;
  EXPECT_NE(read_file(dir / "log").find("leak: event "), std::string::npos);
}

/// What the driver says is expected in most tests: the end of it is printed for those that fail.
TEST(Process, FailedTestsSayWhatTheDriverSaidLast) {
  const ProcessResult r = run_process({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                       "--gtest_brief=1", "--gtest_filter=Talkative.*"});
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_EQ(r.err, "");
  const size_t said = r.out.find("the stand-in CUDA driver said last:\nmisuse: cuEventQuery");
  ASSERT_NE(said, std::string::npos) << r.out;
  EXPECT_NE(r.out.find("injected: call 1 of cuEventCreate fails with 2\n"), std::string::npos)
      << r.out;
  size_t lines = 0;
  for (size_t at = said; (at = r.out.find("misuse: ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 19U);
}

ProcessResult tests_of_kernels(const std::string& filter,
                               const std::vector<std::string>& environment) {
  return run_process({"/proc/self/exe", "--gtest_brief=1", "--gtest_filter=" + filter},
                     environment);
}

TEST(Process, TheNumberOfThreadsDoesNotShow) {
  for (const char* threads : {"1", "2", "16"}) {
    const ProcessResult r = tests_of_kernels("Kernels.*:Graphs.*Order:*AreFound",
                                             {std::string("REPRISE_STANDIN_THREADS=") + threads});
    EXPECT_EQ(r.status, 0) << threads << r.out << r.err;
  }
}

/// A home that is missing or cannot be written, and no place for temporary files.
TEST(Process, KernelsRunWhereNothingCanBeKept) {
  const TempDir dir;
  using Environment = std::vector<std::string>;
  for (const Environment& e :
       {Environment{"REPRISE_STANDIN_CACHE=/dev/null/none"},
        Environment{
            "REPRISE_STANDIN_CACHE=", "XDG_CACHE_HOME=", "HOME=", "TMPDIR=" + dir.path().string()},
        Environment{"REPRISE_STANDIN_CACHE=", "XDG_CACHE_HOME=", "HOME=", "TMPDIR=/dev/null"}}) {
    const ProcessResult r = tests_of_kernels("Graphs.RunInTheOrderThatIsAskedFor", e);
    EXPECT_EQ(r.status, 0) << e.front() << r.out << r.err;
  }
  EXPECT_TRUE(std::filesystem::is_directory(dir / "reprise-standin"));
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
