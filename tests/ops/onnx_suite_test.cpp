// The ONNX backend suite's node tests, through the importer: inferred shapes, the core form on the
// host kernels and the element() definitions on the interpreter, all against the expected outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "codegen/onnx/importer.h"
#include "codegen/ops/row/op.h"
#include "tests/ops/run_graph.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int passed = 0, unsupported = 0, interpreted = 0;
  std::vector<std::string> wrong;
};

/// Tensors that the case's folder holds; fails for those that are not tensors (sequences).
Result<std::vector<HostTensor>> read_all(const fs::path& folder, const std::string& prefix) {
  std::vector<HostTensor> out;
  for (size_t i = 0;; ++i) {
    const fs::path p = folder / (prefix + std::to_string(i) + ".pb");
    if (!fs::exists(p)) return out;
    RP_ASSIGN(auto t, onnx::read_tensor_file(p.string()));
    out.push_back(std::move(t.tensor));
  }
}

bool close(const HostTensor& want, const HostTensor& got) {
  if (describe(want.dtype(), want.dims()) != describe(got.dtype(), got.dims())) return false;
  const auto a = numbers(want);
  const auto b = numbers(got);
  const DType t = want.dtype();
  const double slack = t == DType::F16 || t == DType::BF16 ? 1e-2 : is_float(t) ? 1e-4 : 0;
  // Quotients next to a half may be rounded either way.
  const double step = t == DType::U8 || t == DType::I8 ? 1 : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!(std::fabs(a[i] - b[i]) <= step + slack * (1 + std::fabs(a[i])))) return false;
  }
  return true;
}

bool comparable(const std::string& name) {
  static const char* const kSkipped[] = {
      "bernoulli",
      "training",  // random: no expected values
      "BFLOAT16",  // written as uint16, not as the model's dtype
      // Positions from fractional sizes (scale * dim), which later versions of the reference round.
      "resize_downsample_scales_cubic_align_corners",
      "resize_downsample_scales_linear_align_corners",
      // Its results are for an epsilon of 0.01, which the model does not have.
      "adam_multiple",
  };
  return std::none_of(std::begin(kSkipped), std::end(kSkipped),
                      [&](const char* s) { return name.find(s) != std::string::npos; });
}

Status check(const fs::path& folder, const std::string& name, Tally& tally) {
  RP_ASSIGN(const auto g, onnx::import_file((folder / "model.onnx").string()));
  const fs::path data = folder / "test_data_set_0";
  RP_ASSIGN(const auto inputs, read_all(data, "input_"));
  RP_ASSIGN(const auto expected, read_all(data, "output_"));
  if (inputs.size() != g->inputs.size()) return unsupported("optional inputs");
  RP_TRY(decompose_all(*g));
  for (Engine engine : {Engine::Host, Engine::Elements}) {
    int interpreted = 0;
    auto got = run_graph(*g, inputs, engine, &interpreted);
    const char* label = engine == Engine::Host ? " (host)" : " (elements)";
    if (!got.ok()) {
      if (got.status().code() == Code::Unsupported) return got.status();
      tally.wrong.push_back(name + label + ": " + got.status().message());
      return {};
    }
    tally.interpreted += interpreted;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (close(expected[i], (*got)[i])) continue;
      tally.wrong.push_back(name + label + ": output " + std::to_string(i) + " differs");
      return {};
    }
  }
  ++tally.passed;
  return {};
}

TEST(OnnxSuite, CoreFormsGiveTheExpectedOutputs) {
  const fs::path root = onnx_suite_dir() / "node";
  if (!fs::exists(root)) GTEST_SKIP() << "no ONNX test data at " << root;
  std::set<fs::path> folders;
  for (const auto& e : fs::directory_iterator(root)) folders.insert(e.path());
  Tally tally;
  std::map<std::string, int> reasons;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (!comparable(name)) continue;
    const Status s = check(folder, name, tally);
    if (s.ok()) continue;
    ++tally.unsupported;
    ++reasons[name + ": " + s.message()];
    EXPECT_TRUE(s.code() == Code::Unsupported || s.code() == Code::InvalidModel)
        << name << ": " << s.message();
  }
  std::string failures;
  for (const std::string& w : tally.wrong) failures += w + "\n";
  EXPECT_EQ(failures, "");
  std::string text;
  for (const auto& [reason, n] : reasons) text += reason + "\n";
  EXPECT_GE(tally.passed, 700) << text;
  EXPECT_GE(tally.interpreted, 1500);
}

}  // namespace
}  // namespace reprise::test
