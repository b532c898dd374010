// The C interface's precision.
#include <gtest/gtest.h>

#include "capi/handles/handles.h"
#include "reprise/compiler.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise {
namespace {

TEST(PrecisionApi, OptionReachesThePackage) {
  const test::TempDir dir;
  const std::string path = dir / "m.onnx";
  test::OnnxWriter m;
  m.input("x", DType::F32, {2, 64}).output("y", DType::F32, {2, 64});
  m.initializer("w", test::float_tensor({64, 64})).node("MatMul", {"x", "w"}, {"y"});
  test::write_file(path, m.bytes());
  const struct {
    const char* name;
    DType expected;
  } rows[] = {
      {nullptr, DType::F32}, {"fp32", DType::F32}, {"fp16", DType::F16}, {"bf16", DType::BF16}};
  for (const auto& row : rows) {
    reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
    options.precision = row.name;
    reprise_package* package = nullptr;
    ASSERT_EQ(reprise_compile_file(path.c_str(), &options, &package, nullptr), REPRISE_OK);
    EXPECT_EQ((*capi::find_handle(package))->package->explanation.precision, row.expected);
    reprise_package_free(package);
  }
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.precision = "fp8";
  reprise_package* package = nullptr;
  EXPECT_EQ(reprise_compile_file(path.c_str(), &options, &package, nullptr), REPRISE_USAGE);
}

}  // namespace
}  // namespace reprise
