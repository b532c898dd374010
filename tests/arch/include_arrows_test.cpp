// Dependencies point in one direction: apps -> codegen and backends -> runtime -> include. This
// test reads every #include line of the library and the apps and fails on an arrow that points
// back.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// What files below `from` may include. Own-project includes are matched by the longest prefix;
/// external headers by the prefixes in `external` ("std" stands for a header without a folder or
/// extension, and the C library). A folder that is not listed follows its parent's row.
struct Row {
  std::string from;
  std::vector<std::string> project;
  std::vector<std::string> external;
  std::vector<std::string> never = {};  // although a prefix in `project` matches
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"include/", {"reprise/"}, {}},
      {"runtime/", {"runtime/", "reprise/"}, {"flatbuffers/"}},
      {"runtime/package/", {"runtime/", "reprise/"}, {"flatbuffers/", "xxhash.h", "zstd.h"}},
      {"runtime/base/", {"runtime/base/"}, {}},
      // Operating systems, and nothing else of ours.
      {"runtime/platform/", {"runtime/platform/", "runtime/base/status.h"}, {}},
      {"runtime/images/",
       {"runtime/images/", "runtime/host/image_library.h"},
       {"jerror.h", "jpeglib.h", "openjpeg.h", "png.h", "tiffio.h", "webp/"}},
      {"backends/", {"backends/", "runtime/", "reprise/"}, {}},
      {"backends/host/", {"backends/", "runtime/"}, {}},
      {"backends/vulkan/", {"backends/", "runtime/"}, {"vulkan/", "volk.h"}},
      {"backends/cuda/", {"backends/", "runtime/"}, {}},
      // The parameter block is the one thing that emitted code and the runtime agree on.
      {"codegen/kernel/", {"codegen/kernel/", "runtime/base/", "runtime/plan/block_layout.h"}, {}},
      {"codegen/interpreter/", {"codegen/interpreter/", "codegen/kernel/", "runtime/base/"}, {}},
      {"codegen/emit/", {"codegen/emit/", "codegen/kernel/", "runtime/base/"}, {"spirv/"}},
      // One target with ops: the verifier and the parser ask the registry, and nothing else of it.
      {"codegen/graph/", {"codegen/graph/", "codegen/ops/op.h", "runtime/base/"}, {}},
      {"codegen/ops/", {"codegen/ops/", "codegen/graph/", "codegen/kernel/", "runtime/base/"}, {}},
      {"codegen/onnx/",
       {"codegen/onnx/", "codegen/ops/", "codegen/graph/", "runtime/"},
       {"google/protobuf/", "reprise_onnx.pb.h", "onnx.pb.h"}},
      {"codegen/passes/",
       {"codegen/passes/", "codegen/ops/", "codegen/graph/", "codegen/kernel/", "runtime/"},
       {}},
      {"codegen/lower/",
       {"codegen/lower/", "codegen/ops/", "codegen/graph/", "codegen/kernel/", "codegen/passes/",
        "shaders/", "runtime/"},
       {}},
      {"codegen/nvrtc/",
       {"codegen/nvrtc/", "codegen/emit/", "codegen/compile_options.h", "codegen/compile_report.h",
        "codegen/progress.h", "runtime/"},
       {}},
      // The compiler is above its parts, which take its context or its options.
      {"codegen/", {"codegen/", "shaders/", "runtime/"}, {}, {"codegen/compiler.h"}},
      {"codegen/autotune/", {"codegen/", "runtime/"}, {}},
      {"codegen/compiler", {"codegen/", "shaders/", "runtime/", "reprise/"}, {}},
      {"shaders/", {"shaders/", "codegen/kernel/", "runtime/base/", "runtime/device_facts.h"}, {}},
      // A sample shows what an application has: the public headers.
      {"apps/samples/", {"apps/samples/", "reprise/"}, {"CLI/", "png.h"}},
      {"apps/android/", {"apps/android/", "reprise/"}, {"android/", "jni.h"}},
      {"apps/filetype/", {"apps/filetype/", "apps/samples/", "reprise/"}, {"CLI/", "nlohmann/"}},
      {"apps/finetune/", {"apps/finetune/", "apps/samples/", "reprise/"}, {"CLI/"}},
      {"apps/vad/", {"apps/vad/", "apps/samples/", "reprise/"}, {"CLI/"}},
      {"apps/ocr/",
       {"apps/ocr/", "apps/samples/", "reprise/"},
       {"CLI/", "jpeglib.h", "nlohmann/", "png.h"}},
      // The renderer of reprise-live is the application's.
      {"apps/live/", {"apps/live/", "apps/samples/", "reprise/"}, {"CLI/", "SDL", "vulkan/"}},
      {"apps/",
       {"apps/", "backends/", "codegen/", "runtime/", "reprise/"},
       {"CLI/", "nlohmann/", "spirv-tools/"}},  // explain --dump disassembles
      // Beside the apps: an extension of Python that holds the library and the command line.
      {"python/", {"python/", "apps/", "backends/", "codegen/", "runtime/"}, {"nanobind/"}},
  };
  return rows;
}

