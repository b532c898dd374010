// Large graphs compile in time and memory in proportion to their size. The quick tier compiles
// 4,000 nodes of each shape, the full tier 20,000; the tier's time limit is what a quadratic pass
// exceeds.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <iostream>
#include <string>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/base/timing.h"

namespace reprise {
namespace {

std::string v(const std::string& prefix, size_t i) {
  return prefix + std::to_string(i);
}

/// One chain, of which each kernel takes as many nodes as it may have.
std::string chain(size_t nodes) {
  std::string text = "graph chain\ninput x0: float32[4,8]\n";
  for (size_t i = 0; i < nodes; ++i) {
    const char* op = i % 2 == 0 ? " = Tanh(" : " = Abs(";
    text += v("x", i + 1) + op + v("x", i) + ") @13\n";
  }
  return text + "output " + v("x", nodes) + "\n";
}

/// Equal layers with a residual.
std::string layers(size_t nodes) {
  std::string text = "graph layers\ninput x0: float32[4,8]\nconst w: float32[8,8]{";
  for (int i = 0; i < 64; ++i) text += (i > 0 ? ", " : "") + std::string(i % 9 == 0 ? "1" : "0");
  text += "}\n";
  for (size_t i = 0; i < nodes / 4; ++i) {
    text += v("m", i) + " = MatMul(" + v("x", i) + ", w) @13\n";
    text += v("s", i) + " = Softmax<axis=-1>(" + v("m", i) + ") @13\n";
    text += v("t", i) + " = Tanh(" + v("s", i) + ") @13\n";
    text += v("x", i + 1) + " = Add(" + v("x", i) + ", " + v("t", i) + ") @14\n";
  }
  return text + "output " + v("x", nodes / 4) + "\n";
}

/// One value that all kernels read.
std::string siblings(size_t nodes) {
  std::string text = "graph siblings\ninput x: float32[4,8]\n";
  std::string outputs;
  for (size_t i = 0; i < nodes / 2; ++i) {
    text += "const " + v("c", i) + ": float32[]{" + std::to_string(i) + "}\n";
    text += v("a", i) + " = Add(x, " + v("c", i) + ") @14\n";
    text += v("r", i) + " = ReduceSum<axes=[" + std::string(i % 2 == 0 ? "0" : "1") + "]>(" +
            v("a", i) + ") @11\n";
    outputs += (i > 0 ? ", " : "") + v("r", i);
  }
  return text + "output " + outputs + "\n";
}

/// Two paths between each two values.
std::string diamonds(size_t nodes) {
  std::string text = "graph diamonds\ninput x0: float32[4,8]\n";
  for (size_t i = 0; i < nodes / 3; ++i) {
    text += v("a", i) + " = Sin(" + v("x", i) + ") @7\n";
    text += v("b", i) + " = Tanh(" + v("x", i) + ") @13\n";
    text += v("x", i + 1) + " = Mul(" + v("a", i) + ", " + v("b", i) + ") @14\n";
  }
  return text + "output " + v("x", nodes / 3) + "\n";
}

/// Every part has a size that only its run determines.
std::string found(size_t nodes) {
  std::string text = "graph found\ninput x: float32[4,8]\n", outputs;
  for (size_t i = 0; i < nodes / 4; ++i) {
    text += "const " + v("c", i) + ": float32[]{" + std::to_string(i) + "}\n";
    text += v("a", i) + " = Add(x, " + v("c", i) + ") @14\n";
    text += v("n", i) + " = NonZero(" + v("a", i) + ") @13\n";
    text += v("f", i) + " = Cast<to=1>(" + v("n", i) + ") @13\n";
    text += v("s", i) + " = Softmax<axis=-1>(" + v("f", i) + ") @13\n";
    outputs += (i > 0 ? ", " : "") + v("s", i);
  }
  return text + "output " + outputs + "\n";
}

struct Shape {
  const char* name;
  std::string (*text)(size_t nodes);
};
const Shape kShapes[] = {{"chain", chain},
                         {"layers", layers},
                         {"siblings", siblings},
                         {"diamonds", diamonds},
                         {"found", found}};

/// Megabytes that the process has taken at most.
double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void compile_all(size_t nodes) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.name);
    auto g = graph::parse(shape.text(nodes));
    ASSERT_TRUE(g.ok()) << g.status().message();
    CompileOptions options;
    options.targets = {"vulkan-cpu-sg8", "vulkan-int64"};
    options.probes = shape.text == found;  // the others have one kernel or few
    CompileReport report;
    const auto start = Clock::now();
    const auto p = compile(std::move(*g), options, &report);
    ASSERT_TRUE(p.ok()) << p.status().message();
    std::cout << shape.name << " of " << nodes << " nodes: " << ms_since(start) << " ms, "
              << p->variants[0].plan.steps.size() << " launches, " << peak_mb() << " MB;";
    for (const PassTime& t : report.passes)
      if (t.ms > 0.1 * ms_since(start)) std::cout << " " << t.name << " " << t.ms;
    std::cout << "\n";
  }
}

TEST(Scale, FourThousandNodes) {
  compile_all(4000);
}

TEST(ScaleFull, TwentyThousandNodes) {
  compile_all(5000);
  const double small = peak_mb();
  compile_all(20000);
  EXPECT_LT(peak_mb(), 5 * small);
}

}  // namespace
}  // namespace reprise
