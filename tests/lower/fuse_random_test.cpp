// Fusion of random graphs of elementwise operators, views and reductions: kernels never wait for
// each other, whatever is shared, stored and computed twice.
#include <gtest/gtest.h>

#include <random>

#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/passes/pass.h"

namespace reprise::lower {
namespace {

/// The text of a random graph over values of three shapes.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    text_ = "graph random\n";
    for (const Kind kind : {Matrix, Column}) {
      values_.push_back({"x" + std::to_string(kind), kind});
      text_ += "input " + values_.back().name + ": float32" + kDims[kind] + "\n";
    }
    text_ +=
        "const square: int64[2]{64, 64}\nconst line: int64[1]{4096}\n"
        "const zero: int64[1]{0}\nconst one: int64[1]{1}\n";
    const size_t operators = 6 + random_() % 14;
    for (size_t i = 0; i < operators; ++i) add_operator();
    std::string outputs;
    for (const Value& v : values_) {
      if (v.users > 0 || v.name[0] == 'x') continue;
      outputs += (outputs.empty() ? "" : ", ") + v.name;
    }
    text_ += "output " + outputs + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  enum Kind : uint8_t { Matrix, Column, Line };
  static constexpr const char* kDims[] = {"[64,64]", "[64,1]", "[4096]"};
  struct Value {
    std::string name;
    Kind kind;
    int users = 0;
  };

  /// One of the last values of the kind; there is always a matrix and a column.
  std::string read(Kind kind) {
    std::vector<Value*> found;
    for (Value& v : values_) {
      if (v.kind == kind) found.push_back(&v);
    }
    if (found.empty()) return {};
    const size_t recent = std::min<size_t>(found.size(), 5);
    Value& v = *found[found.size() - 1 - random_() % recent];
    ++v.users;
    return v.name;
  }

  void add(Kind kind, const std::string& formula, int opset) {
    const std::string name = "v" + std::to_string(values_.size());
    text_ += name + " = " + formula + " @" + std::to_string(opset) + "\n";
    values_.push_back({name, kind});
  }

  void add_operator() {
    static constexpr const char* kUnary[] = {"Tanh", "Neg", "Erf", "Abs", "Sin"};
    switch (random_() % 9) {
      case 0:
      case 1: {
        const Kind kind = random_() % 2 == 0 ? Matrix : Column;
        return add(kind, kUnary[random_() % 5] + ("(" + read(kind)) + ")", 13);
      }
      case 2:
      case 3: {
        const std::string a = read(Matrix);
        return add(Matrix, "Mul(" + a + ", " + read(random_() % 2 == 0 ? Matrix : Column) + ")",
                   14);
      }
      case 4:
        return add(Line, "Reshape(" + read(Matrix) + ", line)", 14);
      case 5: {
        const std::string line = read(Line);
        return line.empty() ? void() : add(Matrix, "Reshape(" + line + ", square)", 14);
      }
      case 6:
        return add(Column, "Slice(" + read(Matrix) + ", zero, one, one)", 13);
      case 7:
        return add(Column, "ReduceSum<axes=[1], keepdims=1>(" + read(Matrix) + ")", 11);
      default:
        return add(Matrix, "Transpose<perm=[1, 0]>(" + read(Matrix) + ")", 13);
    }
  }

  std::mt19937 random_;
  std::vector<Value> values_;
  std::string text_;
};

void fuse_random_graphs(unsigned seeds) {
  size_t kernels = 0, nodes = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const RandomGraph random(seed);
    auto g = graph::parse(random.text());
    ASSERT_TRUE(g.ok()) << g.status().message() << "\n" << random.text();
    for (const passes::Pass& p : passes::pipeline()) {
      const Status s = passes::run(p, **g);
      ASSERT_TRUE(s.ok()) << p.name << ": " << s.message() << "\n" << random.text();
    }
    const auto fusion = fuse(**g);
    ASSERT_TRUE(fusion.ok()) << fusion.status().message() << "\n" << random.text();
    kernels += fusion->groups.size();
    nodes += (*g)->nodes().size();
  }
  EXPECT_LT(2 * kernels, nodes) << "nothing is fused";
}

TEST(FuseRandom, KernelsDoNotWaitForEachOther) {
  fuse_random_graphs(8000);
}

TEST(FuseRandom, KernelsDoNotWaitForEachOtherFull) {
  fuse_random_graphs(40000);
}

}  // namespace
}  // namespace reprise::lower