struct Include {
  fs::path file;
  int line = 0;
  std::string target;
  bool quoted = false;
};

bool starts_with(const std::string& s, const std::string& prefix) {
  return s.compare(0, prefix.size(), prefix) == 0;
}

const Row* row_of(const std::string& file) {
  const Row* best = nullptr;
  for (const Row& row : table()) {
    if (starts_with(file, row.from) && (!best || row.from.size() > best->from.size())) best = &row;
  }
  return best;
}

/// A header of the language or the C library.
bool is_standard(const Include& include) {
  if (include.quoted) return false;
  const std::string& t = include.target;
  if (t.find('.') == std::string::npos) return t.find('/') == std::string::npos;
  static const std::vector<std::string> c = {"errno.h", "math.h",   "stddef.h", "stdint.h",
                                             "stdio.h", "stdlib.h", "string.h", "time.h"};
  return std::find(c.begin(), c.end(), t) != c.end();
}

/// A header of an operating system.
bool is_of_system(const Include& include) {
  static const std::vector<std::string> names = {
      "aclapi.h", "dlfcn.h",    "fcntl.h",  "io.h",    "malloc.h", "poll.h",   "pthread.h",
      "sddl.h",   "shellapi.h", "signal.h", "spawn.h", "unistd.h", "windows.h"};
  static const std::vector<std::string> folders = {"sys/", "mach-o/"};
  const std::string& t = include.target;
  return !include.quoted && (std::find(names.begin(), names.end(), t) != names.end() ||
                             std::any_of(folders.begin(), folders.end(),
                                         [&](const std::string& f) { return starts_with(t, f); }));
}

bool allowed(const Row& row, const Include& include) {
  if (is_standard(include)) return true;
  if (is_of_system(include)) return row.from == "runtime/platform/" || row.from == "apps/android/";
  auto match = [&](const std::vector<std::string>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const std::string& p) { return starts_with(include.target, p); });
  };
  // A generated or neighbouring header without a folder belongs to the including folder.
  const bool neighbour = include.quoted && include.target.find('/') == std::string::npos;
  if (match(row.never)) return false;
  return match(row.project) || match(row.external) ||
         (neighbour && !starts_with(include.target, "volk"));
}

std::vector<Include> includes_of(const fs::path& root) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> out;
  for (const char* top :
       {"include", "runtime", "backends", "codegen", "shaders", "apps", "python"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string ext = entry.path().extension();
      if (ext != ".h" && ext != ".hpp" && ext != ".cpp" && ext != ".def" && ext != ".c") continue;
      std::ifstream in(entry.path());
      std::string text;
      for (int line = 1; std::getline(in, text); ++line) {
        std::smatch m;
        if (std::regex_search(text, m, pattern)) {
          out.push_back({fs::relative(entry.path(), root), line, m[2], m[1] == "\""});
        }
      }
    }
  }
  return out;
}

