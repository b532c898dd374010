// The text of a graph: what print() writes, parse() reads back.
#include <gtest/gtest.h>

#include <filesystem>

#include "codegen/graph/graph.h"
#include "tests/support/paths.h"

namespace reprise::graph {
namespace {

std::string reprint(const std::string& text) {
  auto g = parse(text);
  return g.ok() ? print(**g) : g.status().message();
}

TEST(Text, FilesReadBackToThemselves) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests/graph")) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    const std::string text = test::read_file(entry.path());
    EXPECT_EQ(reprint(text), text) << entry.path();
  }
  EXPECT_GE(files, 4);
}

TEST(Text, WrittenByHandNeedsNoTypesOrSymbols) {
  EXPECT_EQ(reprint(R"(
// a comment
graph g
input x: float32[batch,4], i: int64[batch]
const two: float32[]{2}   // another
y = Mul(x, two)
z = Transpose<perm=[1, 0]>(y)
output z
)"),
            R"(graph g
symbol batch in 0..2147483647 divisor 1 from input 0 axis 0
input x: float32[batch,4]
input i: int64[batch]
const two: float32[]{2}
y: float32[batch,4] = Mul(x, two)
z: float32[4,batch] = Transpose<perm=[1, 0]>(y)
output z
)");
}

TEST(Text, SymbolsOfBodiesComeFromTheirValues) {
  const auto g = parse(R"(graph g
input n: int64[]
input x: float32[4]
(y: float32[4]) = Loop(n, _, x, n) @16 {
  body {
    symbol m from host all axis 0
    input i: int64[]
    input going: bool[]
    input v: float32[4]
    capture trips: int64[]
    (all: float32[m,4]) = Loop(trips, _, v) @16 {
      body {
        input i: int64[]
        input going: bool[]
        capture u: float32[4]
        output going, u
      }
    }
    output going, v
  }
}
output y
)");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Graph& body = *(*g)->nodes().front()->subgraphs[0].second;
  ASSERT_EQ(body.symbols.size(), 1U);
  EXPECT_EQ(body.symbol_sources[0].index, body.nodes().front()->outputs[0].number());
  EXPECT_TRUE(ValueId((*g)->symbol_sources[0].index).is_none());
}

TEST(Text, AQuoteOrKeywordOnTheNextLineBeginsAStatement) {
  const std::string text = R"(graph g
input x: float32[4]
"a:b": float32[4] = Neg(x)
const from: float32[]{1}
"c d": float32[4] = Add("a:b", from)
const weight: float32[]{2}
"e f": float32[4] = Mul("c d", weight)
output "e f", x
)";
  EXPECT_EQ(reprint(text), text);
}

TEST(Text, SymbolsMayHaveTheNamesOfWords) {
  const std::string text = R"(graph g
symbol as in 0..2147483647 divisor 1 from input 0 axis 0
symbol by in 0..2147483647 divisor 1 from input 1 axis 0
symbol both in 0..2147483647 divisor 1 from derived max(by, as)
guard by == as by "a"
guard as == by by "b" of "dimension 0 of 'y'" and "dimension 0 of 'x'"
guard as + 1 broadcasts with as as both by "c"
guard by broadcasts with as + 1 as as by "d"
guard as broadcasts to by by "e"
guard as + 1 >= by by "f" of "the input" and "the window"
input x: float32[as]
input y: float32[by]
output x, y
)";
  EXPECT_EQ(reprint(text), text);
}

TEST(Text, LargeConstantsAreNamedByHash) {
  Graph g;
  HostTensor t(DType::F32, {17});
  t.mutable_data<float>()[16] = 2;
  const ValueId w = g.add_constant("w", t);
  g.set_outputs({w});
  ConstantPool pool;
  const std::string text = print(g, &pool);
  EXPECT_EQ(pool.tensors.size(), 1u);
  auto back = parse(text, &pool);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(print(**back), text);
  EXPECT_EQ((*back)->value((*back)->outputs[0]).constant->data<float>()[16], 2);

  auto missing = parse(text);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("is not in the pool"), std::string::npos);
  t = HostTensor(DType::F32, {17});
  EXPECT_NE(constant_hash(t), constant_hash(*g.value(w).constant));
}

