// What the importer makes of each feature of the format, as graph text.
#include <gtest/gtest.h>

#include "tests/onnx/proto.h"

namespace reprise::onnx::test {
namespace {

TEST(Import, ANodeWithAttributes) {
  Model m;
  m.input("x", kFloat, {2, 3}).output("y");
  wire::Node* n = m.node("Transpose", {"x"}, {"y"}, "t");
  wire::Attribute* perm = attribute(n, "perm", 7);
  perm->add_ints(1);
  perm->add_ints(0);
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2,3]
y: float32[3,2] = Transpose<perm=[1, 0]>(x) @17 "t"
output y
)");
}

TEST(Import, AttributesOfOldFilesHaveNoType) {
  Model m(9);
  m.input("x", kFloat, {2, 3}).output("y");
  wire::Attribute* alpha = attribute(m.node("LeakyRelu", {"x"}, {"y"}), "alpha", 0);
  alpha->set_f(0.5f);
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2,3]
y: float32[2,3] = LeakyRelu<alpha=0.5>(x) @9
output y
)");
}

TEST(Import, TheRowIsThatOfTheVersion) {
  Model m(6);
  m.input("a", kFloat, {2, 3}).input("b", kFloat, {3}).output("y");
  attribute(m.node("Add", {"a", "b"}, {"y"}, "sum"), "broadcast", 2)->set_i(1);
  EXPECT_EQ(imported(m), R"(graph g
input a: float32[2,3]
input b: float32[3]
y: float32[2,3] = AddBefore7<broadcast=1>(a, b) @6 "sum"
output y
)");
}

TEST(Import, FilesBeforeIrVersion3HaveNoOpset) {
  Model m;
  m.proto.set_ir_version(2);
  m.proto.clear_opset_import();
  m.input("x", kFloat, {2}).output("y");
  wire::Attribute* consumed = attribute(m.node("Relu", {"x"}, {"y"}, "r"), "consumed_inputs", 7);
  consumed->add_ints(0);
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2]
y: float32[2] = Relu(x) @1 "r"
output y
)");
}

TEST(Import, OnnxRuntimesDomainNeedsNoImport) {
  Model m;
  m.input("x", kFloat, {2}).output("y");
  m.node("QuickGelu", {"x"}, {"y"}, "q")->set_domain("com.microsoft");
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2]
y: float32[2] = com.microsoft::QuickGelu(x) @1 "q"
output y
)");
}

TEST(Import, DimsBecomeSymbols) {
  Model m;
  m.input("a", kFloat, {"batch", "", 3}).input("b", kFloat, {"batch", -1, "x.y"});
  m.input("c", kFloat, {"x.y", "batch + 1", "k - 1"}).output("a").output("b").output("c");
  EXPECT_EQ(imported(m), R"(graph g
symbol batch in 0..2147483647 divisor 1 from input 0 axis 0
symbol d0 in 0..2147483647 divisor 1 from input 0 axis 1
symbol d1 in 0..2147483647 divisor 1 from input 1 axis 1
symbol x_y in 0..2147483647 divisor 1 from input 1 axis 2
symbol c_dim2 in 0..2147483646 divisor 1 from input 2 axis 2
symbol k in 1..2147483647 divisor 1 from derived c_dim2 + 1
input a: float32[batch,d0,3]
input b: float32[batch,d1,x_y]
input c: float32[x_y,batch + 1,k - 1]
output a, b, c
)");
}

TEST(Import, ASizeMayFollowFromASum) {
  Model m;
  m.input("a", kFloat, {"4*h", "w - 1", "n-1"})
      .input("b", kFloat, {"2*h + 1", "w", "k + 2"})
      .output("y");
  m.node("Neg", {"a"}, {"y"});
  ImportOptions options;
  options.ranges = {{"h", {3, 9}}};
  EXPECT_EQ(imported(m, options), R"(graph g
symbol w in 0..2147483647 divisor 1 from input 1 axis 1
symbol a_dim0 in 12..36 divisor 1 from input 0 axis 0
symbol h in 3..9 divisor 1 from derived floordiv(a_dim0, 4)
symbol n_1 in 0..2147483647 divisor 1 from input 0 axis 2
symbol b_dim2 in 2..2147483647 divisor 1 from input 1 axis 2
symbol k in 0..2147483645 divisor 1 from derived b_dim2 - 2
input a: float32[4*h,w - 1,n_1]
input b: float32[2*h + 1,w,k + 2]
y: float32[4*h,w - 1,n_1] = Neg(a) @17
output y
)");
}