std::vector<std::string> violations(const std::vector<Include>& includes) {
  std::vector<std::string> out;
  for (const Include& include : includes) {
    const Row* row = row_of(include.file.generic_string());
    if (row && allowed(*row, include)) continue;
    std::ostringstream message;
    message << include.file.generic_string() << ":" << include.line << " includes "
            << include.target << ", which " << (row ? row->from : "no row") << " may not";
    out.push_back(message.str());
  }
  return out;
}

TEST(IncludeArrows, NonePointsBack) {
  const std::vector<Include> includes = includes_of(source_dir());
  ASSERT_GT(includes.size(), 100u) << "the sources were not found";
  for (const std::string& v : violations(includes)) ADD_FAILURE() << v;
}

TEST(IncludeArrows, FindsAForbiddenArrow) {
  auto bad = [](const std::string& file, const std::string& target, bool quoted) {
    return violations({{file, 1, target, quoted}}).size() == 1;
  };
  EXPECT_TRUE(bad("runtime/session.cpp", "codegen/compiler.h", true));
  EXPECT_TRUE(bad("runtime/session.cpp", "backends/registry.h", true));
  EXPECT_TRUE(bad("codegen/compiler.cpp", "volk.h", false));
  EXPECT_TRUE(bad("codegen/compiler.cpp", "backends/registry.h", true));
  EXPECT_TRUE(bad("codegen/kernel/share.cpp", "codegen/interpreter/interpreter.h", true));
  EXPECT_TRUE(bad("codegen/lower/row.cpp", "codegen/interpreter/interpreter.h", true));
  EXPECT_TRUE(bad("codegen/plan_builder.h", "codegen/compiler.h", true));
  EXPECT_TRUE(bad("codegen/nvrtc/images.h", "codegen/compiler.h", true));
  EXPECT_TRUE(bad("codegen/nvrtc/images.h", "codegen/plan_builder.h", true));
  EXPECT_TRUE(bad("codegen/graph/graph.h", "runtime/plan/plan.h", true));
  EXPECT_TRUE(bad("codegen/passes/fuse.cpp", "codegen/emit/spirv/spirv.h", true));
  EXPECT_TRUE(bad("shaders/matmul.cpp", "codegen/graph/graph.h", true));
  EXPECT_TRUE(bad("codegen/kernel/builder.cpp", "codegen/graph/graph.h", true));
  EXPECT_TRUE(bad("include/reprise/reprise.hpp", "vulkan/vulkan.h", false));
  EXPECT_TRUE(bad("runtime/base/expr.cpp", "runtime/session.h", true));
  EXPECT_FALSE(bad("runtime/session.cpp", "runtime/backend.h", true));
  EXPECT_TRUE(bad("apps/filetype/main.cpp", "runtime/session.h", true));
  EXPECT_TRUE(bad("apps/common/model.cpp", "python/native/package.h", true));
  EXPECT_TRUE(bad("apps/filetype/main.cpp", "apps/common/status.h", true));
  EXPECT_TRUE(bad("apps/ocr/models.cpp", "codegen/compiler.h", true));
  EXPECT_TRUE(bad("apps/live/upscaler.cpp", "backends/vulkan/device.h", true));
  EXPECT_FALSE(bad("codegen/compiler_api.cpp", "codegen/compiler.h", true));
  EXPECT_FALSE(bad("apps/reprise/main.cpp", "CLI/CLI.hpp", false));
  EXPECT_FALSE(bad("runtime/platform/posix.cpp", "sys/mman.h", false));
  EXPECT_TRUE(bad("runtime/package/read.cpp", "sys/mman.h", false));
  EXPECT_TRUE(bad("backends/cuda/library.cpp", "dlfcn.h", false));
  EXPECT_TRUE(bad("apps/reprise/worker_pool.cpp", "windows.h", false));
  EXPECT_TRUE(bad("runtime/platform/posix.cpp", "runtime/session.h", true));
  EXPECT_FALSE(bad("include/reprise/types.h", "stdint.h", false));
}

}  // namespace
}  // namespace reprise::test
