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

/// A package has the branch of an If that fits the sizes for which it was compiled.
TEST(InputFacts, PackagesTellWhichBranchTheyHave) {
  const TempDir dir;
  const auto folder = own_cases("inputs") / "if_squeeze_of_two";
  const std::string model = folder / "model.onnx", data = folder / "test_data_set_0";
  const std::string package = dir / "m.rpk";
  ASSERT_EQ(reprise({"compile", model, "-o", package}).status, 0);
  const ProcessResult refused = reprise({"run", package, "--device", "host", "--data", data});
  EXPECT_EQ(refused.status, 3);
  for (const std::string part : {"node '", "is 2", "compile the model with --shape for others"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
}

TEST(InputFacts, AreUsedToMeasureAndCompare) {
  const TempDir dir;
  const std::string model = dir / "m.onnx", given = "s=" + (dir / "s.pb").string();
  write_file(model, model_of_any_rank());
  write_file(dir / "s.pb", onnx_tensor(int64_tensor({3}, {1, -1, 1}), "s"));
  const std::vector<std::string> few{"--runs", "1", "--warmup", "0"};
  for (std::vector<std::string> args :
       {std::vector<std::string>{"bench", model, "--device", "host", "--input", given},
        {"bench", model, "--device", "vulkan", "--input", given},
        {"compare", model, "--devices", "host,vulkan", "--input", given}}) {
    const size_t devices = args[0] == "compare" ? 2 : 1;
    args.insert(args.end(), few.begin(), few.end());
    const Json rows = json_of(args);
    ASSERT_EQ(rows.size(), devices) << args[0];
    for (const Json& row : rows) EXPECT_EQ(row.at("max_error"), 0) << row;
  }
  // The reference of another precision is compiled by itself.
  const ProcessResult r =
      reprise({"verify", model, "--device", "vulkan", "--precision", "fp16", "--input", given});
  EXPECT_EQ(r.status, 0) << r.err;
}

}  // namespace
}  // namespace reprise::test