TEST(Import, ShapesFixDimsEverywhere) {
  Model m;
  m.input("a", kFloat, {"batch", "", 3}).input("b", kFloat, {"batch", "seq"});
  m.output("a").output("b");
  ImportOptions o;
  o.shapes["a"] = {2, 5, 3};
  EXPECT_EQ(imported(m, o), R"(graph g
symbol seq in 0..2147483647 divisor 1 from input 1 axis 1
input a: float32[2,5,3]
input b: float32[2,seq]
output a, b
)");
}

TEST(Import, InitialisersThatAreInputsAreConstants) {
  Model m;
  m.proto.set_ir_version(3);
  m.input("x", kFloat, {2}).input("w", kFloat, {2}).output("y");
  add_float(m.graph(), "unused", {0});
  add_float(m.graph(), "w", {1, 2});
  m.node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2]
const w: float32[2]{1, 2}
y: float32[2] = Add(x, w) @17
output y
)");
}

TEST(Import, InputsWithValuesMayStayInputs) {
  Model m;
  m.input("x", kFloat, {2}).input("w", kFloat, {"n"}).output("y");
  add_float(m.graph(), "w", {1, 2});
  add_float(m.graph(), "k", {3, 4});
  m.node("Add", {"x", "w"}, {"s"});
  m.node("Add", {"s", "k"}, {"y"});
  std::map<std::string, std::optional<HostTensor>> optional{{"w", {}}, {"k", {}}, {"none", {}}};
  ImportOptions o;
  o.optional_inputs = &optional;
  const std::string text = imported(m, o);
  EXPECT_NE(text.find("input w: float32[n]"), std::string::npos) << text;
  EXPECT_NE(text.find("const k: float32[2]{3, 4}"), std::string::npos) << text;
  ASSERT_TRUE(optional["w"].has_value());
  EXPECT_EQ(optional["w"]->data<float>()[1], 2);
  EXPECT_FALSE(optional["k"].has_value());
  EXPECT_FALSE(optional["none"].has_value());
}

TEST(Import, KnownValuesDecideRanks) {
  Model m;
  m.input("x", kFloat, {6}).input("s", kInt64, {"r"}).output("y");
  m.node("Reshape", {"x", "s"}, {"a"}, "r");
  m.node("Squeeze", {"a"}, {"y"}, "q");
  EXPECT_NE(imported(m).find("the rank of the result is the length of 's', which is [r]"),
            std::string::npos);
  ImportOptions o;
  o.values["s"] = {2, 1, -1};
  EXPECT_EQ(imported(m, o), R"(graph g
input x: float32[6]
input s: int64[3]
const s_value: int64[3]{2, 1, -1}
a: float32[2,1,3] = Reshape(x, s_value) @17 "r"
y: float32[2,3] = Squeeze(a) @17 "q"
output y
)");
  o.values = {{"t", {1}}};
  EXPECT_EQ(imported(m, o), "the model has no input 't' to give values");
  o.values = {{"x", {1, 2, 3, 4, 5, 6}}};
  EXPECT_EQ(imported(m, o),
            "the value of input 'x': only int64, int32 and bool can be known, it is float32");
  o.values = {{"s", {1, 2}}};
  o.shapes["s"] = {3};
  EXPECT_EQ(imported(m, o),
            "the value of input 's': 2 numbers for int64[3], of which at most 64 can be known");
}

/// The notes of the importer.
std::vector<std::string> notes_of(const Model& m) {
  const auto g = import(m.bytes());
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? (*g)->notes : std::vector<std::string>();
}

TEST(Import, DeclaredDimsThatDifferAreNoted) {
  Model m;
  m.input("x", kFloat, {2, 3}).output("y", kFloat, {2, 4}).output("z", kFloat, {"n"});
  m.node("Relu", {"x"}, {"y"}, "r");
  m.node("Neg", {"y"}, {"z"}, "n");
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2,3]
y: float32[2,3] = Relu(x) @17 "r"
z: float32[2,3] = Neg(y) @17 "n"
output y, z
)");
  EXPECT_EQ(notes_of(m),
            (std::vector<std::string>{
                "value 'y': the model declares float32[2,4], but node 'r' (Relu) gives "
                "float32[2, 3]; the declaration is ignored",
                "value 'z': the model declares float32[n], but node 'n' (Neg) gives float32[2, 3]; "
                "the declaration is ignored"}));
}