TEST(Text, NaNsWithAPayloadAreNamedByHash) {
  Graph g;
  g.add_output(g.add_constant("w", HostTensor::from<uint32_t>(DType::F32, {1}, {0x7fc00001})));
  EXPECT_NE(print(g).find("const w: float32[1]#"), std::string::npos);
}

TEST(Text, ValuesOfBodiesInferAndShareSymbols) {
  auto g = parse(R"(input c: bool[], x: float32[n]
y: float32[n] = If(c, x) {
  then_branch { capture a: float32[n]
                b = Neg(a)
                output b }
  else_branch { capture a: float32[n]
                output a }
}
output y)");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Graph& body = *(*g)->nodes().front()->subgraphs[0].second;
  EXPECT_EQ(body.value(body.outputs[0]).shape, (*g)->value((*g)->inputs[1]).shape);
  EXPECT_TRUE(verify(**g, false).ok()) << verify(**g, false).message();
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(Text, ErrorsNameTheLine) {
  const BadText cases[] = {
      {"input x: float32[4]\ny = Relu(w)", "line 2: value w is not defined"},
      {"input x: float33[4]", "line 1: 'float33' is not a dtype"},
      {"input x: float32[4]\ninput x: float32[4]", "line 2: value x is defined twice"},
      {"input x: float32[", "line 1: expected an item of the list"},
      {"const c: float32[2]{1}", "line 1: float32[2] needs 2 elements, found 1"},
      {"const c: int8[1]{200}", "line 1: '200' is not a value of int8"},
      {"const c: float32[n]{1}", nullptr},
      {"const c: float32[9999999999999]{}", nullptr},
      {"const c: float32[-1]{}", nullptr},
      {"const c: float32[1]#xyz", "line 1: 'xyz' is not a hash"},
      {"input x: float32[4]\ny = Relu<a=>(x)", "line 2: expected an attribute's value"},
      {"input x: float32[4]\ny = Relu<a=1, a=2>(x)", "line 2: attribute a is given twice"},
      {"input x: float32[4]\ny: float32[4] Relu(x)", "line 2: expected '=' before 'Relu(x)'"},
      {"input x: float32[4]\ny: float32[4] = If(x) {\n then_branch {", "line 3: unterminated body"},
      {"\"abc", "line 1: unterminated string"},
      {"\"a\\q\"", "line 1: unknown escape in a string"},
      {"output \"\\", nullptr},
      {"symbol a in 0..4\nsymbol a in 0..4",
       "line 2: symbol a is declared twice or is not an identifier"},
      {"symbol a from host nothing axis 0", "the source of a symbol is the unknown value nothing"},
      {"symbol a from where axis 0", "line 1: expected input, host or derived"},
      {"guard a == ", nullptr},
      {"input x: float32[4]\ny = NoSuchOperator(x)", nullptr},
      {"= = =", nullptr},
      {"(", nullptr},
  };
  for (const BadText& c : cases) {
    auto g = parse(c.text);
    ASSERT_FALSE(g.ok()) << c.text;
    if (c.message) {
      EXPECT_EQ(g.status().message(), c.message) << c.text;
    }
  }
}

TEST(Text, CutAndDamagedTextNeverCrashes) {
  const std::string text = test::read_file(test::source_dir() / "tests/graph/attributes.txt") +
                           test::read_file(test::source_dir() / "tests/graph/bodies.txt");
  ASSERT_FALSE(text.empty());
  int failed = 0;
  for (size_t cut = 0; cut < text.size(); ++cut) {
    failed += !parse(std::string_view(text).substr(0, cut)).ok();
    std::string damaged = text;
    damaged[cut] = static_cast<char>(damaged[cut] ^ (1 + cut % 127));
    failed += !parse(damaged).ok();
  }
  EXPECT_GT(failed, 0);
  std::string deep = "input c: bool[]\n";
  for (int i = 0; i < 100; ++i) deep += "y: bool[] = If(c) { then_branch { ";
  EXPECT_FALSE(parse(deep).ok());
}

}  // namespace
}  // namespace reprise::graph
