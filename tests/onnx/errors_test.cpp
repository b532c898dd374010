// Every way a model can be wrong gives its message and code.
#include <gtest/gtest.h>

#include <functional>

#include "tests/onnx/proto.h"

namespace reprise::onnx::test {
namespace {

struct Case {
  const char* name;
  Code code;
  std::string message;
  std::function<void(Model&)> change;  // of relu_model()
};

wire::Tensor& tensor(Model& m, int type, std::vector<int64_t> dims) {
  wire::Tensor& t = *m.graph().add_initializer();
  set_tensor(t, "w", type, std::move(dims));
  return t;
}

wire::Function& function(Model& m, const std::string& name) {
  m.opset("f", 1);
  wire::Function& f = *m.proto.add_functions();
  f.set_domain("f");
  f.set_name(name);
  f.add_input("a");
  f.add_output("b");
  return f;
}

/// A TfIdfVectorizer of one sequence, which is counted in the given column.
void vectorizer(Model& m, int64_t column) {
  add_int64(m.graph(), "words", {1, 2});
  wire::Node* n = m.node("TfIdfVectorizer", {"words"}, {"z"}, "v");
  for (const char* name : {"max_gram_length", "min_gram_length"}) attribute(n, name, 2)->set_i(1);
  attribute(n, "max_skip_count", 2)->set_i(0);
  attribute(n, "mode", 3)->set_s("TF");
  attribute(n, "ngram_counts", 7)->add_ints(0);
  attribute(n, "ngram_indexes", 7)->add_ints(column);
  attribute(n, "pool_int64s", 7)->add_ints(1);
}

void call(Model& m, const std::string& name) {
  m.node(name, {"x"}, {"z"}, "call")->set_domain("f");
}

constexpr const char* kHowTo =
    " of the model is not supported; export the model with other operators, define it as a "
    "model-local function, or add it to codegen/ops (docs/architecture.md says how)";

const Case kCases[] = {
    {"NoGraph", Code::InvalidModel,
     "is not an ONNX model, or the file is truncated or damaged: it has no graph. A model of "
     "TensorFlow is converted with tf2onnx",
     [](Model& m) { m.proto.clear_graph(); }},
    {"NoIrVersion", Code::InvalidModel,
     "its ir_version is missing, must be at least 1; set it to the version that the model was made "
     "for (model.ir_version in the onnx package)",
     [](Model& m) { m.proto.clear_ir_version(); }},
    {"IrVersionZero", Code::InvalidModel,
     "its ir_version is 0, must be at least 1; set it to the version that the model was made for "
     "(model.ir_version in the onnx package)",
     [](Model& m) { m.proto.set_ir_version(0); }},
    {"LargeNgramIndex", Code::InvalidModel,
     "node 'v' (TfIdfVectorizer): attribute 'ngram_indexes' has the entry 9223372036854775807; "
     "expected 0 to 2147483646",
     [](Model& m) { vectorizer(m, INT64_MAX); }},
    {"NegativeNgramIndex", Code::InvalidModel,
     "node 'v' (TfIdfVectorizer): attribute 'ngram_indexes' has the entry -1; expected 0 to "
     "2147483646",
     [](Model& m) { vectorizer(m, -1); }},
    {"NoOutputs", Code::InvalidModel, "the graph has no outputs",
     [](Model& m) { m.graph().clear_output(); }},
    {"OldOpset", Code::Unsupported,
     "opset 0 is older than 1, the oldest supported; convert the model with "
     "onnx.version_converter",
     [](Model& m) { m.proto.mutable_opset_import(0)->set_version(0); }},
    {"NewOpset", Code::Unsupported,
     "opset 99 is newer than 28, the newest supported; export the model for an older opset",
     [](Model& m) { m.proto.mutable_opset_import(0)->set_version(99); }},
    {"NoOpset", Code::InvalidModel,
     "node 'r' (Relu) is in domain 'ai.onnx', for which the model imports no opset",
     [](Model& m) { m.proto.clear_opset_import(); }},
    {"TwoOpsets", Code::InvalidModel, "domain '' is imported at versions 17 and 18",
     [](Model& m) { m.opset("ai.onnx", 18); }},
    {"UnknownOperator", Code::Unsupported,
     std::string("node 'n' (Foo, domain 'bar')") + kHowTo + "; the model also needs: Baz",
     [](Model& m) {
       m.node("Foo", {"x"}, {"z"}, "n")->set_domain("bar");
       m.node("Baz", {"x"}, {"u"});
     }},
    {"UnknownOperatorWithoutName", Code::Unsupported,
     std::string("node 'Foo(z)' (Foo, domain 'ai.onnx', version 17)") + kHowTo,
     [](Model& m) { m.node("Foo", {"x"}, {"z"}); }},
    {"KnownUnsupportedOperator", Code::Unsupported,
     "node 'n' (Gradient, domain 'ai.onnx.preview.training') of the model is not supported: "
     "gradients within a model are not supported; export the model for inference, or a training "
     "step with reprise.torch.TrainStep; the model also needs: "
     "com.microsoft::PagedAttention",
     [](Model& m) {
       m.node("Gradient", {"x"}, {"z"}, "n")->set_domain("ai.onnx.preview.training");
       m.node("PagedAttention", {}, {"u"})->set_domain("com.microsoft");
     }},
    {"Cycle", Code::InvalidModel, "node 'b' (Neg) is on a cycle: it needs its own output",
     [](Model& m) {
       m.node("Relu", {"q"}, {"after"}, "not on it");
       m.node("Add", {"x", "q"}, {"p"}, "a");
       m.node("Neg", {"p"}, {"q"}, "b");
     }},
    {"SelfCycle", Code::InvalidModel, "node 'a' (Add) is on a cycle: it needs its own output",
     [](Model& m) {
       m.node("Add", {"x", "p"}, {"p"}, "a");
     }},
    {"MissingInput", Code::InvalidModel,
     "node 'a' (Add) reads 'ghost', which no node, input or initialiser defines",
     [](Model& m) {
       m.node("Add", {"x", "ghost"}, {"p"}, "a");
     }},
    {"MissingOutput", Code::InvalidModel, "nothing defines the output 'ghost'",
     [](Model& m) { m.output("ghost"); }},
    {"InputTwice", Code::InvalidModel, "input 'x' is listed twice",
     [](Model& m) { m.input("x", kFloat, {1}); }},
    {"InputWithoutName", Code::InvalidModel, "an input has no name",
     [](Model& m) { m.input("", kFloat, {1}); }},
    {"InputSequenceOfSequences", Code::Unsupported,
     "input 's': has a type that is neither a tensor, nor a sequence, an optional or a map of "
     "tensors, nor a sequence of maps or an optional sequence",
     [](Model& m) {
       wire::ValueInfo* v = m.graph().add_input();
       v->set_name("s");
       v->mutable_type()
           ->mutable_sequence_type()
           ->mutable_elem_type()
           ->mutable_sequence_type()
           ->mutable_elem_type()
           ->mutable_tensor_type()
           ->set_elem_type(kFloat);
     }},
    {"InputMapFromFloats", Code::Unsupported,
     "input 'm': is a map from float32; maps from int64 and strings are supported",
     [](Model& m) {
       wire::ValueInfo* v = m.graph().add_input();
       v->set_name("m");
       wire::MapType* type = v->mutable_type()->mutable_map_type();
       type->set_key_type(kFloat);
       type->mutable_value_type()->mutable_tensor_type()->set_elem_type(kFloat);
     }},
    {"SequenceForTensor", Code::InvalidModel,
     "node 'n' (Relu): 's' is seq(float32), which Relu does not take; it takes tensors",
     [](Model& m) {
       m.node("SequenceConstruct", {"x"}, {"s"}, "c");
       m.node("Relu", {"s"}, {"t"}, "n");
     }},
    {"SequenceOfTwoTypes", Code::InvalidModel,
     "node 'n' (SequenceInsert): a tensor of int64 cannot be inserted into a seq(float32)",
     [](Model& m) {
       m.node("SequenceConstruct", {"x"}, {"s"}, "c");
       m.node("Shape", {"x"}, {"d"}, "d");
       m.node("SequenceInsert", {"s", "d"}, {"t"}, "n");
     }},
    {"RankOfItems", Code::Unsupported,
     "node 'n' (SequenceAt): the rank of the tensors in 's' is not known; declare their shape in "
     "the model, or state it with --shape if it is an input",
     [](Model& m) {
       wire::ValueInfo* v = m.graph().add_input();
       v->set_name("s");
       v->mutable_type()
           ->mutable_sequence_type()
           ->mutable_elem_type()
           ->mutable_tensor_type()
           ->set_elem_type(kFloat);
       m.node("SequenceLength", {"s"}, {"i"}, "l");
       m.node("SequenceAt", {"s", "i"}, {"t"}, "n");
     }},
    {"NoItem", Code::InvalidModel, "node 'n' (SequenceAt): 'e' holds no tensor",
     [](Model& m) {
       m.node("SequenceEmpty", {}, {"e"}, "e");
       m.node("SequenceLength", {"e"}, {"i"}, "l");
       m.node("SequenceAt", {"e", "i"}, {"t"}, "n");
     }},
    {"SplitSizes", Code::InvalidModel,
     "node 'n' (SplitToSequence): the sizes of the parts sum to 9, but axis 0 of [2, 3] has 2",
     [](Model& m) {
       add_int64(m.graph(), "sizes", {4, 5});
       m.node("SplitToSequence", {"x", "sizes"}, {"s"}, "n");
     }},
    {"InputWithoutRank", Code::Unsupported,
     "input 'u': it has no declared rank; fix its shape with --shape",
     [](Model& m) {
       m.input("u", kFloat, {});
       m.graph().mutable_input(1)->mutable_type()->mutable_tensor_type()->clear_shape();
     }},
    {"NegativeDim", Code::InvalidModel, "input 'u': has the negative dimension -7",
     [](Model& m) { m.input("u", kFloat, {-7}); }},
    {"AbsurdDim", Code::Unsupported,
     "input 'u': has a dimension of 4611686018427387904; the largest supported is 2147483647",
     [](Model& m) {
       m.input("u", kFloat, {1});
       m.graph()
           .mutable_input(1)
           ->mutable_type()
           ->mutable_tensor_type()
           ->mutable_shape()
           ->mutable_dim(0)
           ->set_dim_value(int64_t{1} << 62);
     }},
    {"AbsurdInput", Code::InvalidModel,
     "input 'u': float32[2147483647,2147483647] is larger than 2^40 bytes or elements",
     [](Model& m) {
       m.input("u", kFloat, {2147483647, 2147483647});
     }},
    {"UnknownDType", Code::InvalidModel, "input 'u': data type 77 is unknown",
     [](Model& m) { m.input("u", 77, {1}); }},
    {"Float6", Code::Unsupported,
     "tensor 'w': data type float6e2m3 is not supported; convert the model to float32, float16, "
     "bfloat16 or int8",
     [](Model& m) { tensor(m, 27, {2}).set_raw_data("a"); }},
    {"ProducedTwice", Code::InvalidModel,
     "value 'y' is produced twice, by node 'r' (Relu) and node 'again' (Neg)",
     [](Model& m) { m.node("Neg", {"x"}, {"y"}, "again"); }},
    {"ProducesAnInput", Code::InvalidModel,
     "value 'x' is defined twice, the second time by node 'n' (Neg)",
     [](Model& m) {
       m.node("Neg", {"y"}, {"x"}, "n");
       m.graph().mutable_node(0)->set_input(0, "k");
       m.input("k", kFloat, {2, 3});
     }},
    {"InitialiserTwice", Code::InvalidModel, "value 'w' is defined twice",
     [](Model& m) {
       add_float(m.graph(), "w", {1});
       add_float(m.graph(), "w", {1});
     }},
    {"InitialiserWithoutName", Code::InvalidModel, "an input or initialiser has no name",
     [](Model& m) { add_float(m.graph(), "", {1}); }},
    {"NodeWithoutOutputs", Code::InvalidModel, "node 'n' (Neg) has no outputs",
     [](Model& m) { m.node("Neg", {"x"}, {""}, "n"); }},
    {"AttributeTwice", Code::InvalidModel, "node 'n' (LeakyRelu): attribute 'alpha' is given twice",
     [](Model& m) {
       wire::Node* n = m.node("LeakyRelu", {"x"}, {"z"}, "n");
       attribute(n, "alpha", 1)->set_f(1);
       attribute(n, "alpha", 1)->set_f(2);
     }},
    {"AttributeType", Code::InvalidModel,
     "node 'n' (LeakyRelu): attribute 'alpha' has unknown type 42",
     [](Model& m) { attribute(m.node("LeakyRelu", {"x"}, {"z"}, "n"), "alpha", 42); }},
    {"AttributeReference", Code::InvalidModel,
     "node 'n' (LeakyRelu): attribute 'alpha' refers to 'k', but is not in a function",
     [](Model& m) {
       attribute(m.node("LeakyRelu", {"x"}, {"z"}, "n"), "alpha", 1)->set_ref_attr_name("k");
     }},
    {"BodyOfOtherOperator", Code::Unsupported,
     "node 'n' (LeakyRelu): has a body, which only If, Loop and Scan may have",
     [](Model& m) { attribute(m.node("LeakyRelu", {"x"}, {"z"}, "n"), "alpha", 5)->mutable_g(); }},
    {"DeclaredDType", Code::InvalidModel,
     "value 'y': the model declares int64[2,3], but node 'r' (Relu) gives float32[2, 3]",
     [](Model& m) {
       set_value(*m.graph().mutable_output(0), "y", kInt64, {});
       m.graph().mutable_output(0)->clear_type();
       set_value(*m.graph().mutable_output(0), "y", kInt64, {2, 3});
     }},
    {"ClashingShapes", Code::InvalidModel, "",  // the registry's words
     [](Model& m) {
       add_float(m.graph(), "w", {1, 2, 3, 4});
       m.node("Add", {"x", "w"}, {"z"}, "clash");
     }},
    {"RawSize", Code::InvalidModel, "tensor 'w': raw_data has 3 bytes, but float32[2] needs 8",
     [](Model& m) { tensor(m, kFloat, {2}).set_raw_data("abc"); }},
    {"TypedSize", Code::InvalidModel,
     "tensor 'w': float_data holds 1 values, but float32[2] needs 2",
     [](Model& m) { tensor(m, kFloat, {2}).add_float_data(1); }},
    {"TypedRange", Code::InvalidModel, "tensor 'w': int32_data holds 300, which int8 cannot hold",
     [](Model& m) { tensor(m, kInt8, {1}).add_int32_data(300); }},
    {"Bool", Code::InvalidModel, "tensor 'w': a bool is neither 0 nor 1",
     [](Model& m) { tensor(m, kBool, {1}).set_raw_data("\x02"); }},
    {"NegativeTensorDim", Code::InvalidModel, "tensor 'w': dimension -1 of float32[-1] is negative",
     [](Model& m) { tensor(m, kFloat, {-1}); }},
    {"AbsurdTensor", Code::InvalidModel,
     "tensor 'w': float32[1099511627776,0] has absurd dimensions",
     [](Model& m) {
       tensor(m, kFloat, {int64_t{1} << 40, 0});
     }},
    {"Rank", Code::InvalidModel, "tensor 'w': rank 65 is above 64",
     [](Model& m) { tensor(m, kFloat, std::vector<int64_t>(65, 1)); }},
    {"RawStrings", Code::InvalidModel, "tensor 'w': raw_data cannot hold strings",
     [](Model& m) { tensor(m, kString, {1}).set_raw_data("abc"); }},
    {"Segment", Code::Unsupported,
     "tensor 'w': segmented tensors are not supported; store it whole",
     [](Model& m) { tensor(m, kFloat, {1}).set_segment(""); }},
    {"ExternalInMemory", Code::InvalidModel,
     "tensor 'w': external data 'a' of a model in memory; import the model from its file",
     [](Model& m) {
       wire::Tensor& t = tensor(m, kFloat, {1});
       t.set_data_location(1);
       wire::Entry* e = t.add_external_data();
       e->set_key("location");
       e->set_value("a");
     }},
    {"SparseIndex", Code::InvalidModel, "tensor 'w': index 0 is out of range",
     [](Model& m) {
       wire::SparseTensor& t = *m.graph().add_sparse_initializer();
       set_tensor(*t.mutable_values(), "w", kFloat, {1});
       t.mutable_values()->add_float_data(1);
       set_tensor(*t.mutable_indices(), "", kInt64, {1});
       t.mutable_indices()->add_int64_data(4);
       t.add_dims(4);
     }},
    {"SparseSize", Code::Unsupported,
     "tensor 'w': a sparse tensor of float32[2147483647] would expand to more than 1 GiB; store it "
     "dense or as external data",
     [](Model& m) {
       wire::SparseTensor& t = *m.graph().add_sparse_initializer();
       set_tensor(*t.mutable_values(), "w", kFloat, {0});
       set_tensor(*t.mutable_indices(), "", kInt64, {0});
       t.add_dims(2147483647);
     }},
    {"ConstantForm", Code::InvalidModel,
     "node 'Constant(k)' (Constant): attribute 'value_int' has type 1, needs 2",
     [](Model& m) { attribute(m.node("Constant", {}, {"k"}), "value_int", 1); }},
    {"ConstantAttribute", Code::InvalidModel,
     "node 'Constant(k)' (Constant): attribute 'val' is not an attribute of Constant",
     [](Model& m) { attribute(m.node("Constant", {}, {"k"}), "val", 1); }},
    {"ConstantWithout", Code::InvalidModel,
     "node 'Constant(k)' (Constant): a Constant has no inputs, one attribute and one output",
     [](Model& m) { m.node("Constant", {}, {"k"}); }},
    {"FunctionTwice", Code::InvalidModel, "function 'F' is defined twice",
     [](Model& m) {
       function(m, "F");
       function(m, "F");
     }},
    {"FunctionRecursion", Code::InvalidModel,
     "in function 'F' called by node 'call' (F): in function 'G' called by node 'g' (G): node 'f' "
     "(F): function 'F' calls itself",
     [](Model& m) {
       fill(function(m, "F").add_node(), "G", {"a"}, {"b"}, "g")->set_domain("f");
       fill(function(m, "G").add_node(), "F", {"a"}, {"b"}, "f")->set_domain("f");
       call(m, "F");
     }},
    {"FunctionsDeep", Code::InvalidModel,
     "in function 'F0' called by node 'call' (F0): 2 more nested calls: in function 'F3' called by "
     "node 'F3(b)' (F3): node 'f' (Relu) reads 'ghost', which no node, input or "
     "initialiser defines",
     [](Model& m) {
       for (int i = 0; i < 3; ++i) {
         wire::Node* n = function(m, "F" + std::to_string(i)).add_node();
         fill(n, "F" + std::to_string(i + 1), {"a"}, {"b"})->set_domain("f");
       }
       fill(function(m, "F3").add_node(), "Relu", {"ghost"}, {"b"}, "f");
       m.proto.mutable_opset_import()->DeleteSubrange(1, 3);
       call(m, "F0");
     }},
    {"FunctionOutput", Code::InvalidModel,
     "node 'call' (F): function 'F' does not define its output 'b'",
     [](Model& m) {
       function(m, "F");
       call(m, "F");
     }},
    {"FunctionArity", Code::InvalidModel,
     "node 'call' (F) has 2 inputs and 1 outputs, but function 'F' has 1 and 1",
     [](Model& m) {
       function(m, "F");
       call(m, "F");
       m.graph().mutable_node(1)->add_input("x");
     }},
    {"IfWithoutBranch", Code::InvalidModel,
     "node 'i' (If) needs a condition, a then_branch and an else_branch",
     [](Model& m) { m.node("If", {"x"}, {"z"}, "i"); }},
    {"IfCondition", Code::InvalidModel, "node 'i' (If): the condition is float32, not bool",
     [](Model& m) {
       wire::Node* n = m.node("If", {"x"}, {"z"}, "i");
       attribute(n, "then_branch", 5)->mutable_g();
       attribute(n, "else_branch", 5)->mutable_g();
     }},
};

class ImportError : public testing::TestWithParam<Case> {};

TEST_P(ImportError, IsClear) {
  Model m = relu_model();
  GetParam().change(m);
  const auto g = import(m.bytes());
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.status().code(), GetParam().code) << g.status().message();
  if (GetParam().message.empty()) {
    EXPECT_NE(g.status().message().find("node 'clash' (Add)"), std::string::npos)
        << g.status().message();
  } else {
    EXPECT_EQ(g.status().message(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(Messages, ImportError, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

struct ShapeCase {
  const char* input;
  std::vector<int64_t> dims;
  const char* message;
};

TEST(ImportShapes, ErrorsAreUsage) {
  Model m;
  m.input("a", kFloat, {"batch", 3}).input("b", kFloat, {"batch", "n"}).output("a");
  const ShapeCase cases[] = {
      {"c", {1}, "the model has no input 'c' to give a shape; its inputs are 'a', 'b'"},
      {"b", {1}, "shape 1 of input 'b' has rank 1, but the model declares float32[batch,n]"},
      {"a",
       {1, 4},
       "shape 1x4 of input 'a' does not match float32[batch,3], which the model "
       "declares"},
      {"a", {-1, 3}, "shape -1x3 of input 'a': -1 is not a size"},
  };
  for (const ShapeCase& c : cases) {
    ImportOptions o;
    o.shapes[c.input] = c.dims;
    const auto g = import(m.bytes(), o);
    ASSERT_FALSE(g.ok()) << c.message;
    EXPECT_EQ(g.status().code(), Code::Usage);
    EXPECT_EQ(g.status().message(), c.message);
  }
  ImportOptions clash;
  clash.shapes = {{"a", {2, 3}}, {"b", {4, 1}}};
  EXPECT_EQ(imported(m, clash), "shape 4x1 of input 'b': dimension 'batch' is 2 in input 'a'");
}

TEST(ImportErrors, FunctionsThatMultiplyStopInTime) {
  Model m = relu_model();
  for (int level = 0; level < 30; ++level) {
    wire::Function& f = function(m, "F" + std::to_string(level));
    const std::string callee = level == 29 ? "F29x" : "F" + std::to_string(level + 1);
    for (const char* out : {"b", "c", "d", "e"}) {
      fill(f.add_node(), callee, {"a"}, {out})->set_domain("f");
    }
  }
  function(m, "F29x").mutable_output()->Clear();
  m.proto.mutable_functions(30)->add_output("a");
  m.proto.mutable_opset_import()->DeleteSubrange(1, 30);
  call(m, "F0");
  const std::string message = imported(m);
  const std::string end = "the model's functions and bodies expand to more than 100000 nodes";
  ASSERT_GE(message.size(), end.size()) << message;
  EXPECT_EQ(message.substr(message.size() - end.size()), end);
}

}  // namespace
}  // namespace reprise::onnx::test