TEST(Import, NotesHaveALimit) {
  Model m;
  m.input("x", kFloat, {2, 3}).output("y");
  m.node("Relu", {"x"}, {"y"});
  for (int i = 0; i < 30; ++i) {
    const std::string name = "t" + std::to_string(i);
    m.node("Neg", {"x"}, {name});
    set_value(*m.graph().add_value_info(), name, kFloat, {7});
  }
  const std::vector<std::string> notes = notes_of(m);
  ASSERT_EQ(notes.size(), 21u);
  EXPECT_EQ(notes.back(), "the importer has 10 more such notes");
}

TEST(Import, AnOutputThatIsListedTwiceGetsAnotherName) {
  Model m = relu_model();
  m.output("y").output("y_2");
  m.node("Neg", {"x"}, {"y_2"});
  m.output("y");
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[2,3]
y: float32[2,3] = Relu(x) @17 "r"
y_2: float32[2,3] = Neg(x) @17
output y, y as y_3, y_2, y as y_4
)");
  EXPECT_EQ(notes_of(m)[0], "output 'y' is listed more than once; this one is named 'y_3'");
}

/// Trying all numbers for each name would take minutes.
TEST(Import, ManyOutputsThatAreListedTwice) {
  constexpr int kCount = 40'000;
  Model m = relu_model();
  for (int i = 1; i < kCount; ++i) m.output("y");
  const auto g = import(m.bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ((*g)->output_names.back(), "y_40000");
  EXPECT_EQ((*g)->notes.back(), "the importer has 39979 more such notes");
}

TEST(Import, ANewerIrVersionIsTried) {
  Model m = relu_model();
  EXPECT_TRUE(notes_of(m).empty());
  m.proto.set_ir_version(99);
  EXPECT_EQ(notes_of(m), std::vector<std::string>{
                             "the model has ir_version 99; the newest that is known is 14, and "
                             "fields that later ones add are not read"});
}

TEST(Import, OmittedInputsAndOutputs) {
  Model m;
  m.input("x", kFloat, {4}).input("high", kFloat, {}).output("y").output("v");
  m.node("Clip", {"x", "", "high"}, {"y"});
  m.node("Clip", {"x", "high", ""}, {"z"});
  m.node("TopK", {"x", "one"}, {"v", ""});
  add_int64(m.graph(), "one", {1});
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[4]
input high: float32[]
y: float32[4] = Clip(x, _, high) @17
z: float32[4] = Clip(x, high) @17
const one: int64[1]{1}
v: float32[1] = TopK(x, one) @17
output y, v
)");
}

TEST(Import, AnOmittedOutputWhoseDimOthersHaveIsThere) {
  Model m;
  m.input("x", kFloat, {4}).output("counts");
  m.node("Unique", {"x"}, {"", "", "", "counts"});
  EXPECT_EQ(imported(m), R"--(graph g
symbol Unique_counts__output0_dim0 in 0..4 divisor 1 from host "Unique(counts)_output0" axis 0
input x: float32[4]
("Unique(counts)_output0": float32[Unique_counts__output0_dim0], _, _, counts: int64[Unique_counts__output0_dim0]) = Unique(x) @17 "Unique(counts)"
output counts
)--");
}

TEST(Import, UnsortedNodesAreSorted) {
  Model m;
  m.input("x", kFloat, {4}).output("c");
  m.node("Abs", {"b"}, {"c"});
  m.node("Neg", {"x"}, {"a"});
  m.node("Relu", {"a"}, {"b"});
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[4]
a: float32[4] = Neg(x) @17
b: float32[4] = Relu(a) @17
c: float32[4] = Abs(b) @17
output c
)");
}

