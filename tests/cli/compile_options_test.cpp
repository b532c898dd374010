// What is said about inputs: --range, and `ranges`, `shapes` and `states` of
// reprise_compile_options.
#include <gtest/gtest.h>

#include "reprise/compiler.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

std::string doubling_model() {
  OnnxWriter m;
  m.input("x", DType::F32, {"n", 3}).output("y", DType::F32, {"n", 3});
  m.node("Add", {"x", "x"}, {"y"});
  return m.bytes();
}

TEST(Range, OtherSizesAreRefused) {
  const TempDir dir;
  const std::string model = dir / "m.onnx", package = dir / "m.rpk";
  write_file(model, doubling_model());
  const ProcessResult made = reprise({"compile", model, "-o", package, "--range", "n=2..9"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(reprise({"run", package, "--device", "host", "--shape", "x=9x3"}).status, 0);
  const ProcessResult refused = reprise({"run", package, "--device", "host", "--shape", "x=10x3"});
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(
      refused.err.find("dimension 0 ('n') is 10, expected 2 to 9, the limits with which the model "
                       "was compiled (--range n=2..9)"),
      std::string::npos)
      << refused.err;
  // Random inputs have sizes that are allowed.
  EXPECT_EQ(reprise({"run", package, "--device", "host"}).status, 0);
  const ProcessResult unknown = reprise({"compile", model, "-o", package, "--range", "m=2..9"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("the model has no such size"), std::string::npos) << unknown.err;
}

TEST(Range, IsAnOptionOfTheLibrary) {
  const std::string model = doubling_model();
  const char* ranges[] = {"n=2..9"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.ranges = ranges;
  options.range_count = 1;
  reprise_package* package = nullptr;
  reprise_error error{};
  ASSERT_EQ(reprise_compile_memory(model.data(), model.size(), &options, &package, &error),
            REPRISE_OK)
      << error.message;
  reprise_symbol symbol = REPRISE_SYMBOL_INIT;
  ASSERT_EQ(reprise_package_symbol(package, 0, &symbol, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(symbol.min, 2);
  EXPECT_EQ(symbol.max, 9);
  reprise_package_free(package);

  // A program that was compiled before the option was there gives a shorter struct.
  options.struct_size = offsetof(reprise_compile_options, ranges);
  ASSERT_EQ(reprise_compile_memory(model.data(), model.size(), &options, &package, &error),
            REPRISE_OK)
      << error.message;
  ASSERT_EQ(reprise_package_symbol(package, 0, &symbol, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(symbol.min, 0);
  reprise_package_free(package);
}

TEST(Plan, IsAnOptionAndExplained) {
  const TempDir dir;
  const std::string model = dir / "m.onnx", package = dir / "m.rpk", json = dir / "m.json";
  write_file(model, doubling_model());
  const ProcessResult made =
      reprise({"compile", model, "-o", package, "--plan", "n=1", "--plan", "n=2..16"});
  ASSERT_EQ(made.status, 0) << made.err;
  const ProcessResult explained =
      reprise({"explain", package, "--targets", "vulkan", "--json", json});
  ASSERT_EQ(explained.status, 0) << explained.err;
  for (const char* line : {"n=1 ", "n=2..16", "all other sizes", "asked for"})
    EXPECT_NE(explained.out.find(line), std::string::npos) << explained.out;
  const std::string text = read_file(json);
  EXPECT_NE(text.find("\"plans\": ["), std::string::npos);
  EXPECT_NE(text.find("\"max\": 16"), std::string::npos);
  EXPECT_EQ(reprise({"compile", model, "-o", package, "--plan", "none"}).status, 0);
  const ProcessResult unknown = reprise({"compile", model, "-o", package, "--plan", "m=1"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("--plan m=1: the model has no such size"), std::string::npos)
      << unknown.err;
}

TEST(Plan, IsAnOptionOfTheLibrary) {
  const std::string model = doubling_model();
  const char* plans[] = {"n=1", "n=2..16"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.plans = plans;
  options.plan_count = 2;
  reprise_package* package = nullptr;
  reprise_error error{};
  ASSERT_EQ(reprise_compile_memory(model.data(), model.size(), &options, &package, &error),
            REPRISE_OK)
      << error.message;
  reprise_device* device = nullptr;
  reprise_session* session = nullptr;
  reprise_session_options session_options = REPRISE_SESSION_OPTIONS_INIT;
  session_options.max_recorded = 2;
  if (reprise_device_open("vulkan", nullptr, &device, &error) != REPRISE_OK)
    GTEST_SKIP() << error.message;
  ASSERT_EQ(reprise_session_create(package, device, &session_options, &session, &error), REPRISE_OK)
      << error.message;
  reprise_session_info info = REPRISE_SESSION_INFO_INIT;
  ASSERT_EQ(reprise_session_get_info(session, &info, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(info.plan_count, 2U);
  const uint32_t expected[] = {1, 2, 0};
  const int64_t rows[] = {1, 9, 30};
  for (size_t i = 0; i < 3; ++i) {
    std::vector<float> x(static_cast<size_t>(rows[i]) * 3, 2), y(x.size());
    reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
    in.name = "x", in.rank = 2, in.dims[0] = rows[i], in.dims[1] = 3;
    in.data = x.data(), in.bytes = x.size() * sizeof(float);
    out.name = "y", out.data = y.data(), out.bytes = y.size() * sizeof(float);
    reprise_run_stats stats = REPRISE_RUN_STATS_INIT;
    ASSERT_EQ(reprise_session_run(session, &in, 1, &out, 1, nullptr, &stats, &error), REPRISE_OK)
        << error.message;
    EXPECT_EQ(stats.plan, expected[i]);
    EXPECT_EQ(y.back(), 4.0F);
  }
  reprise_session_free(session);
  reprise_device_free(device);
  reprise_package_free(package);
}

TEST(CompileOptions, FixesShapesAndKeepsStates) {
  OnnxWriter m;
  m.input("x", DType::F32, {"n", 3}).input("total", DType::F32, {"n", 3});
  m.output("sum", DType::F32, {"n", 3});
  m.node("Add", {"x", "total"}, {"sum"});
  const std::string model = m.bytes();
  const char* shapes[] = {"x=2x3", "total=2x3"};
  const char* states[] = {"total=sum"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.shapes = shapes;
  options.shape_count = 2;
  options.states = states;
  options.state_count = 1;
  reprise_package* package = nullptr;
  reprise_error error{};
  ASSERT_EQ(reprise_compile_memory(model.data(), model.size(), &options, &package, &error),
            REPRISE_OK)
      << error.message;
  reprise_package_info info = REPRISE_PACKAGE_INFO_INIT;
  ASSERT_EQ(reprise_package_get_info(package, &info, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(info.state_count, 1U);
  EXPECT_EQ(info.input_count, 1U);
  EXPECT_EQ(info.symbol_count, 0U);
  reprise_package_free(package);

  states[0] = "total";
  EXPECT_EQ(reprise_compile_memory(model.data(), model.size(), &options, &package, &error),
            REPRISE_USAGE);
  EXPECT_STREQ(error.message, "a state is INPUT=OUTPUT, not 'total'");
}

TEST(PassOptions, AreOptionsOfTheLibrary) {
  const std::string model = doubling_model();
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.pass_option_count = 1;
  reprise_package* package = nullptr;
  reprise_error error{};
  const auto compile = [&](const char* option) {
    options.pass_options = &option;
    return reprise_compile_memory(model.data(), model.size(), &options, &package, &error);
  };
  ASSERT_EQ(compile("fusion.limit=0"), REPRISE_OK) << error.message;
  reprise_package_free(package);
  for (const char* wrong : {"fusion.limit", "fusion.limit=", "fusion.limit=x", "fusion.nothing=1"})
    EXPECT_EQ(compile(wrong), REPRISE_USAGE) << wrong;
}

TEST(CompilerFunctions, AreInATable) {
  EXPECT_EQ(reprise_get_compiler_functions(REPRISE_ABI_VERSION + 1), nullptr);
  const reprise_compiler_functions* f = reprise_get_compiler_functions(REPRISE_ABI_VERSION);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->struct_size, sizeof(*f));
  const std::string model = doubling_model();
  reprise_package* package = nullptr;
  reprise_error error{};
  ASSERT_EQ(f->compile_memory(model.data(), model.size(), nullptr, &package, &error), REPRISE_OK)
      << error.message;
  reprise_package_free(package);
}

}  // namespace
}  // namespace reprise::test
