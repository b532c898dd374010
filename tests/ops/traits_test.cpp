// An operator is one row: passes and lowering ask its traits, and know no operators by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/unsupported.h"
#include "tests/support/paths.h"

namespace reprise::ops {
namespace {

namespace fs = std::filesystem;

graph::Node& node(const char* op) {
  static graph::Graph g;
  graph::NodeSpec n;
  n.op = op;
  return *g.add_node(std::move(n));
}

/// What devices compute declares every trait that passes ask of it.
TEST(Traits, RowsLackNone) {
  for (const OpDef* def : all()) {
    if (def->lowering == Lowering::None) continue;
    SCOPED_TRACE(std::string(def->name));
    EXPECT_NE(def->layout, LayoutRole::Undeclared) << "the pass layout asks";
    EXPECT_NE(def->row.has_value(), def->sensitivity.has_value())
        << "autocast asks the precision class: of the scalar operation, or of the row";
    // The meaning of a scan is its `combine`, that of kernels their templates.
    const bool special = def->lowering == Lowering::Scan || def->lowering == Lowering::Kernel;
    EXPECT_TRUE(def->row || special || def->element != nullptr) << "lowering asks the meaning";
  }
}

TEST(Traits, RowsHaveWhatTheirLoweringAsksFor) {
  for (const OpDef* def : all()) {
    SCOPED_TRACE(std::string(def->name));
    const bool reduction = def->lowering == Lowering::Reduce;
    const bool product = def->lowering == Lowering::MatMul || def->lowering == Lowering::Conv;
    EXPECT_TRUE(!def->row || def->lowering == Lowering::Scalar);
    const bool scan = def->lowering == Lowering::Scan;
    EXPECT_EQ(def->combine.has_value(), reduction || scan);
    EXPECT_TRUE(!(reduction || scan) || def->sensitivity != kernel::Sensitivity::None);
    EXPECT_EQ(def->contracted != nullptr, product) << "cost asks";
    EXPECT_EQ(def->channels != nullptr, product) << "fold-batch-norm asks";
    EXPECT_TRUE(!(product || reduction) || def->reads_per_element != nullptr) << "cost asks";
    EXPECT_TRUE(!(def->moves || def->lowering == Lowering::View) || def->element != nullptr);
    EXPECT_FALSE(def->moves && def->reads_per_element != nullptr) << "it computes";
    EXPECT_LT(def->quantized_input, def->max_inputs);
  }
}

/// The table of unsupported operators has advice, and no operator that is supported.
TEST(Traits, UnsupportedOperatorsHaveAdvice) {
  std::set<std::string> seen;
  for (const Unsupported& u : unsupported_ops()) {
    SCOPED_TRACE(std::string(u.name));
    EXPECT_EQ(find(u.domain, u.name), nullptr);
    EXPECT_FALSE(u.reason.empty() || u.advice.empty());
    EXPECT_TRUE(seen.insert(std::string(u.domain) + "::" + std::string(u.name)).second);
    EXPECT_EQ(find_unsupported(u.domain, u.name.empty() ? "Any" : u.name), &u);
  }
  EXPECT_EQ(find_unsupported("", "Relu"), nullptr);
}

TEST(Traits, AreThoseOfTheOperator) {
  EXPECT_EQ(sensitivity_of(node("Exp")), kernel::Sensitivity::Exponential);
  EXPECT_EQ(sensitivity_of(node("CumSum")), kernel::Sensitivity::RunningSum);
  EXPECT_EQ(sensitivity_of(node("Add")), kernel::Sensitivity::Residual);
  EXPECT_EQ(sensitivity_of(node("Relu")), kernel::Sensitivity::None);
  EXPECT_TRUE(moves_elements(node("Transpose")));
  EXPECT_TRUE(moves_elements(node("Gather")));
  EXPECT_FALSE(moves_elements(node("Add")));
  EXPECT_TRUE(is_random(node("Dropout")));
  EXPECT_FALSE(is_random(node("Relu")));
  EXPECT_TRUE(is_core(node("Add"), kernel::ScalarOp::Add));
  EXPECT_FALSE(is_core(node("Add"), kernel::ScalarOp::Mul));
  EXPECT_EQ(layout_of(node("MaxPool")), LayoutRole::Window);
  EXPECT_EQ(layout_of(node("MatMul")), LayoutRole::Fixed);
  EXPECT_TRUE(is_identity(node("Reshape")));
  EXPECT_FALSE(is_identity(node("Relu")));
  EXPECT_TRUE(converts(node("Cast")));
  EXPECT_FALSE(converts(node("Relu")));
  EXPECT_TRUE(dequantizes(node("DequantizeLinear")));
  EXPECT_FALSE(dequantizes(node("Cast")));
}

TEST(Traits, OfNodesThatTheHostRunsAreNotAsked) {
  graph::Node& cast = node("Cast");
  cast.opset = 13;
  EXPECT_FALSE(is_core(cast));
  EXPECT_FALSE(converts(cast));
  graph::Node& dequantize = node("DequantizeLinear");
  dequantize.opset = 13;
  EXPECT_FALSE(dequantizes(dequantize));
  EXPECT_EQ(layout_of(cast), LayoutRole::Fixed);
}

/// Where operators have names: their rows, the front ends, what they compute on the host, and a
/// program that builds graphs. Classes of the Python extension and the parts of tokenizers have
/// names of their own.
bool may_name_operators(const std::string& file) {
  for (const char* folder :
       {"codegen/ops/", "codegen/onnx/", "codegen/families/", "codegen/builder/", "runtime/host/",
        "python/native/", "apps/text/", "apps/transcribe/"}) {
    if (file.rfind(folder, 0) == 0) return true;
  }
  return false;
}

void expect_no_names(const fs::path& path, const std::set<std::string>& names) {
  const std::string file = fs::relative(path, test::source_dir()).string();
  if ((path.extension() != ".cpp" && path.extension() != ".h") || may_name_operators(file)) return;
  static const std::regex literal("\"([A-Z][A-Za-z0-9]*)\"");
  std::ifstream in(path);
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(' ') == line.find("//")) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), literal), end; it != end; ++it) {
      EXPECT_EQ(names.count((*it)[1]), 0U)
          << file << ":" << number << " names " << (*it)[1] << ": ask a trait of its row";
    }
  }
}

