// The command line as its users and scripts meet it: keys of the JSON documents, files written,
// exit statuses.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/npy.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    OnnxWriter m;
    m.input("a", DType::F32, {"n", 8}).input("b", DType::F32, {"n", 8});
    m.output("y", DType::F32, {"n", 8}).output("z", DType::F32, {"n", 8});
    m.node("Mul", {"a", "b"}, {"p"}).node("Sigmoid", {"p"}, {"q"});
    m.node("Add", {"q", "a"}, {"y"}).node("Neg", {"y"}, {"z"});
    model_ = dir_ / "m.onnx";
    write_file(model_, m.bytes());
  }

  static void expect_keys(const Json& json, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) EXPECT_TRUE(json.contains(key)) << key << " in " << json;
  }

  TempDir dir_;
  std::string model_;
};

const char* const kDevice = "vulkan";

TEST_F(Commands, HelpTeaches) {
  const ProcessResult root = reprise({"--help"});
  EXPECT_EQ(root.status, 0);
  for (const char* name : {"devices", "run", "bench", "compile", "explain", "verify", "compare",
                           "conformance", "bisect"}) {
    EXPECT_NE(root.out.find(name), std::string::npos) << name;
    const ProcessResult r = reprise({name, "--help"});
    EXPECT_EQ(r.status, 0) << name;
    EXPECT_NE(r.out.find("Example"), std::string::npos) << name;
  }
  EXPECT_NE(root.out.find("Exit status"), std::string::npos);
  EXPECT_EQ(reprise({"--version"}).status, 0);
}

TEST_F(Commands, Devices) {
  const Json list = json_of({"devices"});
  ASSERT_TRUE(list.is_array());
  bool host = false, vulkan = false;
  for (const Json& d : list) {
    expect_keys(d, {"id", "name", "kind", "driver", "api", "usable", "reason", "facts"});
    host = host || d["id"] == "host";
    vulkan = vulkan || (d["id"] == "vulkan:0" && d["usable"] == true);
    EXPECT_EQ(d["usable"].get<bool>(), d["reason"].get<std::string>().empty());
  }
  EXPECT_TRUE(host);
  EXPECT_TRUE(vulkan);
}

TEST_F(Commands, RunWritesOutputsInOrder) {
  const HostTensor a = float_tensor({2, 8}, 2.0f);
  const HostTensor b = float_tensor({2, 8}, 1.0f, 0.5f);
  ASSERT_TRUE(app::write_npy(a, dir_ / "a.npy").ok());
  write_file(dir_ / "b.pb", onnx_tensor(b));
  const std::string out = dir_ / "out";
  const Json json =
      json_of({"run", model_, "--input", "a=" + (dir_ / "a.npy").string(), "--input",
               "b=" + (dir_ / "b.pb").string(), "--output-dir", out, "--device", kDevice});
  ASSERT_EQ(json["outputs"].size(), 2u);
  expect_keys(json["outputs"][0], {"name", "dtype", "shape", "min", "max", "mean"});
  EXPECT_EQ(json["outputs"][0]["name"], "y");
  EXPECT_EQ(json["outputs"][1]["name"], "z");
  EXPECT_EQ(json["outputs"][0]["shape"], Json({2, 8}));
  Result<HostTensor> y = app::read_npy(out + "/0.npy");
  Result<HostTensor> z = app::read_npy(out + "/1.npy");
  ASSERT_TRUE(y.ok() && z.ok());
  for (int i = 0; i < 16; ++i) {
    const double p = double{a.data<float>()[i]} * b.data<float>()[i];
    const double expected = 1 / (1 + std::exp(-p)) + a.data<float>()[i];
    EXPECT_NEAR(y->data<float>()[i], expected, 1e-5);
    EXPECT_EQ(z->data<float>()[i], -y->data<float>()[i]);
  }
}

