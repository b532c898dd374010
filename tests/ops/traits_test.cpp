// An operator is one row: passes and lowering ask its traits, and know no operators by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "codegen/ops/op.h"
#include "tests/support/paths.h"

namespace reprise::ops {
namespace {

namespace fs = std::filesystem;

TEST(Traits, RowsHaveWhatTheirLoweringAsksFor) {
  for (const OpDef* def : all()) {
    SCOPED_TRACE(std::string(def->name));
    const bool is_reduction = def->lowering == Lowering::Reduce;
    EXPECT_TRUE(!def->row || def->lowering == Lowering::Scalar);
    EXPECT_EQ(def->combine.has_value(), is_reduction);
    EXPECT_TRUE(!is_reduction || def->sensitivity != kernel::Sensitivity::None);
    EXPECT_TRUE(!def->row || def->sensitivity == kernel::Sensitivity::None)
        << "the scalar row has it";
    EXPECT_TRUE(!(def->moves || def->lowering == Lowering::View) || def->element != nullptr);
    EXPECT_FALSE(def->moves && def->reads_per_element != nullptr) << "it computes";
  }
}

TEST(Traits, AreThoseOfTheOperator) {
  const auto node = [](const char* op) {
    graph::Node n;
    n.op = op;
    return n;
  };
  EXPECT_EQ(sensitivity_of(node("Exp")), kernel::Sensitivity::Exponential);
  EXPECT_EQ(sensitivity_of(node("CumSum")), kernel::Sensitivity::RunningSum);
  EXPECT_EQ(sensitivity_of(node("Add")), kernel::Sensitivity::None);
  EXPECT_TRUE(moves_elements(node("Transpose")));
  EXPECT_TRUE(moves_elements(node("Gather")));
  EXPECT_FALSE(moves_elements(node("Add")));
  EXPECT_TRUE(is_random(node("Dropout")));
  EXPECT_FALSE(is_random(node("Relu")));
}

/// Files outside codegen/ops and codegen/onnx that name operators, and why.
const std::map<std::string, std::string>& naming_files() {
  static const std::map<std::string, std::string> files = {
      {"codegen/graph/core_form.cpp", "the attributes of the core form, which rows are to declare"},
      {"codegen/lower/attention_match.cpp", "recognises the operators that attention is made of"},
      {"codegen/lower/cost.cpp", "flops of contractions, which rows are to declare"},
      {"codegen/lower/group.cpp", "views that only rename"},
      {"codegen/lower/lower.cpp", "the schedules of each contraction"},
      {"codegen/lower/fuse_injective.cpp", "views that only rename"},
      {"codegen/passes/autocast.cpp", "squares, quotients and residuals; constants of layers"},
      {"codegen/passes/canonicalize.cpp", "rewrites these operators"},
      {"codegen/passes/fold_batch_norm.cpp", "rewrites these operators"},
      {"codegen/passes/fold_constants.cpp", "folds the weights of convolutions"},
      {"codegen/passes/layout.cpp", "behaviour with layouts, which rows are to declare"},
      {"codegen/passes/layout_rewrite.cpp", "behaviour with layouts, which rows are to declare"},
      {"codegen/passes/narrow_weights.cpp", "rewrites these operators"},
      {"codegen/passes/shape_values.cpp", "makes ShapeValue"},
  };
  return files;
}

TEST(Traits, OperatorsAreNamedInTheirRowsOnly) {
  std::set<std::string> names;
  for (const OpDef* def : all()) names.insert(std::string(def->name));
  static const std::regex literal("\"([A-Z][A-Za-z0-9]*)\"");
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / "codegen")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    const std::string file = fs::relative(entry.path(), test::source_dir()).string();
    if (file.rfind("codegen/ops/", 0) == 0 || file.rfind("codegen/onnx/", 0) == 0) continue;
    std::ifstream in(entry.path());
    size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.find_first_not_of(' ') == line.find("//")) continue;
      for (std::sregex_iterator it(line.begin(), line.end(), literal), end; it != end; ++it) {
        if (names.count((*it)[1]) == 0) continue;
        found.insert(file);
        EXPECT_EQ(naming_files().count(file), 1U)
            << file << ":" << number << " names " << (*it)[1] << ": ask a trait of its row";
      }
    }
  }
  for (const auto& [file, reason] : naming_files())
    EXPECT_EQ(found.count(file), 1U) << file << " names no operator any more: drop its row";
}

}  // namespace
}  // namespace reprise::ops
