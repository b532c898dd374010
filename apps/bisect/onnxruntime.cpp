#include "apps/bisect/onnxruntime.h"

#include <filesystem>
#include <fstream>

#include "apps/common/files.h"
#include "apps/common/npy.h"
#include "runtime/platform/child/child.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = R"py(
import sys
try:
    import numpy
    import onnxruntime
except ImportError as missing:
    sys.exit(f"{missing}; install it with: python3 -m pip install onnxruntime")
folder = sys.argv[1]
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
try:
    session = onnxruntime.InferenceSession(
        f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"]
    )
    feeds = {x.name: numpy.load(f"{folder}/in{i}.npy") for i, x in enumerate(session.get_inputs())}
    for i, y in enumerate(session.run(None, feeds)):
        numpy.save(f"{folder}/out{i}.npy", y)
except Exception as error:
    sys.exit(str(error))
)py";

/// A new folder, which is removed with the object.
class Folder {
 public:
  static Result<Folder> make() {
    RP_ASSIGN(const std::string name, platform::create_temporary_folder());
    return Folder(name);
  }
  Folder(Folder&& o) noexcept : path_(std::exchange(o.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  explicit Folder(const std::string& path) : path_(utf8_path(path)) {}
  fs::path path_;
};

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Runs python3. If it fails, the error has its output on standard error.
Status run_python(const Folder& folder) {
  const auto status = platform::run_program({"python3", "-c", kScript, utf8_text(folder.path())},
                                            utf8_text(folder / "errors"));
  if (!status.ok()) return unsupported("cannot run python3: " + status.status().message());
  if (*status == 0) return {};
  const std::string messages = contents(folder / "errors");
  return unsupported("ONNX Runtime cannot be the reference: " +
                     (messages.empty() ? "python3 failed without a message" : messages));
}

}  // namespace

Result<std::vector<HostTensor>> run_onnxruntime(const std::string& model, const InputSet& inputs) {
  RP_ASSIGN(const Folder folder, Folder::make());
  RP_TRY(write_file(utf8_text(folder / "model.onnx"), model));
  for (size_t i = 0; i < inputs.tensors.size(); ++i)
    RP_TRY(write_npy(inputs.tensors[i], utf8_text(folder / ("in" + std::to_string(i) + ".npy"))));
  RP_TRY(run_python(folder));
  std::vector<HostTensor> out;
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / ("out" + std::to_string(i) + ".npy");
    if (!fs::exists(path)) return out;
    RP_ASSIGN(HostTensor t, read_npy(utf8_text(path)));
    out.push_back(std::move(t));
  }
}

}  // namespace reprise::app
