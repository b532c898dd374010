// The acceptance models: each imports with every type inferred, and its text reads back.
#include <gtest/gtest.h>

#include <filesystem>

#include "codegen/onnx/importer.h"
#include "tests/support/paths.h"

namespace reprise::onnx {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(reprise::test::models_dir(), error)) {
    if (fs::exists(entry.path() / "model.onnx")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void round_trip(const graph::Graph& g) {
  const Status s = graph::verify(g, false);
  EXPECT_TRUE(s.ok()) << s.message();
  graph::ConstantPool pool;
  const std::string text = graph::print(g, &pool);
  auto back = graph::parse(text, &pool);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(graph::print(**back), text);
  EXPECT_TRUE(graph::verify(**back, false).ok()) << graph::verify(**back, false).message();
  EXPECT_EQ(graph::print(*g.clone()), text);
}

TEST(Models, ImportAndReadBack) {
  if (!reprise::test::has_models()) GTEST_SKIP() << "no models in " << reprise::test::models_dir();
  int imported = 0;
  for (const std::string& name : model_names()) {
    SCOPED_TRACE(name);
    const auto g = import_file(reprise::test::models_dir() / name / "model.onnx");
    if (!g.ok()) {
      // An operator that is missing is said by name; nothing else may stop a good model.
      EXPECT_EQ(g.status().code(), Code::Unsupported) << g.status().message();
      EXPECT_NE(g.status().message().find("node '"), std::string::npos) << g.status().message();
      continue;
    }
    ++imported;
    round_trip(**g);
  }
  EXPECT_GE(imported, 18);
}

TEST(Models, TheirInputsAndOutputsAreReadAndMatch) {
  if (!reprise::test::has_models()) GTEST_SKIP() << "no models in " << reprise::test::models_dir();
  for (const std::string& name : model_names()) {
    SCOPED_TRACE(name);
    const fs::path folder = reprise::test::models_dir() / name;
    const auto g = import_file(folder / "model.onnx");
    if (!g.ok()) continue;
    for (size_t i = 0; i < (*g)->inputs.size(); ++i) {
      const auto t =
          read_tensor_file(folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"));
      ASSERT_TRUE(t.ok()) << t.status().message();
      const graph::Value& v = (*g)->value((*g)->inputs[i]);
      EXPECT_EQ(t->tensor.dtype(), v.dtype);
      // silero_vad's data holds its scalar as [1].
      if (v.shape.empty() && t->tensor.count() == 1) continue;
      EXPECT_EQ(t->tensor.dims().size(), v.shape.size());
    }
    for (size_t i = 0; i < (*g)->outputs.size(); ++i) {
      const auto t =
          read_tensor_file(folder / "test_data_set_0" / ("output_" + std::to_string(i) + ".pb"));
      ASSERT_TRUE(t.ok()) << t.status().message();
      const graph::Value& v = (*g)->value((*g)->outputs[i]);
      EXPECT_EQ(t->tensor.dtype(), v.dtype);
      ASSERT_EQ(t->tensor.dims().size(), v.shape.size());
      for (size_t d = 0; d < v.shape.size(); ++d) {
        if (!v.shape[d].is_const()) continue;
        EXPECT_TRUE(v.shape[d].is_const(t->tensor.dims()[d]));
      }
    }
  }
}

TEST(Models, DynamicDimsAreSharedSymbols) {
  if (!reprise::test::has_models()) GTEST_SKIP() << "no models in " << reprise::test::models_dir();
  const auto bert = import_file(reprise::test::models_dir() / "bert" / "model.onnx");
  ASSERT_TRUE(bert.ok()) << bert.status().message();
  const auto shape = [&](graph::ValueId v) {
    return shape_str((*bert)->value(v).shape, (*bert)->symbols);
  };
  EXPECT_EQ(shape((*bert)->inputs[0]), "[batch, seq]");
  EXPECT_EQ(shape((*bert)->inputs[1]), "[batch, seq]");
  EXPECT_EQ(shape((*bert)->outputs[0]), "[batch, seq, 256]");
  const auto llama = import_file(reprise::test::models_dir() / "llama_step" / "model.onnx");
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(shape_str((*llama)->value((*llama)->outputs[1]).shape, (*llama)->symbols),
            "[4, 1, 2, past + 1, 32]");
}

}  // namespace
}  // namespace reprise::onnx
