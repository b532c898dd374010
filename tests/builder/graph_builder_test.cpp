// The builder of graphs: what it makes compiles to what the importer's graph does, and each bad
// call is an error that leaves it as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "codegen/builder/graph_builder.h"
#include "codegen/compile/compile_model.h"
#include "codegen/compile/compiler.h"
#include "codegen/onnx/importer.h"
#include "runtime/session/session.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/rebuild.h"

namespace reprise::builder {
namespace {

namespace fs = std::filesystem;
using test::OnnxWriter;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : T();
}

Value one(GraphBuilder& b, const std::string& op, std::vector<Value> inputs, AttrMap attrs = {},
          const std::string& output = "") {
  OnnxNode n;
  n.op = op;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.output_names = {output};
  const std::vector<Value> results = take(b.node(n));
  return results.empty() ? kOmitted : results[0];
}

AttrMap attr(const std::string& name, Attr value) {
  AttrMap map;
  map.set(name, std::move(value));
  return map;
}

std::string bytes_of(const package::Package& p) {
  const fs::path path = fs::temp_directory_path() / "reprise_builder_test.rpk";
  const Status written = package::write(p, path.string());
  EXPECT_TRUE(written.ok()) << written.message();
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  fs::remove(path);
  return bytes;
}

HostTensor ramp(std::vector<int64_t> dims) {
  HostTensor t(DType::F32, std::move(dims));
  for (int64_t i = 0; i < t.count(); ++i)
    t.mutable_data<float>()[i] = 0.25f * static_cast<float>(i % 7) - 0.5f;
  return t;
}

TEST(GraphBuilder, CompilesToThePackageOfTheSameModel) {
  OnnxWriter m(17);
  m.input("x", DType::F32, {"n", 8}).output("y", DType::F32, {"n", 4});
  m.initializer("w", ramp({8, 4})).initializer("c", ramp({4}));
  m.initializer("two", test::int64_tensor({2}, {-1, 2}));
  m.node("Gemm", {"x", "w", "c"}, {"h"}, {"gemm", "", attr("alpha", 0.5f)});
  m.node("FastGelu", {"h"}, {"g"}, {"gelu", "com.microsoft", {}});
  m.node("Reshape", {"g", "two"}, {"r"}, {"reshape", "", {}});
  m.node("Shape", {"h"}, {"s"}, {"shape", "", {}});
  m.node("Softmax", {"r"}, {"p"}, {"softmax", "", attr("axis", int64_t{-1})});
  m.node("Reshape", {"p", "s"}, {"y"}, {"back", "", {}});
  const std::string onnx = m.bytes();
  CompileOptions options;
  options.targets = {"vulkan-baseline"};
  const auto imported = compile_bytes(std::as_bytes(std::span(onnx)), options);
  ASSERT_TRUE(imported.ok()) << imported.status().message();

  GraphBuilder b("graph", {{"", 17}});
  const Expr n = take(b.symbol("n"));
  const Value x = take(b.input("x", DType::F32, {n, 8}));
  const HostTensor weights = ramp({8, 4});
  const Value w = take(b.constant(
      "w", HostTensor::borrow(DType::F32, {8, 4}, weights.bytes(), std::make_shared<int>(0))));
  const Value c = take(b.constant("c", ramp({4})));
  const Value two = take(b.constant("two", test::int64_tensor({2}, {-1, 2})));
  const auto add = [&b](const std::string& op, const std::string& name, std::vector<Value> in,
                        const std::string& out, AttrMap attrs = {},
                        const std::string& domain = "") {
    return take(b.node({op, domain, 0, name, std::move(in), std::move(attrs), {}, 1, {out}})).at(0);
  };
  const Value h = add("Gemm", "gemm", {x, w, c}, "h", attr("alpha", 0.5f));
  const Value g = add("FastGelu", "gelu", {h}, "g", {}, "com.microsoft");
  const Value r = add("Reshape", "reshape", {g, two}, "r");
  const Value s = add("Shape", "shape", {h}, "s");
  const Value p = add("Softmax", "softmax", {r}, "p", attr("axis", int64_t{-1}));
  const Value y = add("Reshape", "back", {p, s}, "y");
  EXPECT_EQ(b.type_text(h), "float32[n, 4]");
  ASSERT_TRUE(b.output("y", y).ok());
  ASSERT_TRUE(b.verify().ok()) << b.verify().message();
  const BuiltGraph built = take(b.finish());
  const auto compiled = compile_built(built, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_TRUE(bytes_of(*compiled) == bytes_of(*imported));
  const auto again = compile_built(built, options);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(bytes_of(*again) == bytes_of(*imported));
}

/// Whether the graph has bodies, whose names are those of the whole graph when it is built again,
/// or what the importer made of control flow and the like.
bool may_differ(const graph::Graph& g) {
  std::set<std::string> names;
  for (const auto& n : g.nodes()) {
    if (!n->subgraphs.empty() || n->origins != std::vector<std::string>{n->name}) return true;
    names.insert(n->name);
  }
  const auto made = [&](const graph::DimGuard& guard) { return !names.contains(guard.node); };
  const auto of_body = [](const SymbolSource& s) {
    return s.kind == SymbolSource::Kind::HostOutput && s.index == graph::kNone.number();
  };
  return std::ranges::any_of(g.guards, made) || std::ranges::any_of(g.symbol_sources, of_body);
}

TEST(GraphBuilder, RebuildsWhatTheImporterReads) {
  size_t equal = 0, rebuilt = 0;
  std::vector<fs::path> models;
  for (const fs::path& folder :
       {test::binary_dir() / "tests/conformance", test::onnx_suite_dir()}) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(folder, none))
      if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  for (const fs::path& path : models) {
    const auto model = onnx::import_file(path.string());
    if (!model.ok()) continue;
    SCOPED_TRACE(path.string());
    // The builder is not told the dims of what a container holds.
    const auto container = [&](graph::ValueId v) { return is_container((*model)->value(v).dtype); };
    if (std::ranges::any_of((*model)->inputs, container)) continue;
    auto built = test::rebuild(**model);
    ASSERT_TRUE(built.ok()) << built.status().message();
    ++rebuilt;
    if (may_differ(**model)) continue;
    (*model)->notes.clear();
    (*model)->metadata.clear();
    built->graph->notes.clear();
    EXPECT_EQ(graph::print(*built->graph), graph::print(**model));
    ++equal;
  }
  EXPECT_GT(rebuilt, 300U);
  EXPECT_GT(equal, 250U);
}

/// Runs a graph on the host.
Result<std::vector<HostTensor>> run(const BuiltGraph& g, const std::vector<HostTensor>& inputs) {
  CompileOptions options;
  options.targets = {};
  RP_ASSIGN(package::Package p, compile_built(g, options));
  std::vector<Binding> bindings(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bindings[i].name = p.io.inputs[i].name;
    bindings[i].host = &inputs[i];
  }
  RP_ASSIGN(const auto session,
            Session::create(std::make_shared<package::Package>(std::move(p)), nullptr));
  return session->run(bindings);
}

TEST(GraphBuilder, SymbolsFollowFromSumsAndFromLaterInputs) {
  GraphBuilder b;
  const Expr h = take(b.symbol("h", {1, 8, 1})), k = take(b.symbol("k"));
  const Value x = take(b.input("x", DType::F32, {h * 4 + 1, h * k}));
  EXPECT_EQ(b.type_text(x), "float32[4*h + 1, x_dim1]");
  const Value y = take(b.input("y", DType::F32, {k}));
  EXPECT_EQ(b.type_text(y), "float32[k]");
  const std::array sizes{h, k, Expr::floordiv(h * k, 2)};
  ASSERT_TRUE(b.output("sizes", take(b.sizes(sizes, false))).ok());
  ASSERT_TRUE(b.output("same", one(b, "Identity", {x})).ok());
  ASSERT_TRUE(b.output("y", one(b, "Identity", {y})).ok());
  ASSERT_TRUE(b.guard(DimGuard::Kind::AtLeast, k, 3, "at_least").ok());
  const BuiltGraph built = take(b.finish());
  const auto results = run(built, {ramp({9, 10}), ramp({5})});
  ASSERT_TRUE(results.ok()) << results.status().message();
  const auto* found = (*results)[0].data<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(found, found + 3), (std::vector<int64_t>{2, 5, 5}));
  // Of a sum that does not fit, a product that does not, a limit and a guard.
  EXPECT_EQ(run(built, {ramp({8, 10}), ramp({5})}).status().code(), Code::InvalidInput);
  EXPECT_EQ(run(built, {ramp({9, 11}), ramp({5})}).status().code(), Code::InvalidInput);
  EXPECT_EQ(run(built, {ramp({37, 45}), ramp({5})}).status().code(), Code::InvalidInput);
  const Status guarded = run(built, {ramp({9, 4}), ramp({2})}).status();
  EXPECT_EQ(guarded.code(), Code::InvalidInput);
  ASSERT_EQ(guarded.nodes().size(), 1U) << guarded.message();
  EXPECT_EQ(guarded.nodes()[0], "at_least");
}

