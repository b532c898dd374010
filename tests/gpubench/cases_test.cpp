// The cases compute what their references say, on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bench/gpu/case.h"
#include "runtime/session/session.h"

namespace reprise::bench::gpu {
namespace {

Tensors values_of(const Case& c) {
  if (c.load) {
    auto loaded = c.load();
    return loaded.ok() ? std::move(*loaded) : Tensors{};
  }
  Tensors values;
  values.reserve(c.operands.size());
  for (const Operand& operand : c.operands) values.push_back(made_up(operand));
  return values;
}

/// Chains of kernels have no model that the host could run.
bool has_model(const Case& c) {
  return c.skip.empty() && c.group != "copy" && c.group != "replay" && c.group != "constants";
}

TEST(GpuCases, ModelsComputeWhatTheReferencesSay) {
  size_t tested = 0;
  for (const Case& c : all_cases({true, "/nonexistent"})) {
    if (!has_model(c)) continue;
    SCOPED_TRACE(c.name);
    const Tensors values = values_of(c);
    const auto package = c.package(values, DeviceInfo{}, options_for(DeviceInfo{}));
    ASSERT_TRUE(package.ok()) << package.status().message();
    const auto session = Session::create(*package, nullptr);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<Binding> inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      if (c.operands[i].constant) continue;
      Binding b;
      b.name = c.operands[i].name;
      b.host = &values[i];
      inputs.push_back(b);
    }
    const auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    double largest = 0, worst = 0;
    const Samples expected = c.expected(values);
    EXPECT_GE(expected.size(), 64U);
    for (const Sample& s : expected) {
      const double error = std::abs(value_at((*outputs)[s.output], s.index) - s.value);
      worst = std::max(worst, std::isnan(error) ? INFINITY : error);
      largest = std::max(largest, std::abs(s.value));
    }
    EXPECT_EQ((*outputs)[0].dims(), c.outputs[0]);
    EXPECT_LE(worst, largest * tolerance_of(c.dtype));
    ++tested;
  }
  EXPECT_GE(tested, 8U);
}

TEST(GpuCases, NamesAreUniqueAndWorkIsStated) {
  std::set<std::string> names;
  for (const bool quick : {false, true}) {
    names.clear();
    for (const Case& c : all_cases({quick, "/nonexistent"})) {
      EXPECT_TRUE(names.insert(c.name + " " + std::string(name_of(c.dtype))).second) << c.name;
      const bool rated = c.group != "model" && c.group != "replay";
      EXPECT_EQ(c.flops > 0 || c.bytes > 0 || c.operations > 0, rated) << c.name;
    }
  }
}

TEST(GpuCases, MissingModelsAreSkippedWithAReason) {
  const Case c = model_case("/nonexistent", "resnet18", DType::F32);
  EXPECT_EQ(c.skip, "there is no /nonexistent/resnet18/model.onnx; --models names a folder");
}

TEST(GpuCases, MadeUpValuesHaveNoPeriod) {
  const HostTensor t = made_up({"x", DType::F32, {8192}});
  double sum = 0, repeated = 0;
  for (int64_t i = 0; i < 8192; ++i) sum += value_at(t, i);
  for (int64_t i = 0; i < 4096; ++i) repeated += value_at(t, i) == value_at(t, i + 4096) ? 1 : 0;
  EXPECT_NEAR(sum / 8192, 0, 0.03);
  EXPECT_LT(repeated, 10);
  EXPECT_NE(value_at(t, 0), value_at(made_up({"w", DType::F32, {1}}), 0));
}

}  // namespace
}  // namespace reprise::bench::gpu
