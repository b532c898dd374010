#include "tests/bytes/seeds.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "apps/common/npy.h"
#include "codegen/compile/compiler.h"
#include "tests/bytes/format_targets.h"
#include "tests/support/paths.h"
#ifdef REPRISE_HAVE_TEXT
#include "tests/bytes/text_targets.h"
#endif
#include "tests/support/text_cases.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 4096;
constexpr const char* kWithBodies = "tests/bytes/graphs";

/// Small files of this name below a folder of the ONNX suite, `step` cases apart.
std::vector<std::string> suite_files(const std::string& name, size_t step) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(onnx_suite_dir() / "node", error)) {
    if (entry.path().filename() == name && entry.file_size() <= kMaxBytes)
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < paths.size(); i += step) out.push_back(read_file(paths[i]));
  return out;
}

std::vector<std::string> graph_texts() {
  std::vector<std::string> out;
  for (const char* folder : {"tests/agreement", "tests/passes", kWithBodies}) {
    for (const TextCase& c : text_cases(source_dir() / folder)) {
      if (c.source.size() <= kMaxBytes) out.push_back(c.source);
    }
  }
  return out;
}

/// Packages of some of the graphs, for the host and one device; all of those that have bodies,
/// which the device runs.
std::vector<std::string> packages() {
  const TempDir dir;
  std::vector<std::string> out, texts;
  const std::vector<std::string> all = graph_texts();
  for (size_t i = 0; i < all.size(); i += 8) texts.push_back(all[i]);
  for (const TextCase& c : text_cases(source_dir() / kWithBodies)) texts.push_back(c.source);
  for (const std::string& text : texts) {
    auto g = graph::parse(text);
    if (!g.ok()) continue;
    CompileOptions options;
    options.targets = {"vulkan-baseline"};
    options.probes = text.find(" {\n") != std::string::npos;
    const auto package = compile(std::move(*g), options);
    const fs::path file = dir / "seed.rpk";
    if (!package.ok() || !package::write(*package, file).ok()) continue;
    out.push_back(read_file(file));
  }
  for (const std::string& text : all) {  // one that has plans for some sizes
    auto g = graph::parse(text);
    if (!g.ok() || (*g)->symbols.empty()) continue;
    CompileOptions options;
    options.targets = {"vulkan-baseline"};
    options.plans = {PlanChoice::Kind::Given,
                     {{{(*g)->symbols[0].name, {1, 1}}}, {{(*g)->symbols[0].name, {2, 16}}}}};
    const auto package = compile(std::move(*g), options);
    const fs::path file = dir / "seed.rpk";
    if (!package.ok() || !package::write(*package, file).ok()) continue;
    out.push_back(read_file(file));
    break;
  }
  return out;
}

/// The inputs and outputs of the cases of sequences, optionals and maps.
std::vector<std::string> value_files() {
  std::vector<fs::path> paths;
  const fs::path cases = own_cases("sequences");
  for (const auto& entry : fs::recursive_directory_iterator(cases))
    if (entry.path().extension() == ".pb") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(read_file(path));
  return out;
}

std::vector<std::string> npy_files() {
  std::vector<std::string> out;
  for (const DType dtype :
       {DType::F32, DType::F16, DType::I64, DType::U8, DType::Bool, DType::I4, DType::F8E5M2}) {
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{}, {0}, {3}, {2, 3}, {1, 2, 1, 2}}) {
      HostTensor t(dtype, dims);
      for (std::byte& b : t.mutable_bytes()) b = std::byte{1};
      out.push_back(app::format_npy(t));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> seeds_of(const std::string& target) {
  if (target == "onnx") return suite_files("model.onnx", 8);
  if (target == "tensor") return suite_files("input_0.pb", 16);
  if (target == "value") return value_files();
  if (target == "package") return packages();
  if (target == "graph") return graph_texts();
  if (target == "blocks") return block_files();
  if (target == "safetensors") return safetensors_files();
  if (target == "npy") return npy_files();
#ifdef REPRISE_HAVE_TEXT
  return text_seeds_of(target);
#else
  return {};
#endif
}

std::vector<std::string> findings_of(const std::string& target) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(source_dir() / "tests/bytes/corpus" / target, error))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(read_file(path));
  return out;
}

}  // namespace reprise::test
