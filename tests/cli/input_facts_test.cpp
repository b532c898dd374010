// Inputs with values in the model, and inputs whose sizes or elements decide ranks, in commands.
#include <gtest/gtest.h>

#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

/// y = x + b, where b is an input with a value.
std::string model_with_default() {
  OnnxWriter m;
  m.input("x", DType::F32, {"n", 2}).input("b", DType::F32, {2}).output("y", DType::F32, {"n", 2});
  m.initializer("b", HostTensor::from<float>(DType::F32, {2}, {10, 20}));
  m.node("Add", {"x", "b"}, {"y"});
  return m.bytes();
}

/// y = Reshape(x, s)
std::string model_of_any_rank() {
  OnnxWriter m;
  m.input("x", DType::F32, {"n"}).input("s", DType::I64, {"r"}).output("y", DType::F32, {});
  m.node("Reshape", {"x", "s"}, {"a"});
  m.node("Neg", {"a"}, {"y"});
  return m.bytes();
}

TEST(InputFacts, AreFoundByTheCommandLine) {
  const TempDir dir;
  const std::string model = dir / "m.onnx", package = dir / "m.rpk";
  write_file(model, model_with_default());
  write_file(dir / "b.pb", onnx_tensor(HostTensor::from<float>(DType::F32, {2}, {3, 4}), "b"));
  const ProcessResult given =
      reprise({"run", model, "--device", "host", "--input", "b=" + (dir / "b.pb").string()});
  EXPECT_EQ(given.status, 0) << given.err;
  ASSERT_EQ(reprise({"compile", model, "-o", package, "--optional-input", "b"}).status, 0);
  EXPECT_EQ(reprise({"run", package, "--device", "host"}).status, 0);
  EXPECT_EQ(reprise({"run", package, "--device", "host", "--input", "b=" + (dir / "b.pb").string()})
                .status,
            0);

  write_file(model, model_of_any_rank());
  const ProcessResult refused = reprise({"compile", model, "-o", package});
  EXPECT_EQ(refused.status, 3);
  write_file(dir / "s.pb", onnx_tensor(int64_tensor({3}, {1, -1, 1}), "s"));
  const ProcessResult ran =
      reprise({"run", model, "--device", "host", "--input", "s=" + (dir / "s.pb").string()});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("compiled for the sizes"), std::string::npos) << ran.err;
  ASSERT_EQ(reprise({"compile", model, "-o", package, "--value", "s=1,-1"}).status, 0);
  EXPECT_EQ(reprise({"run", package, "--device", "host", "--shape", "x=4"}).status, 0);
  EXPECT_EQ(reprise({"compile", model, "-o", package, "--value", "s=1,"}).status, 2);
}

}  // namespace
}  // namespace reprise::test