TEST_F(Commands, RandomInputsFollowTheSeed) {
  const auto mean = [&](const char* seed) {
    return json_of({"run", model_, "--seed", seed, "--shape", "a=4x8", "--device",
                    "host"})["outputs"][0]["mean"];
  };
  EXPECT_EQ(mean("1"), mean("1"));
  EXPECT_NE(mean("1"), mean("2"));
}

TEST_F(Commands, RunCountsWhatIsNotFinite) {
  OnnxWriter m;
  m.input("x", DType::F32, {4}).output("y", DType::F32, {4}).output("z", DType::F32, {4});
  m.initializer("large", float_tensor({1}, 0, 1e30F));
  m.node("Log", {"x"}, {"y"}).node("Mul", {"x", "large"}, {"z"});
  const std::string model = dir_ / "log.onnx";
  write_file(model, m.bytes());
  const std::string x = dir_ / "x.npy";
  const HostTensor values = HostTensor::from(DType::F32, {4}, std::vector<float>{-1, 0, 1, 2});
  ASSERT_TRUE(app::write_npy(values, x).ok());
  const std::vector<std::string> args{"run", model, "--input", "x=" + x, "--device", "host"};
  const Json y = json_of(args)["outputs"][0];
  EXPECT_EQ(y["nan_count"], 1);
  EXPECT_EQ(y["inf_count"], 1);
  EXPECT_EQ(y["min"], "-inf");
  const std::string text = reprise(args).out;
  EXPECT_NE(text.find("mean  nan  inf\n"), std::string::npos) << text;
  EXPECT_NE(text.find("-inf     0.693147         -inf    1    1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("-1.00000e+30"), std::string::npos) << text;
}

TEST_F(Commands, NotesAreWrittenOnceWithTheirCount) {
  const ProcessResult r =
      reprise({"bench", model_, model_, model_, "--runs", "1", "--device", "host"});
  EXPECT_EQ(r.status, 0) << r.err;
  const std::string once = "note: dimension 'n' of input 'a' is set to 1; choose another";
  const size_t at = r.err.find(once);
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_EQ(r.err.find(once, at + 1), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("note: 3 times: dimension 'n' of input 'a'"), std::string::npos) << r.err;
}

TEST_F(Commands, NotesOfTheImporterStayInThePackage) {
  OnnxWriter m;
  m.input("x", DType::F32, {2, 3}).output("y", DType::F32, {2, 4});
  m.node("Neg", {"x"}, {"y"});
  const std::string model = dir_ / "declared.onnx", package = dir_ / "declared.rpk";
  write_file(model, m.bytes());
  const std::string note = "value 'y': the model declares float32[2,4]";
  const ProcessResult compiled = reprise({"compile", model, "-o", package});
  EXPECT_EQ(compiled.status, 0);
  EXPECT_NE(compiled.err.find("note: " + note), std::string::npos) << compiled.err;
  for (const std::string& file : {model, package}) {
    const Json notes = json_of({"explain", file, "--device", "host"})["notes"];
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0].get<std::string>().substr(0, note.size()), note);
  }
  EXPECT_NE(reprise({"explain", package, "--device", "host"}).out.find("note: " + note),
            std::string::npos);
}

TEST_F(Commands, ExplainOpensTheDeviceOnce) {
  const ProcessResult r = reprise({"explain", model_});
  const size_t at = r.err.find("note: auto: ");
  ASSERT_NE(at, std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("auto: ", at + 12), std::string::npos) << r.err;
}

