// explain --all and reprise_compile_options::refused: everything that is not supported, at once.
#include <gtest/gtest.h>

#include <algorithm>

#include "reprise/compiler.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

/// Two unknown operators, one of which reads the result of the other, a wrong shape, a Det of an
/// opset that is too old, and nodes that read what these lack.
std::string model_with_refusals() {
  OnnxWriter m(10);
  m.input("a", DType::F32, {2, 3}).input("b", DType::F32, {2, 4});
  m.output("y", DType::F32, {2, 3}).output("z", DType::F32, {2, 3});
  m.node("Frobnicate", {"a"}, {"f"}, {"frob", "com.example", {}});
  m.node("Gradient", {"f"}, {"o"}, {"opt", "ai.onnx.preview.training", {}});
  m.node("Add", {"a", "b"}, {"s"}, {"sum", "", {}});
  m.node("Det", {"a"}, {"d"}, {"det", "", {}});
  m.node("Relu", {"s"}, {"t"}, {"after", "", {}});
  m.node("NonZero", {"a"}, {"nz"}, {"on_host", "", {}});
  m.node("Mul", {"a", "a"}, {"y"}, {"fine", "", {}});
  m.node("Add", {"t", "o"}, {"z"}, {"last", "", {}});
  return m.bytes();
}

Json named(const Json& list, const std::string& node) {
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const Json& r) { return r["node"] == node; });
  return at == list.end() ? Json() : *at;
}

class ExplainAll : public testing::Test {
 protected:
  std::string file(const std::string& bytes) {
    const std::string path = dir_ / "m.onnx";
    write_file(path, bytes);
    return path;
  }
  TempDir dir_;
};

TEST_F(ExplainAll, ListsEveryRefusalAndTheHost) {
  const std::string model = file(model_with_refusals());
  const Json json = json_of({"explain", "--all", model, "--targets", "vulkan"}, 3);
  const Json& refused = json["refused"];
  ASSERT_EQ(refused.size(), 4U) << refused;
  const Json frob = named(refused, "frob");
  EXPECT_EQ(frob["op"], "Frobnicate");
  EXPECT_EQ(frob["domain"], "com.example");
  EXPECT_NE(frob["reason"].get<std::string>().find("export the model with other operators"),
            std::string::npos)
      << frob;
  EXPECT_NE(named(refused, "opt")["reason"].get<std::string>().find(
                "gradients within a model are not supported"),
            std::string::npos);
  EXPECT_EQ(named(refused, "sum")["version"], 10);
  EXPECT_NE(named(refused, "det")["reason"].get<std::string>().find("onnx.version_converter"),
            std::string::npos);
  // Nodes that only lack the results of others are not refused themselves.
  EXPECT_TRUE(named(refused, "after").is_null());
  EXPECT_FALSE(named(json["host"], "on_host").is_null()) << json["host"];

  const ProcessResult text = reprise({"explain", "--all", model, "--device", "host"});
  EXPECT_EQ(text.status, 3);
  EXPECT_NE(text.err.find("4 refusals"), std::string::npos) << text.err;
  EXPECT_NE(text.out.find("node 'sum' (Add, domain 'ai.onnx', version 10): "), std::string::npos)
      << text.out;
}

TEST_F(ExplainAll, DeclaredTypesShowLaterErrors) {
  OnnxWriter m;
  m.input("a", DType::F32, {2, 3}).input("b", DType::F32, {5, 7});
  m.output("f", DType::F32, {2, 3}).output("y", DType::F32, {2, 3});
  m.node("Frobnicate", {"a"}, {"f"}, {"frob", "", {}});
  m.node("MatMul", {"f", "b"}, {"y"}, {"product", "", {}});
  const Json json = json_of({"explain", "--all", file(m.bytes()), "--device", "host"}, 3);
  EXPECT_EQ(json["refused"].size(), 2U) << json["refused"];
  EXPECT_FALSE(named(json["refused"], "product").is_null()) << json["refused"];
}

TEST_F(ExplainAll, NothingIsLeft) {
  OnnxWriter m;
  m.input("a", DType::F32, {2}).output("y", DType::F32, {"n"});
  m.node("Frobnicate", {"a"}, {"f"}, {"frob", "", {}}).node("Relu", {"f"}, {"g"});
  m.node("Baz", {"g"}, {"y"}, {"baz", "", {}});
  const Json json = json_of({"explain", "--all", file(m.bytes()), "--device", "host"}, 3);
  EXPECT_EQ(json["refused"].size(), 2U) << json["refused"];
  EXPECT_TRUE(json["host"].empty());
}

TEST_F(ExplainAll, ASupportedModelIsExplainedAsUsual) {
  OnnxWriter m;
  m.input("a", DType::F32, {2}).output("y", DType::F32, {2}).node("Relu", {"a"}, {"y"});
  const Json json = json_of({"explain", "--all", file(m.bytes()), "--targets", "vulkan"});
  EXPECT_TRUE(json["refused"].empty());
  EXPECT_EQ(json["launches"], 1);
}

struct Told {
  std::vector<std::string> nodes, reasons;
};

TEST_F(ExplainAll, CallersOfTheLibraryAreToldEverything) {
  const std::string model = file(model_with_refusals());
  Told told;
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.refused_user = &told;
  options.refused = [](void* user, const reprise_refusal* r) {
    static_cast<Told*>(user)->nodes.emplace_back(r->node);
    static_cast<Told*>(user)->reasons.emplace_back(r->reason);
  };
  reprise_package* package = nullptr;
  reprise_error error{};
  EXPECT_EQ(reprise_compile_file(model.c_str(), &options, &package, &error), REPRISE_UNSUPPORTED);
  EXPECT_EQ(package, nullptr);
  EXPECT_EQ(told.nodes, (std::vector<std::string>{"frob", "opt", "sum", "det"}));
  EXPECT_NE(std::string(error.message).find("node 'frob' (Frobnicate, domain 'com.example'"),
            std::string::npos)
      << error.message;
}

}  // namespace
}  // namespace reprise::test