TEST(Import, ConstantsInEveryForm) {
  Model m;
  attribute(m.node("Constant", {}, {"i"}), "value_int", 2)->set_i(7);
  attribute(m.node("Constant", {}, {"f"}), "value_float", 1)->set_f(0.5f);
  attribute(m.node("Constant", {}, {"s"}), "value_string", 3)->set_s("a");
  wire::Attribute* ints = attribute(m.node("Constant", {}, {"is"}), "value_ints", 7);
  ints->add_ints(1);
  ints->add_ints(2);
  attribute(m.node("Constant", {}, {"fs"}), "value_floats", 6)->add_floats(2);
  attribute(m.node("Constant", {}, {"ss"}), "value_strings", 8)->add_strings("b");
  wire::Tensor* t = attribute(m.node("Constant", {}, {"t"}), "value", 4)->mutable_t();
  set_tensor(*t, "", kInt32, {2});
  t->add_int32_data(3);
  t->add_int32_data(-3);
  wire::SparseTensor* sparse =
      attribute(m.node("Constant", {}, {"sp"}), "sparse_value", 11)->mutable_sparse_tensor();
  set_tensor(*sparse->mutable_values(), "", kFloat, {2});
  sparse->mutable_values()->add_float_data(1);
  sparse->mutable_values()->add_float_data(2);
  set_tensor(*sparse->mutable_indices(), "", kInt64, {2, 2});
  for (int i : {0, 1, 1, 0}) sparse->mutable_indices()->add_int64_data(i);
  sparse->add_dims(2);
  sparse->add_dims(2);
  for (const char* o : {"i", "f", "s", "is", "fs", "ss", "t", "sp"}) m.output(o);
  EXPECT_EQ(imported(m), R"(graph g
const i: int64[]{7}
const f: float32[]{0.5}
const s: string[]{"a"}
const is: int64[2]{1, 2}
const fs: float32[1]{2}
const ss: string[1]{"b"}
const t: int32[2]{3, -3}
const sp: float32[2,2]{0, 1, 2, 0}
output i, f, s, is, fs, ss, t, sp
)");
}

TEST(Import, SparseInitialisersExpand) {
  Model m;
  wire::SparseTensor* sparse = m.graph().add_sparse_initializer();
  set_tensor(*sparse->mutable_values(), "w", kFloat, {1});
  sparse->mutable_values()->add_float_data(5);
  set_tensor(*sparse->mutable_indices(), "", kInt64, {1});
  sparse->mutable_indices()->add_int64_data(3);
  sparse->add_dims(2);
  sparse->add_dims(2);
  m.output("w");
  EXPECT_EQ(imported(m), "graph g\nconst w: float32[2,2]{0, 0, 0, 5}\noutput w\n");
}

wire::Function* function(Model& m, const std::string& name, std::vector<std::string> in,
                         std::vector<std::string> out) {
  wire::Function* f = m.proto.add_functions();
  f->set_domain("local");
  f->set_name(name);
  for (std::string& s : in) f->add_input(std::move(s));
  for (std::string& s : out) f->add_output(std::move(s));
  wire::OpsetImport* o = f->add_opset_import();
  o->set_version(17);
  return f;
}

wire::Node* call(Model& m, const std::string& f, std::vector<std::string> in,
                 std::vector<std::string> out, const std::string& name) {
  wire::Node* n = m.node(f, std::move(in), std::move(out), name);
  n->set_domain("local");
  return n;
}

TEST(Import, FunctionsAreInlinedWithTheirAttributes) {
  Model m;
  m.opset("local", 1);
  wire::Function* f = function(m, "Leak", {"a", "b"}, {"c"});
  f->add_attribute("slope");
  wire::Attribute* fallback = f->add_attribute_proto();
  fallback->set_name("bias");
  fallback->set_type(1);
  fallback->set_f(0.25f);
  wire::Attribute* alpha =
      attribute(fill(f->add_node(), "LeakyRelu", {"a"}, {"t"}, "inner"), "alpha", 1);
  alpha->set_ref_attr_name("slope");
  attribute(fill(f->add_node(), "Constant", {}, {"k"}), "value_float", 1)
      ->set_ref_attr_name("bias");
  fill(f->add_node(), "Clip", {"t", "b"}, {"u"});
  fill(f->add_node(), "Add", {"u", "k"}, {"c"});
  m.input("x", kFloat, {4}).output("y").output("z");
  attribute(call(m, "Leak", {"x"}, {"y"}, "first"), "slope", 1)->set_f(0.5f);
  attribute(call(m, "Leak", {"y"}, {"z"}, "second"), "bias", 1)->set_f(2);
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[4]
first/t: float32[4] = LeakyRelu<alpha=0.5>(x) @17 "first/inner"
first/u: float32[4] = Clip(first/t) @17
const first/k: float32[]{0.25}
y: float32[4] = Add(first/u, first/k) @17
second/t: float32[4] = LeakyRelu(y) @17 "second/inner"
second/u: float32[4] = Clip(second/t) @17
const second/k: float32[]{2}
z: float32[4] = Add(second/u, second/k) @17
output y, z
)");
}