TEST_F(Commands, CompileForTheHostSaysSo) {
  const ProcessResult r =
      reprise({"compile", model_, "-o", dir_ / "host.rpk", "--targets", "host"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("variants: none; it runs on the host alone"), std::string::npos) << r.out;
}

TEST_F(Commands, PackageRunsOtherShapesWithoutCompiling) {
  const std::string package = dir_ / "m.rpk";
  const Json compiled = json_of({"compile", model_, "-o", package});
  expect_keys(compiled, {"targets", "variants", "bytes", "passes"});
  ASSERT_FALSE(compiled["passes"].empty());
  expect_keys(compiled["passes"][0], {"name", "ms"});
  EXPECT_EQ(compiled["bytes"], fs::file_size(package));
  for (const char* shape : {"a=1x8", "a=5x8", "a=300x8"}) {
    const Json json = json_of({"run", package, "--shape", shape, "--device", kDevice});
    EXPECT_EQ(json["compiles"], 0);
    const Json same = json_of({"run", package, "--shape", shape, "--device", "host"});
    EXPECT_NEAR(json["outputs"][0]["mean"].get<double>(), same["outputs"][0]["mean"].get<double>(),
                1e-4);
  }
}

TEST_F(Commands, CompilesOneVariantByName) {
  const std::string package = dir_ / "one.rpk";
  const Json compiled = json_of({"compile", model_, "-o", package, "--targets", "vulkan-baseline"});
  EXPECT_EQ(compiled["variants"], Json({"vulkan-baseline"}));
  const Json ran = json_of({"run", package, "--device", kDevice});
  EXPECT_EQ(ran["variant"], "vulkan-baseline");
  const ProcessResult wrong = reprise({"compile", model_, "-o", package, "--targets", "vulkan-x"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("vulkan-int64"), std::string::npos) << wrong.err;
}

TEST_F(Commands, ExplainSaysWhatWasFused) {
  const Json json = json_of({"explain", model_, "--device", kDevice});
  expect_keys(json, {"nodes", "launches_unfused", "launches", "groups", "unfused", "host"});
  EXPECT_EQ(json["nodes"], 4);
  EXPECT_EQ(json["launches"], 1);
  EXPECT_EQ(json["launches_unfused"], 4);
  ASSERT_EQ(json["groups"].size(), 1u);
  expect_keys(json["groups"][0], {"kernel", "nodes", "bytes_read", "bytes_written", "schedule"});
  EXPECT_EQ(json["groups"][0]["kernel"], "fused_add_mul_neg_sigmoid");
  EXPECT_TRUE(json["host"].empty());
}

TEST_F(Commands, ImagesAddNoKernelAndAreExplained) {
  const std::string model = dir_ / "image.onnx";
  OnnxWriter m;
  m.input("x", DType::F32, {1, 3, 16, 16}).output("y", DType::F32, {1, 3, 16, 16});
  m.node("Sigmoid", {"x"}, {"y"});
  write_file(model, m.bytes());
  const std::vector<std::string> images{"--image", "x=rgba8,resize=bilinear,mean=0.5", "--image",
                                        "y=bgra8"};
  std::vector<std::string> explain{"explain", model, "--device", kDevice};
  explain.insert(explain.end(), images.begin(), images.end());
  const Json json = json_of(explain);
  EXPECT_EQ(json["launches"], 1);
  ASSERT_EQ(json["images"].size(), 2U);
  EXPECT_EQ(json["images"][0]["format"], "rgba8");
  EXPECT_EQ(json["images"][0]["shape"], "[x_height, x_width, 4]");
  EXPECT_EQ(json["images"][1]["direction"], "output");
  EXPECT_NE(reprise(explain).out.find(
                "image input 'x': rgba8 [x_height, x_width, 4], resized bilinearly, mean 0.5"),
            std::string::npos);
  std::vector<std::string> compile{"compile", model, "-o", dir_ / "image.rpk"};
  compile.insert(compile.end(), images.begin(), images.end());
  ASSERT_EQ(reprise(compile).status, 0);
  const Json verified = json_of({"verify", dir_ / "image.rpk", "--device", kDevice, "--shape",
                                 "x=20x30x4", "--tolerance", "0"});
  EXPECT_EQ(verified["outputs"][0]["max_error"], 0);
  EXPECT_EQ(reprise({"explain", model, "--image", "x=rgb"}).status, 2);
}

TEST_F(Commands, SwitchingFusionOffShows) {
  const Json json = json_of({"explain", model_, "--device", kDevice, "--disable-pass", "fusion"});
  EXPECT_EQ(json["launches"], json["launches_unfused"]);
  ASSERT_FALSE(json["unfused"].empty());
  expect_keys(json["unfused"][0], {"from", "to", "reason"});
}

TEST_F(Commands, DumpWritesEveryStage) {
  const std::string dump = dir_ / "dump";
  ASSERT_EQ(reprise({"explain", model_, "--dump", dump, "--device", kDevice}).status, 0);
  size_t graphs = 0, ir = 0, spirv = 0, cuda = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dump)) {
    const std::string ext = entry.path().extension();
    graphs += ext == ".txt";
    ir += ext == ".ir";
    spirv += ext == ".spv";
    cuda += ext == ".cu";
  }
  EXPECT_GT(graphs, 3u);
  EXPECT_GT(ir, 0u);
  EXPECT_GT(spirv, 0u);
  EXPECT_GT(cuda, 0u);
}

