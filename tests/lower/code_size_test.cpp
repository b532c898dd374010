// Chains of operators that read their operands at other indices: the code of a kernel grows with
// the product of the reads, and conditions nest.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "codegen/compiler.h"
#include "codegen/graph/text.h"
#include "runtime/session.h"
#include "tests/support/random_values.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

std::string v(const std::string& prefix, size_t i) {
  return prefix + std::to_string(i);
}

/// Each link appends one row to the last. A kernel of all of them nests a condition for each.
std::string concats(size_t links) {
  std::string text = "graph concats\ninput x0: float32[1,8]\ninput y: float32[1,8]\n";
  for (size_t i = 0; i < links; ++i)
    text += v("x", i + 1) + " = Concat<axis=0>(" + v("x", i) + ", y) @13\n";
  return text + "output " + v("x", links) + "\n";
}

/// Each link rolls the last by one element, as Swin's windows. A kernel of all of them has twice as
/// much code with each.
std::string rolls(size_t links) {
  std::string text =
      "graph rolls\ninput x0: float32[64]\nconst zero: int64[1]{0}\nconst one: int64[1]{1}\n"
      "const end: int64[1]{64}\n";
  for (size_t i = 0; i < links; ++i) {
    text += v("h", i) + " = Slice(" + v("x", i) + ", one, end) @13\n";
    text += v("t", i) + " = Slice(" + v("x", i) + ", zero, one) @13\n";
    text += v("x", i + 1) + " = Concat<axis=0>(" + v("h", i) + ", " + v("t", i) + ") @13\n";
  }
  return text + "output " + v("x", links) + "\n";
}

/// Compares every Vulkan device with the host; the model is exact. Returns the SPIR-V words.
size_t run_everywhere(const std::string& text) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return 0;
  std::vector<HostTensor> inputs;
  for (const graph::ValueId in : (*g)->inputs) {
    const graph::Value& value = (*g)->value(in);
    inputs.push_back(test::random_values(value.dtype, static_dims(value.shape), {}, 7, value.name));
  }
  std::vector<Binding> bindings(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bindings[i].name = (*g)->value((*g)->inputs[i]).name;
    bindings[i].host = &inputs[i];
  }
  size_t words = 0;
  CompileOptions options;
  options.on_kernel = [&](const std::string&, const std::string&, const std::string&,
                          std::span<const uint32_t> spirv,
                          const std::string&) { words += spirv.size(); };
  CompileReport report;
  auto package = compile((*g)->clone(), options, &report);
  EXPECT_TRUE(package.ok()) << package.status().message();
  EXPECT_TRUE(report.broken.empty());
  if (!package.ok()) return 0;
  const auto shared = std::make_shared<package::Package>(std::move(*package));
  const auto results_on = [&](const std::shared_ptr<Device>& device) {
    auto session = Session::create(shared, device);
    EXPECT_TRUE(session.ok()) << session.status().message();
    auto results = (*session)->run(bindings);
    EXPECT_TRUE(results.ok()) << results.status().message();
    return results.ok() ? std::move(*results) : std::vector<HostTensor>();
  };
  const std::vector<HostTensor> expected = results_on(nullptr);
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    SCOPED_TRACE(info.id);
    auto device = open_device(info.id);
    EXPECT_TRUE(device.ok()) << device.status().message();
    const std::vector<HostTensor> results = results_on(device->device);
    EXPECT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < std::min(results.size(), expected.size()); ++i)
      EXPECT_TRUE(std::ranges::equal(results[i].bytes(), expected[i].bytes())) << "output " << i;
  }
  return words;
}

TEST(CodeSize, ConditionsDoNotNestTooDeeply) {
  for (const size_t links : {20, 79, 150}) {
    SCOPED_TRACE(links);
    EXPECT_GT(run_everywhere(concats(links)), 0U);
  }
}

TEST(CodeSize, ChainsDoNotDoubleTheCode) {
  const size_t eight = run_everywhere(rolls(8));
  const size_t thirty_two = run_everywhere(rolls(32));
  EXPECT_GT(eight, 0U);
  EXPECT_LT(thirty_two, 8 * eight);
}

}  // namespace
}  // namespace reprise