TEST(GraphBuilder, CoreFormTakesExpressionsOfSymbols) {
  GraphBuilder b;
  const Expr n = take(b.symbol("n"));
  const Value x = take(b.input("x", DType::F32, {n, 6}));
  CoreNode reshape;
  reshape.op = "Reshape";
  reshape.name = "flat";
  reshape.inputs = {x};
  reshape.attrs.set("shape", std::vector<Expr>{n * 2, 3});
  const Value r = take(b.core(reshape)).at(0);
  EXPECT_EQ(b.type_text(r), "float32[2*n, 3]");
  CoreNode slice;
  slice.op = "Slice";
  slice.inputs = {r};
  slice.attrs.set("starts", std::vector<Expr>{n, 0});
  slice.attrs.set("steps", std::vector<Expr>{1, 2});
  slice.type = {DType::F32, {n, 2}};
  ASSERT_TRUE(b.output("y", take(b.core(slice)).at(0)).ok());
  const auto results = run(take(b.finish()), {ramp({2, 6})});
  ASSERT_TRUE(results.ok()) << results.status().message();
  const HostTensor all = ramp({2, 6});
  const float* y = (*results)[0].data<float>();
  EXPECT_EQ((*results)[0].dims(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(y[0], all.data<float>()[6]);
  EXPECT_EQ(y[1], all.data<float>()[8]);
}

TEST(GraphBuilder, StatesAndBodies) {
  GraphBuilder b;
  const Value total = take(b.state("total", HostTensor::from<float>(DType::F32, {}, {10})));
  const Value x = take(b.input("x", DType::F32, {}));
  const Value count = take(b.constant("", HostTensor::from<int64_t>(DType::I64, {}, {3})));
  // total = 10, then three times total = 2 * total + x, if x is positive.
  ASSERT_TRUE(b.begin_body("positive").ok());
  ASSERT_TRUE(b.begin_body("step").ok());
  ASSERT_TRUE(b.body_input("i").ok());
  const Value going = take(b.body_input("going"));
  const Value now = take(b.body_input("now"));
  const Value doubled = one(b, "Add", {now, now});
  const Value next = one(b, "Add", {doubled, x});
  const Body step = take(b.end_body(std::array{going, next}));
  OnnxNode loop{"Loop", "", 0, "loop", {count, kOmitted, total}, {}, {{"body", step}}, 1, {}};
  const Value looped = take(b.node(loop)).at(0);
  const Body positive = take(b.end_body(std::array{looped}));
  ASSERT_TRUE(b.begin_body("other").ok());
  const Body other = take(b.end_body(std::array{total}));
  const Value zero = take(b.constant("zero", HostTensor::from<float>(DType::F32, {}, {0})));
  const Value condition = one(b, "Greater", {x, zero});
  const Value y = take(b.node({"If",
                               "",
                               0,
                               "choice",
                               {condition},
                               {},
                               {{"then_branch", positive}, {"else_branch", other}},
                               1,
                               {}}))
                      .at(0);
  ASSERT_TRUE(b.next_state(total, y, "total.next").ok());
  ASSERT_TRUE(b.output("y", y).ok());
  const BuiltGraph built = take(b.finish());
  ASSERT_EQ(built.states.size(), 1U);
  CompileOptions options;
  options.targets = {};
  auto package = compile_built(built, options);
  ASSERT_TRUE(package.ok()) << package.status().message();
  auto session = Session::create(std::make_shared<package::Package>(*std::move(package)), nullptr);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto call = [&](float v) {
    const HostTensor t = HostTensor::from<float>(DType::F32, {}, {v});
    std::vector<Binding> in(1);
    in[0].name = "x";
    in[0].host = &t;
    const auto results = (*session)->run(in);
    EXPECT_TRUE(results.ok()) << results.status().message();
    return results.ok() ? (*results)[0].data<float>()[0] : -1;
  };
  EXPECT_EQ(call(1), 87);   // 21, 43, 87
  EXPECT_EQ(call(-5), 87);  // the state is kept
  EXPECT_EQ(call(2), 710);  // 176, 354, 710
}

TEST(GraphBuilder, ConstantsOfNarrowTypes) {
  GraphBuilder b;
  const Value half =
      take(b.constant("half", HostTensor::from<uint16_t>(DType::BF16, {2}, {0x3F80, 0x4000})));
  const Value nibbles =
      take(b.constant("nibbles", HostTensor::from<int8_t>(DType::I4, {2}, {-3, 7})));
  const Value scale = take(b.constant("scale", HostTensor::from<float>(DType::F32, {}, {2})));
  const Value f = one(b, "Cast", {half}, attr("to", int64_t{1}));
  const Value q = one(b, "DequantizeLinear", {nibbles, scale});
  ASSERT_TRUE(b.output("y", one(b, "Add", {f, q})).ok());
  const auto results = run(take(b.finish()), {});
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_EQ((*results)[0].data<float>()[0], -5);
  EXPECT_EQ((*results)[0].data<float>()[1], 16);
}

/// A builder with an input, whose state bad calls must not change.
struct Fixture {
  GraphBuilder b;
  Expr n = take(b.symbol("n"));
  Value x = take(b.input("x", DType::F32, {n, 4}));

  void refuses(const Status& s, Code code, const std::vector<std::string>& words,
               const std::string& node = "") {
    EXPECT_EQ(s.code(), code) << s.message();
    for (const std::string& word : words)
      EXPECT_NE(s.message().find(word), std::string::npos) << word << " in: " << s.message();
    ASSERT_EQ(s.nodes().size(), node.empty() ? 0U : 1U) << s.message();
    if (!node.empty()) {
      EXPECT_EQ(s.nodes()[0], node);
    }
    EXPECT_EQ(graph::print(b.graph()), before);
  }
  std::string before = graph::print(b.graph());
};

TEST(GraphBuilder, BadCallsSayWhatWasExpectedAndFound) {
  Fixture f;
  GraphBuilder& b = f.b;
  const auto node = [&](OnnxNode n) { return b.node(n).status(); };
  f.refuses(b.symbol("n").status(), Code::Usage, {"'n'", "twice"});
  f.refuses(b.symbol("").status(), Code::Usage, {"name"});
  f.refuses(b.symbol("m", {4, 2, 1}).status(), Code::Usage, {"'m'", "4", "2"});
  f.refuses(b.symbol("m", {0, 2, 0}).status(), Code::Usage, {"divisor"});
  f.refuses(b.expression("q + 1").status(), Code::Usage, {"q"});
  f.refuses(b.input("x", DType::F32, {}).status(), Code::Usage, {"'x'", "twice"});
  f.refuses(b.input("", DType::F32, {}).status(), Code::Usage, {"name"});
  f.refuses(b.input("y", DType::Invalid, {}).status(), Code::Usage, {"'y'", "dtype"});
  f.refuses(b.input("y", DType::F32, {-1}).status(), Code::InvalidModel, {"'y'", "-1"});
  f.refuses(b.input("y", DType::F32, {f.n, -1}).status(), Code::Usage,
            {"'y'", "-1", "dimension 1"});
  f.refuses(b.input("y", DType::F32, {Expr::symbol(7)}).status(), Code::Usage, {"symbol 7"});
  f.refuses(b.input("y", DType::F32, Shape(65, 1)).status(), Code::Usage, {"65", "64"});
  f.refuses(b.constant("x", ramp({1})).status(), Code::Usage, {"'x'", "twice"});
  const std::array<std::byte, 6> few{};
  f.refuses(b.constant("c", HostTensor::borrow(DType::F32, {2}, few, nullptr)).status(),
            Code::Usage, {"'c'", "8 bytes", "6"});
  f.refuses(b.constant("c", HostTensor()).status(), Code::Usage, {"'c'", "dtype"});
  f.refuses(b.next_state(f.x, f.x, "next"), Code::Usage, {"'next'", "no state"});
  f.refuses(b.output("", f.x), Code::Usage, {"name"});
  f.refuses(b.output("y", Value(9)), Code::Usage, {"value 9", "has 1"});
  f.refuses(b.output("y", kOmitted), Code::Usage, {"value -1"});
  f.refuses(b.guard(DimGuard::Kind::Equal, 1, 2, "g"), Code::InvalidModel, {"'g'", "1", "2"});
  f.refuses(b.guard(DimGuard::Kind::Equal, Expr::symbol(3), 2, "g"), Code::Usage, {"symbol 3"});
  f.refuses(node({"", "", 0, "a", {f.x}, {}}), Code::Usage, {"'a'", "no operator"}, "a");
  f.refuses(node({"Nope", "", 0, "a", {f.x}, {}}), Code::Unsupported, {"'a'", "Nope"}, "a");
  f.refuses(node({"Relu", "some.domain", 0, "a", {f.x}, {}}), Code::Unsupported, {"some.domain"},
            "a");
  f.refuses(node({"Relu", "", 99, "a", {f.x}, {}}), Code::Unsupported, {"99"});
  f.refuses(node({"Relu", "", 0, "a", {f.x, f.x}, {}}), Code::InvalidModel,
            {"'a'", "2 inputs", "1"}, "a");
  f.refuses(node({"Relu", "", 0, "a", {Value(5)}, {}}), Code::Usage, {"value 5"}, "a");
  f.refuses(node({"Relu", "", 0, "a", {f.x}, attr("beta", int64_t{1})}), Code::Unsupported,
            {"beta"}, "a");
  f.refuses(node({"Softmax", "", 0, "a", {f.x}, attr("axis", 1.5f)}), Code::InvalidModel,
            {"axis", "int"}, "a");
  f.refuses(node({"Relu", "", 0, "a", {f.x}, attr("beta", std::vector<Expr>{f.n})}),
            Code::Unsupported, {"beta", "expression"});
  f.refuses(node({"Relu", "", 0, "a", {f.x}, {}, {}, 0, {}}), Code::Usage, {"no outputs"}, "a");
  f.refuses(node({"Relu", "", 0, "a", {f.x}, {}, {}, 1, {"y", "z"}}), Code::Usage,
            {"1 outputs", "2 names"}, "a");
  f.refuses(node({"Relu", "", 0, "a", {f.x}, {}, {}, 1, {"x"}}), Code::Usage, {"'x'", "twice"},
            "a");
  f.refuses(node({"If", "", 0, "a", {f.x}, {}, {{"then_branch", Body(4)}}, 1, {}}), Code::Usage,
            {"body 4"}, "a");
  CoreNode core;
  core.op = "Reshape";
  core.name = "a";
  core.inputs = {f.x};
  f.refuses(b.core(core).status(), Code::InvalidModel, {"shape"}, "a");
  core.attrs.set("shape", std::vector<Expr>{take(b.symbol("free"))});
  f.refuses(b.core(core).status(), Code::Usage, {"'free'", "no value"});
  const std::array<Expr, 2> two{1, 2};
  f.refuses(b.sizes(two, true).status(), Code::Usage, {"scalar", "2"});
  f.refuses(b.body_input("i").status(), Code::Usage, {"no body"});
  f.refuses(b.end_body({}).status(), Code::Usage, {"none was begun"});
  f.refuses(b.finish().status(), Code::Usage, {"no outputs"});
  ASSERT_TRUE(b.output("y", f.x).ok());
  f.refuses(b.output("y", f.x), Code::Usage, {"'y'", "twice"});
}

TEST(GraphBuilder, BadBodies) {
  Fixture f;
  GraphBuilder& b = f.b;
  ASSERT_TRUE(b.begin_body("inner").ok());
  const Value inside = one(b, "Relu", {f.x});
  f.refuses(b.input("y", DType::F32, {}).status(), Code::Usage, {"'y'", "'inner'"});
  f.refuses(b.output("y", f.x), Code::Usage, {"'y'", "'inner'"});
  f.refuses(b.node({"Relu", "", 13, "a", {f.x}, {}}).status(), Code::Usage, {"version"}, "a");
  CoreNode core;
  core.op = "Relu";
  core.name = "a";
  f.refuses(b.core(core).status(), Code::Usage, {"core form"}, "a");
  f.refuses(b.end_body(std::array{kOmitted}).status(), Code::Usage, {"'inner'", "left out"});
  f.refuses(b.finish().status(), Code::Usage, {"'inner'", "not ended"});
  const Body body = take(b.end_body(std::array{inside}));
  f.refuses(b.node({"Relu", "", 0, "a", {inside}, {}}).status(), Code::Usage,
            {"body that has ended"}, "a");
  // A fault inside a body is that of its node.
  ASSERT_TRUE(b.begin_body("bad").ok());
  ASSERT_TRUE(b.body_input("i").ok());
  const Value going = take(b.body_input("going"));
  const Value wrong = take(b.node({"Relu", "", 0, "wrong", {f.x, f.x}})).at(0);
  const Body bad = take(b.end_body(std::array{going, wrong}));
  f.refuses(b.node({"Loop", "", 0, "loop", {kOmitted, kOmitted}, {}, {{"body", bad}}}).status(),
            Code::InvalidModel, {"2 inputs"}, "wrong");
  f.refuses(b.node({"Relu", "", 0, "a", {f.x}, {}, {{"body", body}}}).status(), Code::Unsupported,
            {"body"}, "a");
}

TEST(GraphBuilder, GraphsThatDoNotEnd) {
  {
    GraphBuilder b;
    const Value s = take(b.state("s", ramp({2})));
    ASSERT_TRUE(b.output("y", one(b, "Identity", {s})).ok());
    EXPECT_NE(b.finish().status().message().find("'s' has no next value"), std::string::npos);
  }
  {
    GraphBuilder b;
    const Expr m = take(b.symbol("m")), n = take(b.symbol("n"));
    const Value x = take(b.input("x", DType::F32, {m * n}));
    ASSERT_TRUE(b.output("y", one(b, "Relu", {x})).ok());
    EXPECT_NE(b.finish().status().message().find("m*n"), std::string::npos);
  }
  {
    GraphBuilder b;
    const Value x = take(b.input("x", DType::F32, {2}));
    ASSERT_TRUE(b.output("y", one(b, "Relu", {x})).ok());
    const BuiltGraph built = take(b.finish());
    EXPECT_EQ(b.finish().status().code(), Code::Usage);
    EXPECT_EQ(b.input("z", DType::F32, {}).status().code(), Code::Usage);
    CompileOptions options;
    options.targets = {};
    options.shapes["x"] = {2};
    EXPECT_EQ(compile_built(built, options).status().code(), Code::Usage);
    options.shapes.clear();
    options.ranges["q"] = {1, 2};
    EXPECT_EQ(compile_built(built, options).status().code(), Code::Usage);
    EXPECT_EQ(compile_built({}, {}).status().code(), Code::Usage);
  }
}

TEST(StatusNodes, TheInnermostCallerNamesThem) {
  const Status plain = invalid_model("wrong");
  EXPECT_TRUE(plain.nodes().empty());
  const Status named = plain.about("inner").with_context("where").about("outer");
  ASSERT_EQ(named.nodes().size(), 1U);
  EXPECT_EQ(named.nodes()[0], "inner");
  EXPECT_EQ(named.message(), "where: wrong");
  EXPECT_TRUE(Status().about("x").nodes().empty());
  EXPECT_EQ(named.reworded(Code::Usage, "other").nodes()[0], "inner");
}

TEST(StatusNodes, OfImportAndOfCompilation) {
  OnnxWriter m(17);
  m.input("x", DType::F32, {2, 3}).output("y", DType::F32, {2, 3});
  m.node("Relu", {"x"}, {"h"}, {"fine", "", {}});
  m.node("Relu", {"h", "h"}, {"y"}, {"wrong", "", {}});
  const std::string onnx = m.bytes();
  const Status imported = onnx::import_bytes(std::as_bytes(std::span(onnx))).status();
  ASSERT_EQ(imported.nodes().size(), 1U) << imported.message();
  EXPECT_EQ(imported.nodes()[0], "wrong");

  OnnxWriter text(17);
  text.input("x", DType::F32, {2, 3}).output("y", DType::I64, {2, "k"});
  text.node("NonZero", {"x"}, {"y"}, {"counting", "", {}});
  const std::string counted = text.bytes();
  CompileOptions options;
  options.fullgraph = true;
  const Status host = compile_bytes(std::as_bytes(std::span(counted)), options).status();
  ASSERT_EQ(host.nodes().size(), 1U) << host.message();
  EXPECT_EQ(host.nodes()[0], "counting");
}

}  // namespace
}  // namespace reprise::builder