TEST_F(Commands, VerifyAgrees) {
  const Json json = json_of({"verify", model_, "--device", kDevice, "--shape", "a=33x8"});
  ASSERT_EQ(json["outputs"].size(), 2u);
  expect_keys(json["outputs"][0], {"name", "max_error", "ok"});
  EXPECT_EQ(json["outputs"][0]["ok"], true);
}

TEST_F(Commands, VerifyComparesReplays) {
  const std::vector<std::string> verify{"verify", model_, "--device", kDevice,
                                        "--runs", "5",    "--shape",  "a=33x8"};
  const Json json = json_of(verify);
  EXPECT_EQ(json["runs"], 5);
  EXPECT_EQ(json["outputs"][0]["runs_differing"], 0);
  EXPECT_NE(reprise(verify).out.find("all 5 runs gave the same bits"), std::string::npos);
}

TEST_F(Commands, VerifyThatFailsNamesTheNextCommand) {
  const ProcessResult r = reprise({"verify", model_, "--device", kDevice, "--tolerance", "0",
                                   "--shape", "a=3x8", "--seed", "7"});
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_NE(r.err.find("reprise bisect " + model_ + " --device vulkan:"), std::string::npos)
      << r.err;
  EXPECT_NE(r.err.find("--seed 7 --shape a=3x8\n"), std::string::npos) << r.err;
}

TEST_F(Commands, BisectSaysThatNothingDiffers) {
  const std::string package = dir_ / "m.rpk";
  json_of({"compile", model_, "-o", package});
  for (const std::string& model : {model_, package}) {
    const Json json =
        json_of({"bisect", model, "--device", kDevice, "--shape", "a=9x8", "-o", dir_ / "reduced"});
    expect_keys(json, {"kernel", "nodes", "operators", "cause", "deterministic", "max_error",
                       "reduced", "differs", "experiments"});
    EXPECT_EQ(json["differs"], false) << model;
    EXPECT_TRUE(json["kernel"].is_null());
    EXPECT_TRUE(json["reduced"].is_null());
    EXPECT_EQ(json["deterministic"], true);
  }
  EXPECT_FALSE(fs::exists(dir_ / "reduced"));
}