TEST(Import, FunctionsCallFunctionsAndMayPassInputsThrough) {
  Model m;
  m.opset("local", 1);
  wire::Function* outer = function(m, "Outer", {"a"}, {"a", "b"});
  fill(outer->add_node(), "Inner", {"a"}, {"b"}, "call")->set_domain("local");
  wire::Function* inner = function(m, "Inner", {"p"}, {"q"});
  fill(inner->add_node(), "Neg", {"p"}, {"q"});
  m.input("x", kFloat, {4}).output("same").output("y");
  call(m, "Outer", {"x"}, {"same", "y"}, "o");
  EXPECT_EQ(imported(m), R"(graph g
input x: float32[4]
y: float32[4] = Neg(x) @17
output x as same, y
)");
}

wire::Graph* branch(wire::Node* n, const std::string& label) {
  return attribute(n, label, 5)->mutable_g();
}

/// y = If(c) { Neg(x) } else { w }, with w an initialiser of the model.
Model if_model() {
  Model m;
  m.input("c", kBool, {}).input("x", kFloat, {"n"}).output("y");
  add_float(m.graph(), "w", {1});
  wire::Node* n = m.node("If", {"c"}, {"y"}, "choose");
  wire::Graph* then_branch = branch(n, "then_branch");
  fill(then_branch->add_node(), "Neg", {"x"}, {"t"});
  then_branch->add_output()->set_name("t");
  wire::Graph* else_branch = branch(n, "else_branch");
  fill(else_branch->add_node(), "Add", {"x", "w"}, {"e"});
  else_branch->add_output()->set_name("e");
  return m;
}

TEST(Import, BodiesCaptureOuterValues) {
  EXPECT_EQ(imported(if_model()), R"(graph g
symbol n in 0..2147483647 divisor 1 from input 1 axis 0
input c: bool[]
input x: float32[n]
y: float32[n] = If(c, x) @17 "choose" {
  then_branch {
    capture x: float32[n]
    t: float32[n] = Neg(x) @17
    output t
  }
  else_branch {
    capture x: float32[n]
    const w: float32[1]{1}
    e: float32[n] = Add(x, w) @17
    output e
  }
}
output y
)");
}

/// The nodes that read a value whose rank depends on the branch move into the branches. What does
/// not depend on it stays outside.
TEST(Import, BranchesOfDifferentRanksGrow) {
  Model m = if_model();
  m.graph().clear_output();
  m.output("z");
  wire::Node& If = *m.graph().mutable_node(0);
  auto& added = *If.mutable_attribute(1)->mutable_g()->mutable_node(0);
  added.set_op_type("ReduceSum");  // of all elements
  added.clear_input();
  added.add_input("x");
  attribute(&added, "keepdims", 2)->set_i(0);
  m.node("Abs", {"y"}, {"a"});
  m.node("Neg", {"x"}, {"b"});
  m.node("Add", {"a", "b"}, {"s"});
  m.node("Relu", {"s"}, {"z"});
  EXPECT_EQ(imported(m), R"(graph g
symbol n in 0..2147483647 divisor 1 from input 1 axis 0
input c: bool[]
input x: float32[n]
b: float32[n] = Neg(x) @17
s: float32[n] = If(c, x, b) @17 "choose" {
  then_branch {
    capture x: float32[n]
    capture b: float32[n]
    t: float32[n] = Neg(x) @17
    a: float32[n] = Abs(t) @17
    s: float32[n] = Add(a, b) @17
    output s
  }
  else_branch {
    capture x: float32[n]
    capture b: float32[n]
    e: float32[] = ReduceSum<keepdims=0>(x) @17
    a: float32[] = Abs(e) @17
    s: float32[n] = Add(a, b) @17
    output s
  }
}
z: float32[n] = Relu(s) @17
output z
)");
}

