// Each broken invariant is found, and the message names the node or value.
#include <gtest/gtest.h>

#include <functional>

#include "codegen/graph/graph.h"

namespace reprise::graph {
namespace {

constexpr const char* kText = R"(graph g
input x: float32[n,4]
a = Relu(x)
b = Transpose<perm=[1, 0]>(a)
output b)";

struct Broken {
  const char* name;
  std::function<void(Graph&)> damage;
  const char* message;
};

Node& node(Graph& g, size_t i) {
  return **std::next(g.nodes().begin(), static_cast<std::ptrdiff_t>(i));
}

class Verify : public testing::TestWithParam<Broken> {};

TEST_P(Verify, FindsIt) {
  auto g = parse(kText);
  ASSERT_TRUE(g.ok()) << g.status().message();
  ASSERT_TRUE(verify(**g, true).ok()) << verify(**g, true).message();
  GetParam().damage(**g);
  const Status s = verify(**g, true);
  EXPECT_EQ(s.code(), Code::Internal);
  EXPECT_EQ(s.message(), GetParam().message);
}

const Broken kBroken[] = {
    {"Order", [](Graph& g) { g.set_input(node(g, 0), 0, node(g, 1).outputs[0]); },
     "node 'Relu(a)' (Relu): input 'b' is used before its definition"},
    {"InputOutOfRange", [](Graph& g) { g.set_input(node(g, 0), 0, ValueId(99)); },
     "node 'Relu(a)' (Relu): value 99 does not exist"},
    {"TwoProducers", [](Graph& g) { g.set_output(node(g, 1), 0, node(g, 0).outputs[0]); },
     "node 'Relu(a)' (Relu): value 'a' has another producer"},
    {"StaleProducer", [](Graph& g) { g.value(node(g, 0).outputs[0]).producer = &node(g, 1); },
     "node 'Relu(a)' (Relu): value 'a' has another producer"},
    {"ForeignProducer", [](Graph& g) { g.value(g.add_unknown("u")).producer = &node(g, 1); },
     "value 'u' is not an output of its producer"},
    {"NoDType", [](Graph& g) { g.value(node(g, 0).outputs[0]).dtype = DType::Invalid; },
     "node 'Relu(a)' (Relu): value 'a' has no dtype or shape"},
    {"NoShape", [](Graph& g) { g.value(g.inputs[0]).has_shape = false; },
     "value 'x' has no dtype or shape"},
    {"NegativeDim", [](Graph& g) { g.value(g.inputs[0]).shape[1] = -4; },
     "value 'x' has a negative dimension"},
    {"UnknownSymbol", [](Graph& g) { g.value(g.inputs[0]).shape[1] = Expr::symbol(7); },
     "the shape of 'x' uses symbol 7, but the number of symbols is 1"},
    {"SymbolInAttribute",
     [](Graph& g) { node(g, 0).attrs.set("e", std::vector<Expr>{Expr::symbol(1)}); },
     "node 'Relu(a)' (Relu): attribute 'e' uses symbol 1, but the number of symbols is 1"},
    {"SymbolInGuard",
     [](Graph& g) {
       DimGuard guard;
       guard.a = Expr::symbol(3);
       g.guards.push_back(guard);
     },
     "a guard uses symbol 3, but the number of symbols is 1"},
    {"Sources", [](Graph& g) { g.symbol_sources.clear(); }, "1 symbols have 0 sources"},
    {"OutputNames", [](Graph& g) { g.output_names.push_back("z"); }, "1 outputs have 2 names"},
    {"UndefinedOutput", [](Graph& g) { g.set_outputs({g.add_value("u", DType::F32, {})}); },
     "output 'u' is not defined"},
    {"InputIsConstant",
     [](Graph& g) {
       g.value(g.inputs[0]).constant = HostTensor(DType::F32, {1, 4});
     },
     "input 'x' is also a constant or a node's output"},
    {"ConstantOfOtherType",
     [](Graph& g) { g.value(g.add_constant("c", HostTensor(DType::F32, {2}))).dtype = DType::I32; },
     "constant 'c' holds float32[2], expected int32[2]"},
    {"Elements", [](Graph& g) { g.value(node(g, 0).outputs[0]).elements = {Expr(1)}; },
     "node 'Relu(a)' (Relu): value 'a' lists 1 elements, but its shape has 4*n"},
    {"Arity",
     [](Graph& g) {
       g.set_inputs(node(g, 0), {g.inputs[0], g.inputs[0]});
     },
     "node 'Relu(a)' (Relu): has 2 inputs, expected 1"},
    {"NoOrigins", [](Graph& g) { node(g, 0).origins.clear(); },
     "node 'Relu(a)' (Relu): has no origins"},
    {"NotCore", [](Graph& g) { node(g, 1).attrs.erase("perm"); },
     "node 'Transpose(b)' (Transpose): attribute 'perm' is missing or not in core form"},
    {"Undeclared", [](Graph& g) { node(g, 1).attrs.set("channels_last", int64_t{1}); },
     "node 'Transpose(b)' (Transpose): the operator does not declare attribute 'channels_last'"},
    {"NoPermutation",
     [](Graph& g) {
       node(g, 1).attrs.set("perm", std::vector<int64_t>{1, 1});
     },
     "node 'Transpose(b)' (Transpose): attribute 'perm' is missing or not in core form"},
    {"NoOperator", [](Graph& g) { node(g, 0).op = "NoSuch"; },
     "node 'Relu(a)' (NoSuch): the operator is not in the registry"},
};

INSTANTIATE_TEST_SUITE_P(Invariants, Verify, testing::ValuesIn(kBroken),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(VerifyBodies, AreVerifiedToo) {
  auto g = parse(R"(input c: bool[], x: float32[4]
y: float32[4] = If(c, x) {
  then_branch { capture a: float32[4]
                b = Neg(a)
                output b }
}
output y)");
  ASSERT_TRUE(g.ok()) << g.status().message();
  ASSERT_TRUE(verify(**g, false).ok()) << verify(**g, false).message();
  Graph& body = *node(**g, 0).subgraphs[0].second;
  body.value(body.captures[0]).has_shape = false;
  EXPECT_EQ(verify(**g, false).message(),
            "node 'If(y)' (If): body 'then_branch': value 'a' has no dtype or shape");
}

TEST(Verify, FlagsAreZeroOrOne) {
  auto g = parse(
      "graph g\ninput x: float32[1,2,4,4]\nconst w: float32[1,2,1,1]{1, 2}\n"
      "c = Conv<dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]>(x, w)\noutput c\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  AttrMap& attrs = (*g)->nodes().front()->attrs;
  attrs.set("channels_last", int64_t{0});
  EXPECT_TRUE(verify(**g, true).ok()) << verify(**g, true).message();
  attrs.set("channels_last", int64_t{2});
  EXPECT_EQ(verify(**g, true).message(),
            "node 'Conv(c)' (Conv): attribute 'channels_last' is missing or not in core form");
}

}  // namespace
}  // namespace reprise::graph
