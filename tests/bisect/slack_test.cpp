// How far rounding may move the results of models, also of those that compute sizes from floats.
#include <gtest/gtest.h>

#include <span>

#include "apps/bisect/trial.h"
#include "codegen/onnx/importer.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

HostTensor ramp(const std::vector<int64_t>& dims) {
  HostTensor t(DType::F32, dims);
  for (int64_t i = 0; i < t.count(); ++i)
    t.mutable_data<float>()[i] = 0.3F * static_cast<float>(i + 1);
  return t;
}

/// x [6, 4] + range(0, n, 1), with n = 6 among the inputs.
app::Sample sample_with_range() {
  OnnxWriter w;
  w.input("x", DType::F32, {6, 4}).input("n", DType::F32, {}).output("y", DType::F32, {6, 4});
  w.initializer("zero", HostTensor::from<float>(DType::F32, {}, {0}));
  w.initializer("one", HostTensor::from<float>(DType::F32, {}, {1}));
  w.initializer("axis", HostTensor::from<int64_t>(DType::I64, {1}, {1}));
  w.node("Range", {"zero", "n", "one"}, {"r"}).node("Unsqueeze", {"r", "axis"}, {"c"});
  w.node("Add", {"x", "c"}, {"y"});
  const std::string bytes = w.bytes();
  auto graph = onnx::import_bytes(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  app::InputSet inputs;
  inputs.names = {"x", "n"};
  inputs.tensors = {ramp({6, 4}), HostTensor::from<float>(DType::F32, {}, {6})};
  auto sample = app::make_sample(std::move(*graph), std::move(inputs));
  EXPECT_TRUE(sample.ok()) << sample.status().message();
  return std::move(*sample);
}

// In about half of the trials, n is more than 6, and the range has one element more.
TEST(Slack, SizesThatComeFromFloatsStay) {
  app::Sample sample = sample_with_range();
  const auto slack = app::slack_of(sample, 0);
  ASSERT_TRUE(slack.ok()) << slack.status().message();
  EXPECT_EQ(slack->trials(), app::Slack::kFew);
  for (const double s : slack->of(0)) {
    EXPECT_GT(s, 0);
    EXPECT_LT(s, 1e-2);
  }
}

TEST(Slack, MoreTrialsAreMadeUntilRoundingExplainsADifference) {
  app::Sample sample = sample_with_range();
  const HostTensor right = sample.expected[0];
  HostTensor wrong(DType::F32, right.dims());
  for (int64_t i = 0; i < right.count(); ++i)
    wrong.mutable_data<float>()[i] = right.data<float>()[i] + (i == 5 ? 0.5F : 0.0F);
  const Tolerance exact{};
  auto c = app::compare_output(sample, 0, right, right, exact, app::Slack::kMany);
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_TRUE(c->ok);
  EXPECT_EQ(sample.slack.trials(), 0);
  c = app::compare_output(sample, 0, wrong, right, exact, app::Slack::kMany);
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_FALSE(c->ok);
  EXPECT_EQ(sample.slack.trials(), app::Slack::kMany);
}

}  // namespace
}  // namespace reprise::test