TEST(Traits, OperatorsAreNamedInTheirRowsOnly) {
  std::set<std::string> names;
  for (const OpDef* def : all()) names.insert(std::string(def->name));
  for (const char* folder :
       {"codegen", "shaders", "runtime", "backends", "apps", "include", "python"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / folder))
      expect_no_names(entry.path(), names);
  }
}

/// Files of passes and lowering that know scalar operations, with the reason. Others ask a column
/// of scalar_ops.def, or a trait.
struct KnowsScalarOps {
  const char* file;
  const char* reason;
};
constexpr KnowsScalarOps kKnowsScalarOps[] = {
    {"codegen/passes/fold_batch_norm.cpp", "moves factors over sums, by the distributive law"},
    {"codegen/lower/problems/attention_match.cpp", "recognises the formula of the softmax"},
    {"codegen/lower/problems/recurrent.cpp", "writes the functions of recurrent cells"},
    {"codegen/lower/kernels/row.cpp", "combines the elements of rows"},
    {"codegen/lower/problems/row_values.cpp", "combines the elements of rows"},
    {"codegen/lower/kernels/scan.cpp", "combines the elements of lines"},
};

/// Writing an operation into a kernel is no question about a node.
bool writes_operation(const std::string& line) {
  static const std::regex written(R"(scalar_op\((kernel::)?ScalarOp::)");
  return std::regex_search(line, written);
}

TEST(Traits, PassesAndLoweringAskColumnsOfScalarOps) {
  std::set<std::string> knowing;
  for (const char* folder : {"codegen/passes", "codegen/lower"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string file = fs::relative(entry.path(), test::source_dir()).string();
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (line.find("ScalarOp::") == std::string::npos || writes_operation(line)) continue;
        const bool listed = std::ranges::any_of(
            kKnowsScalarOps, [&](const KnowsScalarOps& row) { return file == row.file; });
        EXPECT_TRUE(listed) << file << ": " << line
                            << "\nask a column of scalar_ops.def or a trait";
        knowing.insert(file);
      }
    }
  }
  for (const KnowsScalarOps& row : kKnowsScalarOps)
    EXPECT_EQ(knowing.count(row.file), 1U) << row.file << " needs no row: " << row.reason;
}

}  // namespace
}  // namespace reprise::ops
