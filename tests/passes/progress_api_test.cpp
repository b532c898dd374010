// Progress of compiling, and its cancellation, through the C interface.
#include <gtest/gtest.h>

#include <set>

#include "reprise/compiler.h"
#include "tests/support/onnx_writer.h"

namespace reprise {
namespace {

struct Watch {
  std::vector<std::string> seen;
  std::string stop_after;  // cancels when this is reported
  int calls_after_stop = 0;
  bool stopped = false;
};

int32_t watch(void* user, const char* what, uint64_t done, uint64_t total) {
  Watch& w = *static_cast<Watch*>(user);
  w.calls_after_stop += w.stopped ? 1 : 0;
  w.seen.emplace_back(what);
  EXPECT_LE(done, total);
  w.stopped = w.stopped || w.stop_after == what;
  return w.stopped ? 1 : 0;
}

constexpr const char* kParts[] = {"decompose", "fusion", "lowering", "probes", "variants"};

std::string two_kernels() {
  test::OnnxWriter m;
  m.input("x", DType::F32, {2, 64}).output("y", DType::F32, {2, 64});
  m.initializer("w", test::float_tensor({64, 64})).node("MatMul", {"x", "w"}, {"a"});
  m.node("Softmax", {"a"}, {"y"});
  return m.bytes();
}

reprise_status compile(Watch& w, reprise_package** out, reprise_error* error) {
  const std::string model = two_kernels();
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.probes = 1;
  options.progress = watch;
  options.progress_user = &w;
  return reprise_compile_memory(model.data(), model.size(), &options, out, error);
}

TEST(ProgressApi, EveryPartIsReported) {
  Watch w;
  reprise_package* package = nullptr;
  ASSERT_EQ(compile(w, &package, nullptr), REPRISE_OK);
  reprise_package_free(package);
  const std::set<std::string> seen(w.seen.begin(), w.seen.end());
  for (const char* part : kParts) EXPECT_TRUE(seen.contains(part)) << part;
}

TEST(ProgressApi, AFileWithoutANameCannotBeRead) {
  reprise_package* package = nullptr;
  reprise_error error = {};
  EXPECT_EQ(reprise_compile_file("", nullptr, &package, &error), REPRISE_IO) << error.message;
}

TEST(ProgressApi, ACancelledCompilationEndsAtOnce) {
  for (const char* part : kParts) {
    Watch w;
    w.stop_after = part;
    reprise_package* package = nullptr;
    reprise_error error = {};
    EXPECT_EQ(compile(w, &package, &error), REPRISE_CANCELLED) << part;
    EXPECT_EQ(package, nullptr);
    EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message;
    EXPECT_EQ(w.calls_after_stop, 0) << part;
  }
}

}  // namespace
}  // namespace reprise