TEST_F(Commands, BisectRefusesTheHost) {
  const ProcessResult r = reprise({"bisect", model_, "--device", "host"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--device host"), std::string::npos) << r.err;
}

const std::vector<std::string> kBenchKeys = {
    "model",      "device",    "mode",           "kernels",   "dispatches",
    "compile_ms", "load_ms",   "first_run_ms",   "median_ms", "p10_ms",
    "p90_ms",     "device_ms", "host_submit_us", "max_error", "device_bytes"};

TEST_F(Commands, BenchMeasures) {
  const Json list = json_of({"bench", model_, model_, "--runs", "3", "--device", kDevice});
  ASSERT_EQ(list.size(), 2u);
  expect_keys(list[0], kBenchKeys);
  EXPECT_EQ(list[0]["dispatches"], 1);
  EXPECT_GT(list[0]["median_ms"].get<double>(), 0);
  EXPECT_LE(list[0]["p10_ms"].get<double>(), list[0]["p90_ms"].get<double>());
  EXPECT_LE(list[0]["device_ms"].get<double>(), list[0]["timed_run_ms"].get<double>());
  EXPECT_LT(list[0]["max_error"].get<double>(), 1e-4);
  EXPECT_TRUE(list[0]["longest_slice_us"].is_null());
}

TEST_F(Commands, BenchMeasuresSlices) {
  const Json list = json_of(
      {"bench", model_, "--runs", "3", "--device", kDevice, "--slice-us", "1", "--no-reference"});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_GT(list[0]["longest_slice_us"].get<double>(), 0);
}

TEST_F(Commands, BenchMeasuresBodies) {
  const fs::path model = own_cases("control_flow") / "loop_counted_by_an_input/model.onnx";
  const Json list = json_of({"bench", model.string(), "--runs", "1", "--device", kDevice});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_GT(list[0]["dispatches"], 0);
  EXPECT_GT(list[0]["device_ms"].get<double>(), 0);
  ASSERT_FALSE(list[0]["launches"].empty());
  const Json& launch = list[0]["launches"].back();
  ASSERT_TRUE(launch["body"].is_string());
  EXPECT_NE(launch["body"].get<std::string>().find("body of node"), std::string::npos);
  EXPECT_GT(launch["us"].get<double>(), 0);
}

TEST_F(Commands, CompareListsEveryUsableDevice) {
  const Json list = json_of({"compare", model_, "--runs", "2"});
  size_t usable = 0;
  for (const Json& d : json_of({"devices"})) usable += d["usable"] == true;
  EXPECT_EQ(list.size(), usable);
  for (const Json& row : list) expect_keys(row, kBenchKeys);
}

TEST_F(Commands, ConformanceTellsPassFromFail) {
  const auto make_case = [&](const std::string& name, const std::string& model, float wrong) {
    const fs::path set = dir_.path() / "cases" / name / "test_data_set_0";
    fs::create_directories(set);
    write_file(set.parent_path() / "model.onnx", model);
    HostTensor x = float_tensor({6});
    HostTensor y(DType::F32, {6});
    for (int i = 0; i < 6; ++i) y.mutable_data<float>()[i] = -x.data<float>()[i] + wrong;
    write_file(set / "input_0.pb", onnx_tensor(x));
    write_file(set / "output_0.pb", onnx_tensor(y));
  };
  const auto model = [](const std::string& op) {
    OnnxWriter m;
    m.input("x", DType::F32, {6}).output("y", DType::F32, {6}).node(op, {"x"}, {"y"});
    return m.bytes();
  };
  make_case("test_right", model("Neg"), 0);
  make_case("test_wrong", model("Neg"), 0.01f);
  make_case("test_unknown", model("Frobnicate"), 0);
  make_case("test_junk", "junk", 0);
  const std::string cases = dir_ / "cases";
  for (const char* device : {"host", kDevice}) {
    const Json json = json_of({"conformance", cases, "--device", device, "--jobs", "2"}, 1);
    EXPECT_EQ(json["totals"]["pass"], 1);
    EXPECT_EQ(json["totals"]["fail"], 1);
    EXPECT_EQ(json["totals"]["unsupported"], 1);
    EXPECT_EQ(json["totals"]["error"], 1);
    ASSERT_EQ(json["cases"].size(), 4u);
    expect_keys(json["cases"][0],
                {"name", "status", "reason", "max_error", "device_nodes", "host_nodes"});
    EXPECT_EQ(json["cases"][1]["name"], "test_right");
  }
  EXPECT_EQ(
      json_of({"conformance", cases, "--filter", "*right", "--device", "host"})["totals"]["pass"],
      1);
}

TEST_F(Commands, JsonGoesToAFileBesideTheText) {
  const std::string path = dir_ / "out.json";
  const ProcessResult r = reprise({"devices", "--json", path});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.out.find("host"), std::string::npos);
  EXPECT_TRUE(Json::parse(read_file(path), nullptr, false).is_array());
}

}  // namespace
}  // namespace reprise::test
