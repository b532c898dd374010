// The status in README.md is what the tables of other documents say: operators.md, which the
// registry writes, the results in pytorch.md and benchmarks.md, and the summary of platforms.md.
// tools/operators writes it anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

std::string document_text(const std::string& file) {
  std::ifstream in(source_dir() / file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The text between two markers; empty if one is missing.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  const size_t to = text.find(end, from == std::string::npos ? from : from + begin.size());
  if (to == std::string::npos) return {};
  return text.substr(from + begin.size(), to - from - begin.size());
}

using Row = std::vector<std::string>;  // the cells of a row of a table

/// The rows of the tables in a text, without lines of dashes.
std::vector<Row> rows_of(const std::string& text) {
  std::vector<Row> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ")) continue;
    Row cells;
    for (size_t at = 2, bar = 0; (bar = line.find('|', at)) != std::string::npos; at = bar + 2) {
      const size_t last = line.find_last_not_of(' ', bar - 1);
      cells.push_back(last < at ? "" : line.substr(at, last - at + 1));
      if (bar + 2 > line.size()) break;
    }
    out.push_back(cells);
  }
  return out;
}

struct OperatorCount {
  int all = 0, device = 0;
};

/// Per domain, in the order of operators.md.
std::vector<std::pair<std::string, OperatorCount>> count_operators() {
  std::vector<std::pair<std::string, OperatorCount>> out;
  const std::string text = document_text("docs/operators.md");
  for (size_t at = text.find("\n## "); at != std::string::npos;) {
    const size_t next = text.find("\n## ", at + 1);
    const std::string domain = between(text.substr(at), "## ", "\n");
    OperatorCount count;
    for (const Row& row : rows_of(text.substr(at, next - at))) {
      if (row.size() != 4 || row[0] == "operator") continue;
      ++count.all;
      if (row[3].find("device") != std::string::npos) ++count.device;
    }
    if (count.all > 0) out.emplace_back(domain, count);
    at = next;
  }
  return out;
}

std::string operators_row() {
  std::string list;
  OperatorCount sum;
  for (const auto& [domain, count] : count_operators()) {
    list += (list.empty() ? "" : ", ") + domain + " " + std::to_string(count.all) + " (" +
            std::to_string(count.device) + ")";
    sum.all += count.all;
    sum.device += count.device;
  }
  return "| [ONNX operators](docs/operators.md) | " + std::to_string(sum.all) + ", of which " +
         std::to_string(sum.device) + " run on devices: " + list + " |\n";
}

std::string pytorch_row() {
  std::map<std::string, std::string> number;
  const std::string table = between(document_text("docs/pytorch.md"), "<!-- op_table.py: begin -->",
                                    "<!-- op_table.py: end -->");
  for (const Row& row : rows_of(table))
    if (row.size() == 2) number.emplace(row[0], row[1]);
  return "| [PyTorch's operator database](docs/pytorch.md#operators) | " +
         number["run on compiled kernels"] + " entries run on compiled kernels, " +
         number["run partly in PyTorch"] + " partly and " + number["run in PyTorch"] +
         " wholly in PyTorch; " + number["differ from eager"] + " differ from eager, " +
         number["leave nothing to compile"] + " leave nothing to compile |\n";
}

std::string one_decimal(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", x);
  return text;
}

std::string speed_row() {
  const std::string table = between(document_text("docs/benchmarks.md"),
                                    "| model | Reprise | first | ORT WebGPU ", "\n\n");
  double product = 1, least = INFINITY;
  int models = 0;
  for (const Row& row : rows_of(table)) {
    if (row.size() < 4 || row[1].find_first_not_of("0123456789.") != std::string::npos) continue;
    if (row[3].find_first_not_of("0123456789.") != std::string::npos) continue;  // it is wrong
    const double ratio = std::stod(row[3]) / std::stod(row[1]);
    product *= ratio;
    least = std::min(least, ratio);
    ++models;
  }
  return "| [speed on a CPU's Vulkan driver](docs/benchmarks.md#measured) | " +
         one_decimal(std::pow(product, 1.0 / models)) +
         " times that of ONNX Runtime's WebGPU provider over " + std::to_string(models) +
         " models (geometric mean; least " + one_decimal(least) + ") |\n";
}

/// Device times of NVIDIA's library divided by those of Reprise on CUDA, and on Vulkan.
std::string gpu_row() {
  const std::string table =
      between(document_text("docs/benchmarks.md"), "| device ms | Reprise CUDA ", "\n\n");
  std::string list;
  for (const Row& row : rows_of(table)) {
    const bool shown = row.size() == 4 && (row[0].starts_with("softmax 16384x4096 ") ||
                                           row[0].starts_with("matmul 4096 "));
    if (!shown) continue;
    char ratio[64];
    std::snprintf(ratio, sizeof ratio, " %.2f (%.2f)", std::stod(row[3]) / std::stod(row[1]),
                  std::stod(row[3]) / std::stod(row[2]));
    list += (list.empty() ? "" : ", ") + row[0] + ratio;
  }
  return "| [speed on an NVIDIA H200](docs/benchmarks.md#on-an-nvidia-gpu) | of cuDNN's and "
         "cuBLAS's, by CUDA (by Vulkan): " +
         list + " |\n";
}

/// The systems of the summary in platforms.md, with what is said of the runtime there.
std::string systems_row() {
  const std::string table = between(document_text("docs/platforms.md"), "## In short\n", "\n## ");
  std::string list;
  for (const Row& row : rows_of(table)) {
    if (row.size() != 4 || row[0] == "system") continue;
    list += (list.empty() ? "" : "; ") + row[0] + ": " + row[1];
  }
  return "| [systems](docs/platforms.md) | " + list + " |\n";
}

constexpr const char* kBegin = "<!-- status:begin; tools/operators writes it -->\n";
constexpr const char* kEnd = "<!-- status:end -->";

TEST(Readme, HasTheCurrentStatus) {
  const std::string readme = document_text("README.md");
  const std::string found = between(readme, kBegin, kEnd);
  ASSERT_FALSE(found.empty()) << "README.md has no status between its markers";
  const std::string expected = "| what | where we are |\n|---|---|\n" + systems_row() +
                               operators_row() + pytorch_row() + speed_row() + gpu_row();
  std::string written = readme;
  written.replace(written.find(kBegin) + std::string(kBegin).size(), found.size(), expected);
  const auto path = binary_dir() / "README.md";
  std::ofstream(path) << written;
  EXPECT_EQ(found, expected) << "run tools/operators, or copy " << path << " to README.md";
}

/// The numbers that the status consists of were found, so that an empty table is no status.
TEST(Readme, CountsWhatTheDocumentsList) {
  const auto operators = count_operators();
  ASSERT_GE(operators.size(), 4U);
  EXPECT_GT(operators[0].second.all, 200) << operators[0].first;
  EXPECT_LT(operators[0].second.device, operators[0].second.all);
  for (const std::string& row :
       {systems_row(), operators_row(), pytorch_row(), speed_row(), gpu_row()}) {
    EXPECT_EQ(row.find("nan"), std::string::npos) << row;
    EXPECT_EQ(row.find("  "), std::string::npos) << row << "a number was not found";
  }
}

}  // namespace
}  // namespace reprise::test