TEST(Import, AKnownConditionPicksItsBranch) {
  Model m = if_model();
  m.graph().mutable_input()->DeleteSubrange(0, 1);
  wire::Tensor* c = m.graph().add_initializer();
  set_tensor(*c, "c", kBool, {});
  c->add_int32_data(0);
  EXPECT_EQ(imported(m), R"(graph g
symbol n in 0..2147483647 divisor 1 from input 0 axis 0
input x: float32[n]
const w: float32[1]{1}
y: float32[n] = Add(x, w) @17
output y
)");
}

TEST(Import, ASqueezeThatDependsOnTheSizeBecomesAGuard) {
  Model m;
  m.input("x", kFloat, {4, "n"}).output("y").output("r");
  m.node("Relu", {"x"}, {"r"});
  wire::Node* shape = m.node("Shape", {"x"}, {"s"});
  attribute(shape, "start", 2)->set_i(1);
  add_int64(m.graph(), "one", {1});
  m.node("Equal", {"s", "one"}, {"c"});
  wire::Node* n = m.node("If", {"c"}, {"y"}, "squeeze");
  wire::Graph* then_branch = branch(n, "then_branch");
  fill(then_branch->add_node(), "Squeeze", {"x", "one"}, {"t"});
  then_branch->add_output()->set_name("t");
  wire::Graph* else_branch = branch(n, "else_branch");
  fill(else_branch->add_node(), "Identity", {"x"}, {"e"});
  else_branch->add_output()->set_name("e");
  const std::string text = imported(m);
  EXPECT_NE(text.find("guard n == 1 by \"squeeze\" of "), std::string::npos) << text;
  EXPECT_NE(text.find("y: float32[4] = Squeeze(x, one)"), std::string::npos) << text;
  // What was imported before has the size that the guard says, too.
  EXPECT_NE(text.find("r: float32[4,1] = Relu(x)"), std::string::npos) << text;
  EXPECT_EQ(notes_of(m),
            std::vector<std::string>{
                "node 'squeeze' (If): its branches differ in rank, so the then_branch is assumed, "
                "which needs n = 1 (dimension 1 of input 'x'); runs with other sizes are refused. "
                "--shape with other sizes gives the else_branch"});
}

/// y = If(c) { Squeeze(x) } else { x }, where the nodes before it make c.
std::string squeezed_if(Model& m) {
  m.output("y");
  add_int64(m.graph(), "zero", {0});
  wire::Node* n = m.node("If", {"c"}, {"y"}, "squeeze");
  wire::Graph* then_branch = branch(n, "then_branch");
  fill(then_branch->add_node(), "Squeeze", {"x", "zero"}, {"t"});
  then_branch->add_output()->set_name("t");
  wire::Graph* else_branch = branch(n, "else_branch");
  fill(else_branch->add_node(), "Identity", {"x"}, {"e"});
  else_branch->add_output()->set_name("e");
  return imported(m);
}

const char* const kBranchesDiffer =
    "node 'squeeze' (If): the branches give float32[n] and float32[1, n] for 'y', and the graph's "
    "outputs need one rank; ";

TEST(Import, AnIfThatDependsOnValuesNamesThem) {
  Model m;
  m.input("x", kFloat, {1, "n"}).input("flag", kBool, {});
  m.node("Not", {"flag"}, {"c"});
  EXPECT_EQ(squeezed_if(m), std::string(kBranchesDiffer) +
                                "the condition depends on the values of 'flag', which fixed shapes "
                                "do not determine: make them constants (initialisers) of the "
                                "model, or export it with branches of one rank");
}

TEST(Import, AnIfThatDependsOnSizesNamesThem) {
  Model m;
  m.input("x", kFloat, {1, "n"});
  attribute(m.node("Shape", {"x"}, {"s"}), "start", 2)->set_i(1);
  add_int64(m.graph(), "one", {1});
  m.node("Greater", {"s", "one"}, {"c"});
  EXPECT_EQ(squeezed_if(m),
            std::string(kBranchesDiffer) +
                "the condition depends on dimension 1 of input 'x': fix the size with --shape, so "
                "that the condition is known");
}

TEST(Import, DeclaredTypesAreHintsThatMustFit) {
  Model m = relu_model();
  m.graph().mutable_output(0)->clear_type();
  set_value(*m.graph().add_value_info(), "y", kFloat, {"rows", 3});
  EXPECT_EQ(imported(m),
            "graph g\ninput x: float32[2,3]\ny: float32[2,3] = Relu(x) @17 \"r\"\noutput y\n");
}

}  // namespace
}  // namespace reprise::onnx::test
