// Runs the single-node cases of the ONNX backend suite (Debian: libonnx-testdata) on the host
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "codegen/onnx/file/attributes.h"
#include "codegen/onnx/importer.h"
#include "runtime/host/host_kernels.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

struct Skip {
  std::string_view name;  // of the case's folder; a last * stands for any end
  std::string_view reason;
};

constexpr Skip kSkips[] = {
    {"test_training_dropout", "random: expects numpy's generator"},
    {"test_training_dropout_mask", "random: expects numpy's generator"},
    {"test_training_dropout_default*", "random: expects numpy's generator"},
    {"test_bernoulli*", "random: expects numpy's generator"},
    {"test_cast_BFLOAT16*", "the input file holds uint16, not bfloat16"},
    {"test_cast_FLOAT_to_BFLOAT16*", "the output file holds uint16, not bfloat16"},
    {"test_castlike_BFLOAT16*", "the input file holds uint16, not bfloat16"},
    {"test_castlike_FLOAT_to_BFLOAT16*", "the output file holds uint16, not bfloat16"},
    {"test_resize_downsample_scales_cubic_align_corners",
     "aligns the corners of a fractional size; PyTorch and ONNX Runtime round it first"},
    {"test_resize_downsample_scales_linear_align_corners",
     "aligns the corners of a fractional size; PyTorch and ONNX Runtime round it first"},
    {"test_adagrad*", "training operator"},
    {"test_adam*", "training operator"},
    {"test_momentum*", "training operator"},
    {"test_nesterov_momentum*", "training operator"},
    {"test_sequence*", "sequences are not tensors"},
    {"test_optional*", "optionals are not tensors"},
    {"test_identity_opt*", "optionals are not tensors"},
    {"test_identity_sequence*", "sequences are not tensors"},
    {"test_if*", "control flow belongs to the plan"},
    {"test_loop*", "control flow belongs to the plan"},
    {"test_scan*", "control flow belongs to the plan"},
    {"test_dft*", "signal operators are not supported"},
    {"test_stft*", "signal operators are not supported"},
    {"test_melweightmatrix*", "signal operators are not supported"},
    {"test_strnormalizer*", "text operators are not supported"},
    {"test_tfidfvectorizer*", "text operators are not supported"},
    {"test_det*", "linear algebra beyond products is not supported"},
};

std::string_view skip_reason(const std::string& name) {
  for (const Skip& s : kSkips) {
    const bool open = s.name.back() == '*';
    const std::string_view stem = open ? s.name.substr(0, s.name.size() - 1) : s.name;
    if (open ? name.starts_with(stem) : name == stem) return s.reason;
  }
  return {};
}

/// Numbers of a tensor; 64-bit integers of the suite are small.
std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> v;
  if (t.dtype() == DType::String) return v;
  for (int64_t i = 0; i < t.count(); ++i) v.push_back(test::number(t, i));
  return v;
}

/// The suite's own tolerance: relative 1e-3, absolute 1e-7; integers are equal.
std::string mismatch(const HostTensor& got, const HostTensor& want) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    return "got " + describe(got.dtype(), got.dims()) + ", want " +
           describe(want.dtype(), want.dims());
  }
  if (got.dtype() == DType::String) return got.strings() == want.strings() ? "" : "strings differ";
  const auto a = numbers(got);
  const auto b = numbers(want);
  const double relative = is_float(got.dtype()) ? 1e-3 : 0;
  const double absolute = is_float(got.dtype()) ? 1e-7 : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= absolute + relative * std::fabs(b[i])) continue;
    return "element " + std::to_string(i) + ": got " + std::to_string(a[i]) + ", want " +
           std::to_string(b[i]);
  }
  return "";
}

/// A case with one node of the default domain; its tensors by name.
struct NodeCase {
  std::shared_ptr<const onnx::wire::Model> model;
  const onnx::wire::Node* node = nullptr;
  int64_t opset = 0;
  AttrMap attrs;
  std::map<std::string, HostTensor> given, wanted;
};

/// Nothing for graphs of several nodes (expanded function bodies) and other domains.
Result<std::optional<NodeCase>> read_case(const fs::path& folder) {
  NodeCase c;
  RP_ASSIGN(c.model, onnx::read_model((folder / "model.onnx").string()));
  const auto& g = c.model->graph();
  if (g.node_size() != 1) return std::optional<NodeCase>();
  c.node = &g.node(0);
  for (const auto& import : c.model->opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") c.opset = import.version();
  }
  onnx::ExternalData none;
  for (const auto& a : c.node->attribute()) {
    RP_ASSIGN(auto value, onnx::to_attr(a, c.model, none));
    c.attrs.set(a.name(), std::move(value));
  }
  for (const auto& t : g.initializer()) {
    RP_ASSIGN(c.given[t.name()], onnx::to_host(t, c.model, none));
  }
  const fs::path data = folder / "test_data_set_0";
  for (int i = 0; i < g.input_size(); ++i) {
    const fs::path path = data / ("input_" + std::to_string(i) + ".pb");
    RP_ASSIGN(auto t, onnx::read_tensor_file(path.string()));
    c.given[g.input(i).name()] = std::move(t.tensor);
  }
  for (int i = 0; i < g.output_size(); ++i) {
    const fs::path path = data / ("output_" + std::to_string(i) + ".pb");
    RP_ASSIGN(auto t, onnx::read_tensor_file(path.string()));
    c.wanted[g.output(i).name()] = std::move(t.tensor);
  }
  return std::optional(std::move(c));
}

/// An empty string if every output agrees.
Result<std::string> run_case(const NodeCase& c) {
  const std::string& op = c.node->op_type();
  const host::Kernel kernel = host::find(op);
  if (kernel == nullptr) return unsupported("no host kernel for " + op);
  std::vector<const HostTensor*> inputs;
  for (const auto& name : c.node->input()) {
    inputs.push_back(name.empty() ? nullptr : &c.given.at(name));
  }
  const auto outputs = static_cast<size_t>(c.node->output_size());
  RP_ASSIGN(const auto got, kernel({op, c.opset, c.attrs, inputs, outputs}));
  for (size_t i = 0; i < outputs; ++i) {
    const auto it = c.wanted.find(c.node->output(static_cast<int>(i)));
    if (it == c.wanted.end()) continue;
    const std::string m = mismatch(got[i], it->second);
    if (!m.empty()) return "output " + std::to_string(i) + ": " + m;
  }
  return std::string();
}

TEST(HostOnnxSuite, SingleNodeCases) {
  const fs::path root = onnx_suite_dir() / "node";
  if (!fs::is_directory(root)) {
    GTEST_SKIP() << root << " does not exist; install libonnx-testdata";
  }
  size_t passed = 0;
  size_t skipped = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (!skip_reason(name).empty()) {
      ++skipped;
      continue;
    }
    SCOPED_TRACE(name);
    const auto c = read_case(entry.path());
    if (!c.ok()) {
      ADD_FAILURE() << c.status().message();
      continue;
    }
    if (!c->has_value()) continue;
    const auto result = run_case(**c);
    if (!result.ok()) {
      ADD_FAILURE() << result.status().message();
      continue;
    }
    EXPECT_EQ(*result, "");
    if (result->empty()) ++passed;
  }
  std::cout << passed << " cases passed, " << skipped << " skipped\n";
  EXPECT_GE(passed, 700U);
}

}  // namespace
}  // namespace reprise::test
