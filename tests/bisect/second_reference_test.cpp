// Bisection with a second reference, which counts as right: the host, of which one value is
// changed.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "apps/bisect/bisect.h"
#include "apps/common/model.h"
#include "codegen/onnx/importer.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

using app::BisectReport;

constexpr const char* kPointwise = R"(graph pointwise
input n: int64[]
input x: float32[4,64]
s = Sin(x) @16 "sin"
y = Sigmoid(s) @16 "gate"
output y
)";

/// A loop, in which a choice captures values of the loop and of the model.
constexpr const char* kLooped = R"(graph looped
input n: int64[]
input x: float32[4,64]
r = Relu(x) @16 "first"
(y: float32[4,64]) = Loop(n, _, r, x) @16 "loop" {
  body {
    input i: int64[]
    input going: bool[]
    input v: float32[4,64]
    capture c: float32[4,64]
    const limit: float32[]{0.5}
    m = ReduceMean<keepdims=0>(v) @16 "mean"
    less = Less(m, limit) @16 "less"
    (t: float32[4,64]) = If(less, v, c) @16 "choice" {
      then_branch {
        capture v1: float32[4,64]
        capture c1: float32[4,64]
        s = Add(v1, c1) @16 "add"
        output s
      }
      else_branch {
        capture v2: float32[4,64]
        capture _
        output v2
      }
    }
    output going, t
  }
}
z = Neg(y) @16 "last"
output z
)";

/// Bisects a model. The reference is the host, which computes what is exported, with another
/// element 3 of the value `wrong`.
BisectReport bisected(const char* text, const std::string& wrong) {
  const auto g = graph::parse(text);
  const auto device = open_device("vulkan");
  EXPECT_TRUE(g.ok() && device.ok()) << g.status().message() << device.status().message();
  if (!g.ok() || !device.ok()) return {};
  app::InputSet inputs;
  inputs.names = {"n", "x"};
  inputs.tensors = {int64_tensor({}, {3}), float_tensor({4, 64}, 0.01F)};
  app::BisectOptions o;
  o.device = *device;
  o.compile.targets = app::targets_for(*device);
  compile_for(device->info, o.compile);
  o.runs = 2;
  o.reference = [wrong](const std::string& file,
                        const app::InputSet& given) -> Result<std::vector<HostTensor>> {
    RP_ASSIGN(const auto model, onnx::import_bytes(std::as_bytes(std::span(file))));
    RP_ASSIGN(const app::Values values, app::HostGraph(*model).run(given.tensors));
    std::vector<HostTensor> out;
    for (const graph::ValueId v : model->outputs) {
      std::vector<float> numbers(static_cast<size_t>(values.at(v).count()));
      std::memcpy(numbers.data(), values.at(v).bytes().data(), values.at(v).bytes().size());
      if (model->value(v).name == wrong) numbers[3] += 0.5F;
      out.push_back(HostTensor::from(DType::F32, values.at(v).dims(), numbers));
    }
    return out;
  };
  auto report = app::bisect(**g, inputs, o);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? std::move(*report) : BisectReport{};
}

TEST(SecondReference, AgreesWithTheHost) {
  EXPECT_FALSE(bisected(kPointwise, "").differs);
}

TEST(SecondReference, NamesTheHostsNode) {
  const BisectReport r = bisected(kPointwise, "s");
  EXPECT_TRUE(r.differs);
  EXPECT_EQ(r.cause, "host");
  EXPECT_EQ(r.nodes, std::vector<std::string>{"sin"});
  EXPECT_NE(r.explanation.find("'s': element 3"), std::string::npos) << r.explanation;
}

TEST(SecondReference, ComparesValuesAroundBodies) {
  EXPECT_FALSE(bisected(kLooped, "").differs);
}

TEST(SecondReference, NamesNodesWithBodies) {
  const BisectReport r = bisected(kLooped, "y");
  EXPECT_EQ(r.cause, "host");
  EXPECT_EQ(r.nodes, std::vector<std::string>{"loop"});
}

}  // namespace
}  // namespace reprise::test
